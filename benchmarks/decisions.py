"""What it costs to fit the threshold or the sets on the nodes that the calibrator was fitted on.

    python benchmarks/decisions.py --cache LOGITS --data RAW --seeds 2 --backbones gcn --draws 50

For each frozen classifier the test nodes are the pool, which neither training nor early stopping
has seen. Labelled nodes are drawn from it, as many as the split has validation nodes. "same": all
of them fit the calibrator, and then the threshold and the sets. "held out": one half fits the
calibrator, the other half the threshold and the sets. The rest of the pool is decided. The target
accuracy lies halfway between the accuracy of the classifier and 1, the sets ask for 90 %.

A violation is a draw after which the accuracy of the decisions in the pool is below the target.
One line of the CSV is a graph, a method and a way; the last lines have the mean over graphs with
the 95 % interval of a bootstrap over graphs.
"""

from __future__ import annotations

import csv
import warnings
from collections import defaultdict

import numpy as np

from families import for_each_task, options_for
from gnncal.calibrators.catalogue import get_calibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.decisions import ConformalClassifier, SelectiveClassifier, hold_out
from gnncal.files import Bundle
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task

METHODS = ("uncalibrated", "ts", "isotonic", "structural-temperature", "structural-free")
WAYS = ("same", "held out")
COLUMNS = ("violations", "decided", "accuracy - target", "covered", "set size")
LEVEL = 0.9
Key = tuple[str, str, str]  # graph, method, way


def probabilities(bundle: Bundle, method: str, nodes: IntArray) -> FloatArray:
    calibrator = get_calibrator(method)
    calibrator.fit(
        bundle.logits, bundle.labels, bundle.graph, nodes=nodes, train_nodes=bundle.train_nodes
    )
    return calibrator.predict_proba(bundle.logits, bundle.graph)


def outcome(
    bundle: Bundle, probs: FloatArray, nodes: IntArray, drawn: IntArray, target: float
) -> tuple[float, ...]:
    """Fit threshold and sets on ``nodes``, and look at the rest of the pool."""
    pool = bundle.test_nodes
    rest = np.setdiff1d(pool, drawn)
    right = probs.argmax(axis=1) == bundle.labels
    selective = SelectiveClassifier(target_accuracy=target, confidence_level=LEVEL)
    decided = selective.fit(probs, bundle.labels, nodes=nodes).decide(probs)
    in_pool = pool[decided[pool]]
    accuracy = right[in_pool].mean() if in_pool.size else np.nan
    conformal = ConformalClassifier(coverage=0.9, nonempty=False)
    sets = conformal.fit(probs, bundle.labels, nodes=nodes).predict_set(probs)[rest]
    return (
        float(accuracy < target),
        float(decided[rest].mean()),
        float(accuracy - target),
        float(sets[np.arange(rest.size), bundle.labels[rest]].mean()),
        float(sets.sum(axis=1).mean()),
    )


def work(n_draws: int):
    def outcomes(task: Task, provider: TrainedLogits) -> dict[Key, list[tuple[float, ...]]]:
        bundle = provider.load(task)
        pool = np.sort(bundle.test_nodes)
        right = bundle.logits.argmax(axis=1) == bundle.labels
        target = float(1 + right[pool].mean()) / 2
        found: dict[Key, list[tuple[float, ...]]] = defaultdict(list)
        generator = np.random.default_rng(task.seed)
        for draw in range(n_draws):
            drawn = np.sort(generator.choice(pool, size=bundle.nodes.size, replace=False))
            fit_nodes, held_out = hold_out(drawn, random_state=draw)
            for method in METHODS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for way, fitted, nodes in zip(
                        WAYS, (drawn, fit_nodes), (drawn, held_out), strict=True
                    ):
                        probs = probabilities(bundle, method, fitted)
                        key = (task.dataset, method, way)
                        found[key].append(outcome(bundle, probs, nodes, drawn, target))
        return found

    return outcomes


def mean_with_interval(values: FloatArray) -> list[str]:
    """Mean over graphs (rows) of each column, with a bootstrap over graphs."""
    generator = np.random.default_rng(0)
    draws = generator.integers(len(values), size=(4000, len(values)))
    means = np.nanmean(values[draws], axis=1)
    low, high = np.nanquantile(means, (0.025, 0.975), axis=0)
    return [
        f"{m:.4f} [{a:.4f}, {b:.4f}]"
        for m, a, b in zip(np.nanmean(values, axis=0), low, high, strict=True)
    ]


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/decisions.csv")
    parser.add_argument("--draws", type=int, default=50)
    options = parser.parse_args()
    merged: dict[Key, list[tuple[float, ...]]] = defaultdict(list)
    for found in for_each_task(options, work(options.draws)).values():
        for key, outcomes in found.items():
            merged[key] += outcomes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means of graphs on which nothing was ever certified
        rows = {key: np.nanmean(outcomes, axis=0) for key, outcomes in merged.items()}
        overall = {
            (method, way): mean_with_interval(
                np.array([row for key, row in rows.items() if key[1:] == (method, way)])
            )
            for method in METHODS
            for way in WAYS
        }
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["graph", "method", "way", *COLUMNS])
        for key, row in rows.items():
            writer.writerow([*key, *(f"{value:.4f}" for value in row)])
        for key, texts in overall.items():
            writer.writerow(["mean", *key, *texts])
            print(*key, *texts, sep=" | ")


if __name__ == "__main__":
    main()
