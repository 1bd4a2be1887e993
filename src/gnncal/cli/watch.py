"""``gnncal watch``: compare labels that trickle in with what was promised."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.params import CalibratorFile, OverwriteFile, Page
from gnncal.cli.terminal import out, page_target, print_json
from gnncal.data.errors import InputError
from gnncal.files.output import check_file

if TYPE_CHECKING:
    from gnncal.calibrators.base import Calibrator
    from gnncal.shift.watch import Watch

STANDARD_ERROR = 0.6  # times the root of the labels, of methods without a posterior; measured
ALARM = 6  # the exit code that a scheduler can act on


def watch(
    calibrator: CalibratorFile,
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="CSV or JSON lines (.jsonl) with label and p0, p1, ... (or prediction and "
            "confidence); lines are only appended.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="File that keeps where the watch is.", show_default="LOG.watch.json"),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="A class whose probability is watched too, name or number.")
    ] = None,
    act: Annotated[
        float | None, typer.Option(help="Promised share of positives among nodes acted on.")
    ] = None,
    clear: Annotated[
        float | None, typer.Option(help="Promised share of others among nodes cleared.")
    ] = None,
    decide: Annotated[
        float | None, typer.Option(help="Promised accuracy of automatic decisions.")
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(help="Largest chance of a false alarm, ever.", show_default="0.05"),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="A gap to be left alone, as 0.02.", show_default="the calibrator's standard error"
        ),
    ] = None,
    plan: Annotated[
        float | None,
        typer.Option(metavar="GAP", help="Only say how many labels find a gap, such as 0.05."),
    ] = None,
    page: Page = None,
    overwrite: OverwriteFile = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Take in the new lines of LOG and say whether the labels agree with what was promised.

    Run it as often as you like: lines that were read are not counted again, and while all is
    well the chance of an alarm stays below the stated one for ever. The state is a small file; a
    watch that was stopped goes on where it was. Exit code 6 means alarm.
    """
    from gnncal.files.saved_calibrators import load
    from gnncal.shift.log import read_log

    fitted = load(calibrator)
    options = {
        "positive": positive,
        "act": act,
        "clear": clear,
        "decide": decide,
        "false_alarms": false_alarms,
        "tolerance": tolerance,
    }
    if plan is not None:
        _print_plan(fitted, plan, options, json=json)
        return
    if log is None:
        raise InputError("LOG is missing; pass the file with the labels, or --plan GAP.")
    place = Path(f"{log}.watch.json") if state is None else state
    target = (
        None
        if page is None
        else page_target(page, inputs=[calibrator, log, place], overwrite=overwrite)
    )
    check_file(place, inputs=[calibrator, log])
    identity = sha256(calibrator.read_bytes()).hexdigest()
    running, about = _begun(place, fitted, options, identity)
    reading = read_log(log, running, about.get("position"))
    running.save(place, log={"position": reading.position, "calibrator": identity})
    report = running.report()
    if target is not None:
        from gnncal.files.output import write_page
        from gnncal.reporting.shift import watch_page

        text = watch_page(running, title=f"Watch of {log.name}")
        write_page(target, text, overwrite=overwrite)
    if json:
        print_json({**vars(report), "n_new": reading.n_new, "state": str(place)})
    else:
        out.print(report, soft_wrap=True)
        passed = f", {reading.n_without_label:,} without a label" if reading.n_without_label else ""
        out.print(f"\n{reading.n_new:,} new labels{passed}; state in {place}", soft_wrap=True)
    if report.is_alarm:
        raise typer.Exit(ALARM)


def standard_error(fitted: Calibrator) -> float:
    """Return about how far a calibrator's probabilities are off because its labels are few.

    A fit is never exact, so labels disagree with it by this much although nothing has changed.
    """
    n = max(sum(fitted.fit_report_.nodes_per_class), 1)
    own = fitted.standard_error_
    return round(min(STANDARD_ERROR / n**0.5 if own is None else own, 0.2), 4)


def _begun(
    place: Path, fitted: Calibrator, options: dict[str, Any], identity: str
) -> tuple[Watch, dict[str, Any]]:
    """Return the watch of a state, or a new one, and what is known about its log."""
    from gnncal.shift.watch import Watch

    given = {name: value for name, value in options.items() if value is not None}
    if not place.exists():
        given = {"tolerance": standard_error(fitted), **given}
    names = getattr(fitted, "class_names_", None)
    fresh = Watch(n_classes=len(fitted.classes_), class_names=names, **given)
    if not place.exists():
        return fresh, {}
    running, about = Watch.load_with_log(place)
    if about.get("calibrator") != identity:
        raise InputError(
            f"{place} belongs to another calibrator; to watch this one, begin with another --state."
        )
    for name in given:
        if running.params[name] != fresh.params[name]:
            raise InputError(
                f"{place} watches with {name} {running.params[name]}, not {fresh.params[name]}; "
                "leave the option out, or begin with another --state."
            )
    return running, about


def _print_plan(fitted: Calibrator, gap: float, options: dict[str, Any], *, json: bool) -> None:
    from gnncal.shift.watch import Watch

    given = {
        name: options[name] for name in ("false_alarms", "tolerance") if options[name] is not None
    }
    promises = [options[name] for name in ("positive", "act", "clear", "decide")]
    n_claims = 1 + sum(value is not None for value in promises)
    # The model's own confidence on the calibration nodes stands in for that of nodes to come.
    typical = fitted.fitted_on_.bins["confidence"].cuts
    plan = Watch.plan(gap, confidence=typical, n_claims=n_claims, **given)
    if json:
        print_json({**vars(plan), "sentence": plan.sentence})
    else:
        out.print(plan.sentence)
