"""``gnncal demo``: from logits to decisions on real data, in seconds and without a download."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from shlex import quote
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.terminal import err, note, out, print_json, print_written, to_json
from gnncal.data.errors import MissingExtraError
from gnncal.files.output import result_folder

if TYPE_CHECKING:
    from rich.table import Table

    from gnncal.calibration import Calibration
    from gnncal.decisions import Policy
    from gnncal.files.bundle import Bundle

METHODS = ("uncalibrated", "ts", "hots", "structural", "structural-free")
SHOWN, FREE = "structural", "structural-free"
POSITIVE = "8"
REPORT = "report.html"
FILES = (
    "bundle.npz",
    "calibrator.safetensors",
    "policy.safetensors",
    "probabilities.npz",
    REPORT,
    "results.json",
)
NEXT = """Next. These run as they stand. Then put a file of your own in the place of the
bundle (docs/files.md says what is in it), and the class that matters for 8:
    {gnncal} calibrate {bundle} --out calibrated
    {gnncal} report {bundle} --positive 8
    {gnncal} decide {bundle} --positive 8 --budget 100"""


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path(
        "demo-output"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Calibrate a model of handwritten digits, decide about one of them, and write a report.

    The data are real and come with scikit-learn: 1,797 images, each linked to its ten most similar
    (`gnncal.example()`). The folder gets the bundle, the probabilities, the calibrator, a policy
    for the digit 8, all results and a report to open in a browser.
    """
    from gnncal.digits import example

    with result_folder(folder, "demo", names=FILES) as staging:
        bundle = example()
        results = _calibrate(bundle)
        policy = _decide(bundle)
        _write(staging, bundle, results, policy)
        files = sorted(file.name for file in staging.iterdir())
    if json:
        print_json(_as_dict(results, policy))
        return
    _print(bundle, results, policy)
    print_written(folder, files)
    if REPORT in files:
        out.print(f"open the report in a browser: {folder / REPORT}", soft_wrap=True)
    commands = NEXT.format(gnncal=_this_program(), bundle=quote(str(folder / "bundle.npz")))
    out.print(f"\n{commands}", highlight=False, soft_wrap=True)


def _this_program() -> str:
    """Return what to type for this program: where it is, if a shell does not find it by name."""
    called = sys.argv[0]
    if Path(called).name != "gnncal" or shutil.which("gnncal") == called:
        return "gnncal"
    return quote(called)


def _calibrate(bundle: Bundle) -> dict[str, Calibration]:
    from gnncal.calibration import calibrate
    from gnncal.data.nodes import Nodes

    nodes = Nodes(bundle.logits, bundle.graph)
    return {name: calibrate(nodes, bundle.labels, **bundle.splits, method=name) for name in METHODS}


def _decide(bundle: Bundle) -> Policy:
    """Fit a policy for one digit on calibration nodes that the calibrator has not seen."""
    from gnncal.calibration import calibrate
    from gnncal.decisions import Policy, hold_out

    fit_nodes, held_out = hold_out(bundle.nodes, labels=bundle.labels)
    splits: dict[str, Any] = {"nodes": fit_nodes, "train_nodes": bundle.train_nodes}
    result = calibrate(bundle.logits, bundle.labels, bundle.graph, **splits, method=FREE)
    return Policy(positive=POSITIVE, act=0.8, clear=0.98).fit(
        result.probabilities,
        bundle.labels,
        nodes=held_out,
        class_names=bundle.class_names,
        decision_nodes=bundle.test_nodes,
        calibrator=result.calibrator,
    )


def _write(staging: Path, bundle: Bundle, results: dict[str, Calibration], policy: Policy) -> None:
    from gnncal.files.bundle import write_bundle, write_probabilities

    shown = results[SHOWN]
    temperature = getattr(shown.calibrator, "temperature_", None)
    write_bundle(staging / "bundle.npz", bundle)
    write_probabilities(staging, bundle, shown.probabilities, temperature)
    shown.calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
    policy.save(staging / "policy.safetensors")
    (staging / "results.json").write_text(to_json(_as_dict(results, policy)) + "\n")
    try:
        _write_report(staging / REPORT, bundle)
    except MissingExtraError as error:
        note(f"no report: {error}")


def _write_report(path: Path, bundle: Bundle) -> None:
    from gnncal.reporting.report import report

    with err.status("writing the report"):
        report(
            bundle.logits,
            bundle.labels,
            bundle.graph,
            **bundle.splits,
            methods=METHODS[1:],
            class_names=bundle.class_names,
            positive=POSITIVE,
            title="Handwritten digits, each linked to its ten most similar",
            command="gnncal demo",
        ).save(path)


def _as_dict(results: dict[str, Calibration], policy: Policy) -> dict[str, Any]:
    return {
        "methods": {name: result.after for name, result in results.items()},
        f"{SHOWN}_against_uncalibrated": results[SHOWN].comparison,
        "policy": policy.report_,
    }


def _print(bundle: Bundle, results: dict[str, Calibration], policy: Policy) -> None:
    from gnncal.reporting.tables import difference_text

    gain, free = results[SHOWN].comparison, results[FREE].comparison
    assert gain is not None
    assert free is not None
    out.print(_table(bundle, results))
    out.print(
        "ECE:    how far confidence is from accuracy on average\n"
        "floor:  the ECE that perfect calibration would show on these nodes\n"
        "NLL:    log loss, lower is better; it also rewards telling right from wrong\n",
        highlight=False,
    )
    kept = (
        f"What was gained: the log loss changes by {difference_text(gain.nll)} with {SHOWN}, which "
        f"changes no prediction, and by {difference_text(free.nll)} with {FREE}, which changes "
        f"{100 * free.prediction_change_rate:.1f} % of them (paired 95 % intervals)."
    )
    decided = f"Is it an {POSITIVE}? {policy}"
    out.print(fill(kept, width=78), highlight=False)
    out.print(f"\n{fill(decided, width=78)}\n", highlight=False)


def _table(bundle: Bundle, results: dict[str, Calibration]) -> Table:
    from gnncal.metrics import METRICS
    from gnncal.reporting.tables import MethodRow, best_marked, interval_text

    accuracy, ece, nll = (METRICS[name] for name in ("accuracy", "ece", "nll"))
    rows = []
    for name, result in results.items():
        after = result.after
        assert after is not None
        cells = (
            accuracy.shown(after.accuracy),
            ece.shown(after.ece.value),
            interval_text(after),
            ece.shown(after.ece.floor),
            nll.shown(after.nll),
        )
        scores = (None, None, None, None, after.nll)  # the errors lie within their intervals
        rows.append(MethodRow(name, cells, scores))
    columns = ("acc %", ece.heading, "95 % interval", "floor", nll.heading)
    title = (
        f"{len(bundle.labels):,} handwritten digits, each linked to its ten most similar\n"
        f"{len(bundle.nodes)} to calibrate on, {len(bundle.test_nodes):,} to judge on"
    )
    return best_marked(title, columns, rows)
