"""``gnncal demo``: from logits to decisions on real data, in seconds and without a download."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from textwrap import fill
from typing import Annotated

from gnncal.calibration import Calibration, calibrate
from gnncal.cli.params import SummaryAsJson, option
from gnncal.cli.results import write_results
from gnncal.cli.terminal import err, note, print_result, say, to_json
from gnncal.data.errors import MissingExtraError
from gnncal.data.nodes import Nodes
from gnncal.data.tables import Table, text_cell
from gnncal.decisions import Policy, hold_out
from gnncal.digits import example
from gnncal.files.bundle import Bundle, write_bundle
from gnncal.files.output import result_folder
from gnncal.metrics import METRICS
from gnncal.reporting.report import report

METHODS = ("uncalibrated", "ts", "hots", "structural", "structural-free")
SHOWN, FREE = "structural", "structural-free"
POSITIVE = "8"
BUNDLE, REPORT, RESULTS = "bundle.npz", "report.html", "results.json"
COLUMNS = ("method", "acc %", "ECE %", "95% interval", "floor", "NLL")
MEANINGS = """
ECE:    how far confidence is from accuracy on average
floor:  the ECE that perfect calibration would show on these nodes
NLL:    log loss, lower is better; measures calibration and discrimination
"""
NEXT = """open the report in a browser: {report}

Next, run these commands. For your own data, replace the bundle by your file
(docs/cli.md lists its arrays) and 8 by the class that matters:
    gnncal calibrate {bundle} --out calibrated
    gnncal report {bundle} --positive 8
    gnncal decide {bundle} --positive 8 --budget 100"""


def demo(
    folder: Annotated[Path, option("Folder for the results.", "--out")] = Path("demo-output"),
    json: SummaryAsJson = False,
) -> None:
    """Run everything once.

    The data come with scikit-learn: 1,797 images of digits, each linked to its ten most similar
    ones (`gnncal.example()`). The folder gets the input (bundle.npz), the results of
    `gnncal calibrate`, a policy for the digit 8, the metrics of all methods and a report to open in
    a browser.
    """
    with result_folder(folder, "demo") as staging:
        bundle = example()
        nodes = Nodes(bundle.logits, bundle.graph)
        results = {
            name: calibrate(nodes, bundle.labels, **bundle.splits, method=name) for name in METHODS
        }
        policy = _decide(bundle)
        document = {
            "methods": {name: result.after for name, result in results.items()},
            f"{SHOWN}_against_uncalibrated": results[SHOWN].comparison,
            "policy": policy.report_,
        }
        (staging / RESULTS).write_text(to_json(document) + "\n")
        write_bundle(staging / BUNDLE, bundle)
        policy.save(staging / "policy.safetensors")
        try:
            with err.status("writing the report"):
                report(
                    *(bundle.logits, bundle.labels, bundle.graph),
                    **bundle.splits,
                    methods=METHODS[1:],
                    class_names=bundle.class_names,
                    positive=POSITIVE,
                    title="Handwritten digits, each linked to its ten most similar",
                    command="gnncal demo",
                ).save(staging / REPORT)
        except MissingExtraError as error:
            note(f"no report: {error}")
        summary = write_results(staging, bundle, results[SHOWN], [], as_parquet=False)
    written = f"{folder}: {', '.join(summary['files'])}"
    print_result(_text(bundle, results, policy), document, as_json=json, written=written)
    if not json:
        say(NEXT.format(report=folder / REPORT, bundle=quote(str(folder / BUNDLE))))


def _decide(bundle: Bundle) -> Policy:
    """Fit a policy for one digit on calibration nodes that the calibrator has not seen."""
    fit_nodes, held_out = hold_out(bundle.calibration_nodes, labels=bundle.labels)
    splits = bundle.splits | {"calibration_nodes": fit_nodes, "test_nodes": None}
    result = calibrate(bundle.logits, bundle.labels, bundle.graph, **splits, method=FREE)
    return Policy(positive=POSITIVE, act=0.8, clear=0.98).fit(
        result.probabilities,
        bundle.labels,
        calibration_nodes=held_out,
        train_nodes=bundle.train_nodes,
        class_names=bundle.class_names,
        decision_nodes=bundle.test_nodes,
        calibrator=result.calibrator,
    )


def _text(bundle: Bundle, results: dict[str, Calibration], policy: Policy) -> str:
    accuracy, ece, nll = (METRICS[name].shown for name in ("accuracy", "ece", "nll"))
    rows = []
    for name, result in results.items():
        after = result.after
        assert after is not None
        interval = f"[{100 * after.ece.low:.1f}, {100 * after.ece.high:.1f}]"
        errors = (ece(after.ece.value), interval, ece(after.ece.floor))
        rows.append(list(map(text_cell, (name, accuracy(after.accuracy), *errors, nll(after.nll)))))
    title = (
        f"{len(bundle.labels):,} handwritten digits, each linked to its ten most similar\n"
        f"{bundle.calibration_nodes.size} calibration nodes, "
        f"{bundle.test_nodes.size:,} test nodes\n"
    )
    gain, free = results[SHOWN].comparison, results[FREE].comparison
    assert gain is not None
    assert free is not None
    senders, receivers = bundle.graph.edge_index
    homophily = float((bundle.labels[senders] == bundle.labels[receivers]).mean())
    paragraphs = (
        f"Improvement: the log loss changes by {gain.nll} with {SHOWN}, which changes no "
        f"prediction, and by {free.nll} with {FREE}, which changes "
        f"{100 * free.prediction_change_rate:.1f}% of them (paired 95% intervals).",
        f"Homophily is {homophily:.2f} here and hardly varies, so hots gains nothing over ts; "
        "notebooks/hots_step_by_step.ipynb has a graph where it matters.",
        f"Is it an {POSITIVE}? {policy}",
    )
    said = "\n\n".join(fill(each, width=78) for each in paragraphs)
    return f"{Table(title, COLUMNS, rows).as_text()}\n{MEANINGS}\n{said}"
