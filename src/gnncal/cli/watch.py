"""``gnncal watch``: compare labels with the predicted probabilities as they arrive."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from gnncal.calibrators.base import Calibrator
from gnncal.cli import params
from gnncal.cli.params import File, Number, argument, option
from gnncal.cli.terminal import print_result
from gnncal.data.errors import InputError
from gnncal.files.output import check_file, seal, write_file
from gnncal.files.saved_calibrators import load
from gnncal.reporting.shift import watch_page
from gnncal.shift.log import DATE, Appended, age_of, append_labels, check_log, read_log
from gnncal.shift.watch import Watch, rate_of, standard_error

ALARM = 6  # the exit code that a scheduler can act on
LOG = "CSV with label and p0, p1, ... (or prediction and confidence); only append lines."


def watch(
    calibrator: params.CalibratorFile,
    log: Annotated[Path, argument("LOG", LOG)],
    scores: Annotated[File, option("File of probabilities or decisions with ids.")] = None,
    labels: Annotated[File, option("File of labels with ids, for the nodes of --scores.")] = None,
    mature_after: Annotated[
        params.Text,
        option(
            "Append a scored node only when its date is so much older than the newest date of "
            "--scores, such as 30d or 12h.",
            metavar="AGE",
        ),
    ] = None,
    date: Annotated[
        params.Text, option("Column of --scores with dates.", metavar="COLUMN", default=DATE)
    ] = None,
    state: Annotated[
        File, option("State file: progress and evidence so far.", default="LOG.watch.json")
    ] = None,
    positive: params.PositiveOfFit = None,
    act: Annotated[Number, option("Guaranteed share of positives among nodes acted on.")] = None,
    clear: Annotated[Number, option("Guaranteed share of negatives among nodes cleared.")] = None,
    decide: Annotated[Number, option("Guaranteed accuracy of automatic decisions.")] = None,
    false_alarms: Annotated[
        Number, option("Maximum probability of ever raising a false alarm.", default="0.05")
    ] = None,
    tolerance: Annotated[
        Number,
        option(
            "Ignore differences up to this size between mean probability and observed share.",
            default="the calibrator's standard error; less for a rare class",
        ),
    ] = None,
    page: params.Page = None,
    overwrite: params.OverwriteFile = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Read new labels.

    Run the command as often as you like: each line of LOG counts once, and while calibration holds
    within --tolerance, the probability of any alarm is at most --false-alarms. Each run continues
    from the state file. LOG need not exist yet. With --scores and --labels, scored nodes that have
    a label and are not in LOG yet are appended to it first, in the order of --scores. Where one
    class is labelled earlier than others, pass --mature-after. Exit code 6 means alarm.
    """
    fitted = load(calibrator)
    settings = {"act": act, "clear": clear, "decide": decide, "positive": positive}
    settings |= {"false_alarms": false_alarms, "tolerance": tolerance}
    asked: dict[str, Any] = {name: each for name, each in settings.items() if each is not None}
    if (scores is None) != (labels is None):
        raise InputError("--scores and --labels go together: they are matched by id; pass both.")
    place = Path(f"{log}.watch.json") if state is None else state
    if mature_after is None and date is not None:
        raise InputError("--date is for --mature-after; pass both, or leave --date out.")
    if mature_after is not None and scores is None:
        raise InputError("--mature-after needs --scores with dates, and --labels; pass both.")
    age = None if mature_after is None else age_of(mature_after)
    check_log(log)
    if page is not None:
        check_file(page, inputs=[calibrator, log, place], overwrite=overwrite)
    check_file(place, inputs=[calibrator, log])
    identity = sha256(calibrator.read_bytes()).hexdigest()
    running = _begun(place, fitted, asked, identity)
    appended = Appended(0, 0, 0)
    if scores and labels:
        appended = append_labels(log, scores, labels, mature_after=age, date=date or DATE)
    reading = read_log(log, running, running.log.get("position"))
    running.log = {"position": reading.position, "calibrator": identity}
    report = running.report()
    if page is not None:
        html = watch_page(running, title=f"Watch of {log.name}")
        write_file(page, seal(html), overwrite=overwrite)
    running.save(place)  # last: what was not written is read again
    passed = f", {reading.n_without_label:,} without a label" if reading.n_without_label else ""
    passed += f", {appended.n_unscored:,} without a score" if appended.n_unscored else ""
    passed += f", {appended.n_young:,} younger than {mature_after}" if appended.n_young else ""
    passed += "" if log.exists() else f" ({log} does not exist yet)"
    print_result(
        f"{report}\n\n{reading.n_new:,} new labels{passed}; state in {place}",
        {
            **vars(report),
            "n_new": reading.n_new,
            "n_unscored": appended.n_unscored,
            "n_young": appended.n_young,
            "state": str(place),
        },
        as_json=json,
    )
    if report.is_alarm:
        raise typer.Exit(ALARM)


def _begun(place: Path, fitted: Calibrator, asked: dict[str, Any], identity: str) -> Watch:
    """Return the watch of a state, or a new one."""
    own: dict[str, Any] = {}
    if not place.exists():
        own = {"tolerance": standard_error(fitted), "positive": fitted.positive_}
    names = getattr(fitted, "class_names_", None)
    fresh = Watch(n_classes=len(fitted.classes_), class_names=names, **{**own, **asked})
    if own:
        if fresh.positive is not None and "tolerance" not in asked:
            own["positive_rate"] = rate_of(fitted, fresh.positive)
            return Watch(n_classes=len(fitted.classes_), class_names=names, **{**own, **asked})
        return fresh
    running = Watch.load(place)
    if running.log.get("calibrator") != identity:
        raise InputError(
            f"{place} belongs to another calibrator; to watch this one, pass another --state."
        )
    for name in asked:
        was, wanted = running.params[name], fresh.params[name]
        if was != wanted:
            raise InputError(
                f"--{name.replace('_', '-')} is {wanted}, but {place} was begun with {was}; leave "
                "the option out, or pass another --state."
            )
    return running
