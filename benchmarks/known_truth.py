"""Two claims of a calibrator, tried where the truth is known.

    python benchmarks/known_truth.py --data DATA --cache results/practice

Intervals: the law of a structural-free fit on all nodes of a block model, or on those outside
training of a GCN on a real graph, is taken for the truth, labels are drawn from it, and a new fit
on 100, 300 or 1,000 of them gives 90% intervals of P(class 0). Counted is the share of the nodes
with a true probability from 1 to 99% that is inside, its mean and least value over draws; beyond,
the floor of the probabilities ends intervals before 0 and 1.
Homophily: a calibrator of 500 labels is updated with 200 labels of a block model with another
homophily; the share of draws in which the update warns.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from gnncal import GnncalWarning, Nodes
from gnncal.calibrators import Structural
from gnncal.data.arrays import FloatArray, IntArray
from gnncal_lab.simulation import CSBM
from practice import Models, options_for

N, DRAWS = 3000, 20
CHANGES = ((0.9, 0.9), (0.9, 0.75), (0.9, 0.6), (0.75, 0.3))
NOISE = {"strong": 0.4, "weak": 0.8}  # of models: with four classes, 91% and 63% are right
GRAPHS = ("Cora", "PubMed", "Chameleon", "tolokers")


def world(
    n_classes: int, homophily: float, seed: int, noise: float = 0.8
) -> tuple[Nodes, IntArray]:
    """Return the logits of a model that is twice as sure as it may be on a graph, and labels."""
    model = CSBM(n_classes=n_classes, mean_degree=8, separation=1.0)
    sample = model.sample(np.full(N, homophily), random_state=seed)
    spread = np.random.default_rng(seed).standard_normal((N, n_classes))
    logits = 3.0 * (np.eye(n_classes)[sample.labels] + noise * spread)
    return Nodes(logits, sample.graph), sample.labels


def fitted(every: Nodes, labels: IntArray, nodes: Any) -> Structural:
    return Structural(keep_predictions=False).fit(
        every.with_labels(labels, calibration_nodes=nodes)
    )


def law(calibrator: Structural, every: Nodes) -> FloatArray:
    """Return probabilities at the fitted parameters alone: the middle of the intervals."""
    given = {"logits": every.logits, "graph": every.graph, "level": 1e-9}
    classes = range(every.n_classes)
    middle = [calibrator.positive_interval(**given, positive=k)[:, 0] for k in classes]
    return np.column_stack(middle) / np.sum(middle, axis=0)[:, None]


def drawn(probs: FloatArray, generator: np.random.Generator) -> IntArray:
    """Return a class of each node, with its probabilities."""
    ranks = generator.random((len(probs), 1)) > np.cumsum(probs[:, :-1], axis=1)
    return ranks.sum(axis=1)


def worlds(models: Models) -> Iterator[tuple[str, Nodes, IntArray, IntArray]]:
    """Give names, logits, labels and the nodes that have a label."""
    for n_classes, homophily in product((2, 4), (0.4, 0.8)):
        name = f"block model, {n_classes} classes, homophily {homophily}"
        yield name, *world(n_classes, homophily, 0), np.arange(N)
    for graph in GRAPHS:
        found = models.practice(graph, 0, shares=(0.2, 0.1))
        pool = np.union1d(found.calibration_nodes, found.test_nodes)
        yield graph, Nodes(found.logits, found.graph), found.labels, pool


def intervals(models: Models) -> Iterator[dict[str, Any]]:
    for name, every, labels, pool in worlds(models):
        truth = law(fitted(every, labels, pool), every)
        p = truth[:, 0]
        counted = (p > 0.01) & (p < 0.99)
        for n in (100, 300, 1000):
            inside = []
            for draw in range(DRAWS):
                generator = np.random.default_rng(draw)
                nodes = np.sort(generator.choice(pool, n, replace=False))
                calibrator = fitted(every, drawn(truth, generator), nodes)
                low, high = calibrator.positive_interval(every.logits, every.graph, positive=0).T
                inside.append(float(((low <= p) & (p <= high))[counted].mean()))
            row = {"world": name, "nodes": n, "draws": DRAWS, "counted": int(counted.sum())}
            yield row | {"mean": round(float(np.mean(inside)), 3), "least": round(min(inside), 3)}


def warned(calibrator: Structural, seed: int, after: float, noise: float) -> bool:
    """Return whether an update with labels of another graph says that homophily has changed."""
    moved, labels = world(len(calibrator.classes_), after, 1000 + seed, noise)
    nodes = np.random.default_rng(seed).choice(N, 200, replace=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        calibrator.update(moved.logits, labels, moved.graph, calibration_nodes=np.sort(nodes))
    return any("homophily itself" in str(each.message) for each in said)


def changes() -> Iterator[dict[str, Any]]:
    for model, n_classes, (before, after) in product(NOISE, (2, 4), CHANGES):
        n_warned = 0
        for seed in range(DRAWS):
            every, labels = world(n_classes, before, seed, NOISE[model])
            nodes = np.random.default_rng(seed).choice(N, 500, replace=False)
            n_warned += warned(fitted(every, labels, np.sort(nodes)), seed, after, NOISE[model])
        row = {"model": model, "classes": n_classes, "before": before, "after": after}
        yield row | {"draws": DRAWS, "warned": round(n_warned / DRAWS, 3)}


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/known_truth.json").parse_args()
    models = Models(options.data, options.cache)
    warnings.simplefilter("ignore", GnncalWarning)
    found: dict[str, list[dict[str, Any]]] = {"intervals": [], "homophily": []}
    for name, rows in (("intervals", intervals(models)), ("homophily", changes())):
        for row in rows:
            found[name].append(row)
            print(name, row, flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
