"""``gnncal block-model``: every method on a sampled graph, and why homophily matters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.terminal import err, note, print_json, say, to_json
from gnncal.data.errors import GnncalWarning, InputError, MissingExtraError
from gnncal.data.tables import Table, text_cell
from gnncal.files.output import result_folder
from gnncal_lab.commands import with_bar

if TYPE_CHECKING:
    from gnncal.calibration import Calibration
    from gnncal.calibrators.base import Calibrator
    from gnncal.data.arrays import FloatArray, IntArray
    from gnncal.data.nodes import Nodes
    from gnncal.files.bundle import Bundle
    from gnncal.metrics.evaluation import Comparison, Evaluation
    from gnncal_lab.simulation import GraphSample

LOW, HIGH = 0.3, 0.95  # local homophily of the two kinds of nodes
TRAIN_SHARE, CALIBRATION_SHARE = 0.04, 0.12
SHOWN, REFERENCE = "structural", "ts"  # whose results are written, and what it is held against
FREE = "structural-free"  # the same with predictions that may change
CONTRADICTED = 0.1  # below this support the neighbours speak against a prediction
ORACLE = "hots, true h"
REPORT = "report.html"
REPORTED = (REFERENCE, "hots", SHOWN, FREE)  # methods of the report


@dataclass(frozen=True)
class Contradicted:
    """Test nodes whose neighbours give their predicted class almost no probability."""

    n_nodes: int
    accuracy: float  # share of them whose predicted class is right
    confidence: dict[str, float]  # mean probability of the predicted class, by method


@dataclass(frozen=True)
class Results:
    """The results of every method on the demo's graph, by name of the method."""

    calibrations: dict[str, Calibration]
    evaluations: dict[str, Evaluation]  # on the test nodes
    gap_by_homophily: dict[str, float]
    gain: Comparison  # of the method shown against the reference
    contradicted: Contradicted

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "methods": self.evaluations,
            "gap_by_homophily": self.gap_by_homophily,
            f"{SHOWN}_against_{REFERENCE}": self.gain,
            "contradicted": self.contradicted,
        }


def block_model(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path(
        "block-model-output"
    ),
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 6000,
    seed: Annotated[int, typer.Option(help="Seed of the graph.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Calibrate a classifier on a sampled graph with every method, and write a report; minutes.

    Half of the nodes have homophily 0.95, the others 0.3. The classifier is a one-layer linear
    graph network.
    """
    if nodes < 500:
        raise InputError(f"--nodes is {nodes}; at least 500 are needed.")
    if seed < 0:
        raise InputError(f"--seed is {seed}; expected 0 or more.")
    with result_folder(folder, "block-model", earlier=["reliability.png"]) as staging:
        bundle, homophily = _sample(nodes, seed)
        results = _calibrate_with_every_method(bundle, homophily)
        _write(staging, bundle, homophily, results)
        files = sorted(file.name for file in staging.iterdir())
    if json:
        print_json(results)
        return
    _print(bundle, results)
    say(f"written to {folder}: {', '.join(files)}")
    if REPORT in files:
        say(f"open the report in a browser: {folder / REPORT}")


def _sample(n_nodes: int, seed: int) -> tuple[Bundle, FloatArray]:
    """Return a graph with the logits of a trained classifier, and the homophily of each node."""
    import numpy as np

    from gnncal.files.bundle import Bundle
    from gnncal_lab.simulation import CSBM

    generator = np.random.default_rng(seed)
    order = generator.permutation(n_nodes)
    cuts = [int(TRAIN_SHARE * n_nodes), int((TRAIN_SHARE + CALIBRATION_SHARE) * n_nodes)]
    train, val, test = (np.sort(part) for part in np.split(order, cuts))
    homophily = np.where(generator.random(n_nodes) < 0.5, LOW, HIGH)
    model = CSBM(mean_degree=15, separation=1.0, n_features=48)
    sample = model.sample(homophily, random_state=seed)
    logits = _train_linear_gcn(sample, train, model.n_classes)
    return Bundle(logits, sample.labels, sample.graph, train, val, test), sample.homophily


def _train_linear_gcn(sample: GraphSample, train: IntArray, n_classes: int) -> FloatArray:
    """Return logits of softmax regression on the mean over a node and its senders."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from gnncal_lab.simulation.linear_gcn import aggregate

    if np.unique(sample.labels[train]).size < n_classes:
        raise InputError("some class has no training node; take more --nodes or another --seed.")
    means = aggregate(sample.graph)
    # Weak regularisation on few nodes: overconfident, as trained networks are.
    classifier = LogisticRegression(C=10.0, max_iter=2000)
    classifier.fit(means[train], sample.labels[train])
    return np.asarray(classifier.decision_function(means), dtype=np.float32)


def _methods(homophily: FloatArray) -> dict[str, Calibrator]:
    """Return every method that can run here, and HoTS with the true homophily."""
    from gnncal.calibrators.registry import every_calibrator, get_calibrator

    has_torch = find_spec("torch") is not None
    known = every_calibrator()
    runnable = [name for name, kind in known.items() if has_torch or not kind.needs_torch]
    left_out = [name for name in known if name not in runnable]
    if left_out:
        note(f"left out {', '.join(left_out)}: they need torch (pip install 'gnncal[neural]').")
    methods = {name: get_calibrator(name) for name in runnable}
    return {**methods, ORACLE: get_calibrator("hots", homophily=homophily)}


def _calibrate_with_every_method(bundle: Bundle, homophily: FloatArray) -> Results:
    from gnncal.calibration import calibrate
    from gnncal.data.nodes import Nodes
    from gnncal.metrics.binning import cells_of, error_of
    from gnncal.metrics.evaluation import comparison_of, evaluation_of
    from gnncal.metrics.outcomes import Outcomes

    test = bundle.test_nodes
    truth, degree = bundle.labels[test], bundle.graph.in_degree[test]
    nodes = Nodes(bundle.logits, bundle.graph)
    calibrations, outcomes, evaluations, gaps = {}, {}, {}, {}
    methods = _methods(homophily)
    for name in with_bar(methods, "calibrating"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GnncalWarning)
            # Judged below, since the side before is the same for every method.
            calibrations[name] = calibrate(
                nodes,
                bundle.labels,
                calibration_nodes=bundle.calibration_nodes,
                train_nodes=bundle.train_nodes,
                method=methods[name],
            )
        probs = calibrations[name].probabilities[test]
        outcomes[name] = Outcomes(truth, probs, degree, is_checked=True)
        evaluations[name] = evaluation_of(outcomes[name])
        gaps[name] = error_of(cells_of(outcomes[name], homophily[test]))
    contradicted = _contradicted(bundle, nodes, calibrations)
    gain = comparison_of(outcomes[REFERENCE], outcomes[SHOWN])
    return Results(calibrations, evaluations, gaps, gain, contradicted)


def _contradicted(
    bundle: Bundle, every: Nodes, calibrations: dict[str, Calibration]
) -> Contradicted:
    """Look at the nodes where keeping the prediction costs most."""
    import numpy as np

    from gnncal.math.formulas import describe_neighbourhoods

    test = bundle.test_nodes
    mean_probs = every.cached(describe_neighbourhoods).mean_probs
    support = mean_probs[test, every.predictions[test]]
    nodes = test[support < CONTRADICTED]
    predictions = every.predictions[nodes]
    confidence = {
        name: float(np.mean(calibrations[name].probabilities[nodes, predictions]))
        for name in (REFERENCE, SHOWN, FREE)
    }
    return Contradicted(len(nodes), float(np.mean(bundle.labels[nodes] == predictions)), confidence)


def _write(staging: Path, bundle: Bundle, homophily: FloatArray, results: Results) -> None:
    from gnncal.files.bundle import write_bundle, write_nodes
    from gnncal.files.saved_calibrators import provenance
    from gnncal_lab.pages.reliability import save_reliability

    shown = results.calibrations[SHOWN]
    temperature = getattr(shown.calibrator, "temperature_", None)
    write_bundle(staging / "bundle.npz", bundle)
    probs = shown.probabilities
    columns = {"temperature": temperature, "probs": probs}
    write_nodes(staging / "probabilities.npz", bundle, probs, columns, provenance(shown.calibrator))
    shown.calibrator.save(staging / "calibrator.safetensors")
    (staging / "results.json").write_text(to_json(results) + "\n")
    try:
        save_reliability(_diagrams(bundle, homophily, results), staging / "reliability.png")
    except MissingExtraError as error:
        note(f"no diagram: {error}")
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
            methods=REPORTED,
            title="Block model: half of the nodes of high homophily, half of low homophily",
            command="gnncal demo --block-model",
        ).save(path)


def _diagrams(bundle: Bundle, homophily: FloatArray, results: Results) -> dict[str, dict[str, Any]]:
    """Return the bins of three methods, for all test nodes and for each kind of node."""
    from gnncal.metrics import METRICS, reliability_bins

    test, ece = bundle.test_nodes, METRICS["ece"]
    groups = {
        "all test nodes": test,
        f"homophily {LOW}": test[homophily[test] == LOW],
        f"homophily {HIGH}": test[homophily[test] == HIGH],
    }
    rows: dict[str, dict[str, Any]] = {title: {} for title in groups}
    for title, group in groups.items():
        for name in ("uncalibrated", REFERENCE, SHOWN):
            truth, probs = bundle.labels[group], results.calibrations[name].probabilities[group]
            error = ece.shown(ece(truth, probs))
            rows[title][f"{name}: {ece.title} {error} {ece.unit}"] = reliability_bins(truth, probs)
    return rows


def _print(bundle: Bundle, results: Results) -> None:
    say(_table(bundle, results).as_text())
    say(
        "* lowest of the methods that do not use the true h\n"
        "ECE:       how far confidence is from accuracy on average\n"
        "floor:     the ECE that perfect calibration would show on these nodes\n"
        f"gap by h:  |confidence - accuracy| at homophily {LOW} and {HIGH}, averaged\n"
        "h:         homophily, the share of neighbours that have the node's own class\n"
        "NLL:       log loss, lower is better; it measures calibration and discrimination\n\n"
        + _why_ece_is_not_all(results)
        + "\n\n"
        f"{SHOWN} against {REFERENCE}: NLL {results.gain.nll}, "
        "paired 95% interval\n\n" + _price_of_keeping(bundle, results)
    )


def _why_ece_is_not_all(results: Results) -> str:
    one, gap = results.evaluations[REFERENCE], results.gap_by_homophily[REFERENCE]
    text = (
        f"The ECE of {REFERENCE} is {100 * one.ece.value:.1f}%, but its confidence differs from "
        f"the accuracy by {100 * gap:.0f} points on nodes of high and of low homophily: too low on "
        "one kind, too high on the other. These errors cancel in the ECE, but not in the NLL."
    )
    return fill(text, width=78)


def _price_of_keeping(bundle: Bundle, results: Results) -> str:
    kept, free = results.evaluations[SHOWN], results.evaluations[FREE]
    few = results.contradicted
    text = (
        f"The cost of keeping predictions: {SHOWN} has {100 * kept.accuracy:.1f}% accuracy and NLL "
        f"{kept.nll:.3f}, {FREE} {100 * free.accuracy:.1f}% and {free.nll:.3f}. "
        f"At {few.n_nodes:,} test nodes the neighbours give the predicted class less than "
        f"{CONTRADICTED}, and {100 * few.accuracy:.0f}% of these predictions are correct. No "
        f"temperature lowers a confidence below 1/{bundle.logits.shape[1]}: the mean confidence is "
        f"{100 * few.confidence[SHOWN]:.0f}% with {SHOWN}, {100 * few.confidence[FREE]:.0f}% with "
        f"{FREE}."
    )
    return fill(text, width=78)


def _table(bundle: Bundle, results: Results) -> Table:
    from gnncal.metrics import METRICS

    accuracy, ece, nll = (METRICS[name] for name in ("accuracy", "ece", "nll"))
    rows = []
    for name, result in results.evaluations.items():
        gap = results.gap_by_homophily[name]
        cells = (
            accuracy.shown(result.accuracy),
            ece.shown(result.ece.value),
            f"[{100 * result.ece.low:.1f}, {100 * result.ece.high:.1f}]",
            ece.shown(result.ece.floor),
            ece.shown(gap),
            nll.shown(result.nll),
        )
        scores = (None, result.ece.value, None, None, gap, result.nll)
        ranked = name not in ("uncalibrated", ORACLE)
        rows.append(MethodRow(name, cells, scores if ranked else (None,) * len(cells)))
    columns = ("acc %", ece.heading, "95% interval", "floor", "gap by h", nll.heading)
    title = (
        f"{len(bundle.test_nodes):,} test nodes, {len(bundle.calibration_nodes):,} for calibration"
    )
    return best_marked(title, columns, rows)


@dataclass(frozen=True)
class MethodRow:
    """One method's line: cells as text, and the number that decides what is best."""

    name: str
    cells: tuple[str, ...]
    scores: tuple[float | None, ...]  # lower is better; None takes no part


def best_marked(title: str, columns: Sequence[str], rows: Sequence[MethodRow]) -> Table:
    """Return a table with the lowest score of each column marked by a star."""
    lowest = [
        min((score for row in rows if (score := row.scores[i]) is not None), default=None)
        for i in range(len(columns))
    ]
    cells = [
        [row.name, *(_marked(*e) for e in zip(row.cells, row.scores, lowest, strict=True))]
        for row in rows
    ]
    shown = [[text_cell(each) for each in row] for row in cells]
    return Table(title, ("method", *columns), shown)


def _marked(cell: str, score: float | None, lowest: float | None) -> str:
    if lowest is None:
        return cell
    return f"{cell}*" if score == lowest else f"{cell} "
