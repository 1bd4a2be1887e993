"""``gnncal demo``: why homophily matters, in under a minute and without a download."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import track

from gnncal.cli.terminal import (
    err,
    note,
    out,
    print_json,
    print_written,
    staged_folder,
    to_json,
)
from gnncal.core.errors import GnncalWarning, InputError, MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from gnncal.calibrators.base import Calibrator
    from gnncal.core.arrays import FloatArray, IntArray
    from gnncal.evaluation import Evaluation
    from gnncal.simulation import GraphSample

LOW, HIGH = 0.3, 0.95  # local homophily of the two kinds of nodes
TRAIN_SHARE, CALIBRATION_SHARE = 0.04, 0.12
ORACLE = "hots, true h"


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path(
        "demo-output"
    ),
    nodes: Annotated[int, typer.Option(help="Nodes of the sampled graph.")] = 6000,
    seed: Annotated[int, typer.Option(help="Seed of graph, classifier and methods.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Calibrate a classifier on a graph whose neighbourhoods differ, with every method.

    Samples a contextual stochastic block model in which half of the nodes live among their own
    class and half do not, trains a one-layer linear graph network, and writes the bundle, HoTS's
    probabilities, the calibrator, all results and a reliability diagram.
    """
    import numpy as np

    from gnncal.bundles.bundle import Bundle
    from gnncal.bundles.npz import write_bundle, write_probabilities
    from gnncal.calibrators.catalogue import CALIBRATORS, get_calibrator
    from gnncal.evaluation import compare, evaluate
    from gnncal.metrics import (
        expected_calibration_error,
        grouped_calibration_error,
        reliability_bins,
    )
    from gnncal.report.figures import save_reliability
    from gnncal.report.tables import difference_text
    from gnncal.simulation import CSBM

    if nodes < 500:
        raise InputError(f"--nodes is {nodes}; the demo needs at least 500 to say anything.")
    if seed < 0:
        raise InputError(f"--seed is {seed}; expected 0 or more.")
    generator = np.random.default_rng(seed)
    order = generator.permutation(nodes)
    cuts = [int(TRAIN_SHARE * nodes), int((TRAIN_SHARE + CALIBRATION_SHARE) * nodes)]
    train, val, test = (np.sort(part) for part in np.split(order, cuts))
    homophily = np.where(generator.random(nodes) < 0.5, LOW, HIGH)
    model = CSBM(mean_degree=15, separation=1.0, n_features=48)
    with staged_folder(folder) as staging:
        sample = model.sample(homophily, random_state=seed)
        logits = _train_linear_gcn(sample, train, model.n_classes)
        methods = {name: kind() for name, kind in CALIBRATORS.items() if _can_run(kind)}
        left_out = [name for name in CALIBRATORS if name not in methods]
        if left_out:
            note(f"without {', '.join(left_out)}: they need torch, pip install 'gnncal[neural]'.")
        methods[ORACLE] = get_calibrator("hots", homophily=sample.homophily)
        truth, degree = sample.labels[test], sample.graph.in_degree[test]
        results, by_homophily = {}, {}
        probs: dict[str, FloatArray] = {}
        for name in track(
            methods, "calibrating", console=err, transient=True, disable=not err.is_terminal
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GnncalWarning)
                methods[name].fit(logits, sample.labels, sample.graph, nodes=val, train_nodes=train)
            probs[name] = methods[name].predict_proba(logits, sample.graph)
            results[name] = evaluate(truth, probs[name][test], in_degree=degree)
            by_homophily[name] = grouped_calibration_error(
                truth, probs[name][test], sample.homophily[test]
            )
        gain = compare(truth, probs["ts"][test], probs["hots"][test])
        bundle = Bundle(logits, sample.labels, sample.graph, train, val, test)
        write_bundle(staging / "bundle.npz", bundle)
        write_probabilities(staging, bundle, probs["hots"], methods["hots"].temperature_)
        methods["hots"].save(staging / "calibrator.safetensors")
        summary = {"methods": results, "gap_by_homophily": by_homophily, "hots_against_ts": gain}
        (staging / "results.json").write_text(to_json(summary) + "\n")
        groups = {
            "all test nodes": np.ones(len(test), dtype=bool),
            f"homophily {LOW}": sample.homophily[test] == LOW,
            f"homophily {HIGH}": sample.homophily[test] == HIGH,
        }
        rows = {
            title: {
                f"{name}: ECE {100 * expected_calibration_error(truth[group], chosen):.1f} %": (
                    reliability_bins(truth[group], chosen)
                )
                for name in ("uncalibrated", "ts", "hots")
                for chosen in [probs[name][test][group]]
            }
            for title, group in groups.items()
        }
        try:
            save_reliability(rows, staging / "reliability.png")
        except MissingExtraError as error:
            note(f"no diagram: {error}")
        files = sorted(file.name for file in staging.iterdir())
    if json:
        print_json(summary)
        return
    title = f"{len(test):,} test nodes, {len(val):,} for calibration"
    out.print(_table(title, results, by_homophily))
    out.print(
        "* lowest of those that need no true h\n"
        "by chance: the ECE that perfect calibration would show on these nodes\n"
        f"gap by h:  |confidence - accuracy| at homophily {LOW} and {HIGH}, averaged\n\n"
        f"hots against ts: NLL {difference_text(gain.nll)}, paired 95 % interval"
    )
    print_written(folder, files)


def _can_run(kind: type[Calibrator]) -> bool:
    return not kind.needs_torch or find_spec("torch") is not None


def _table(title: str, results: dict[str, Evaluation], by_homophily: dict[str, float]) -> Table:
    from gnncal.report.tables import Row, best_marked, interval_text

    rows = []
    for name, result in results.items():
        cells = (
            f"{100 * result.accuracy:.1f}",
            f"{100 * result.ece.value:.2f}",
            interval_text(result),
            f"{100 * result.ece.floor:.2f}",
            f"{100 * by_homophily[name]:.2f}",
            f"{result.nll:.4f}",
        )
        scores = (None, result.ece.value, None, None, by_homophily[name], result.nll)
        ranked = name not in ("uncalibrated", ORACLE)
        rows.append(Row(name, cells, scores if ranked else (None,) * len(cells)))
    columns = ("acc %", "ECE %", "95 % interval", "by chance", "gap by h", "NLL")
    return best_marked(title, columns, rows)


def _train_linear_gcn(sample: GraphSample, train: IntArray, n_classes: int) -> FloatArray:
    """Logits of softmax regression on the mean over a node and its senders, (n_nodes, K)."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from gnncal.simulation.linear_gcn import aggregate

    if np.unique(sample.labels[train]).size < n_classes:
        raise InputError("some class has no training node; take more --nodes or another --seed.")
    means = aggregate(sample.graph)
    # Weak regularisation on few nodes: overconfident, as trained networks are.
    classifier = LogisticRegression(C=10.0, max_iter=2000)
    classifier.fit(means[train], sample.labels[train])
    return np.asarray(classifier.decision_function(means), dtype=np.float32)
