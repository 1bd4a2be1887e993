"""What ``gnncal.check`` sees of real moves, and what these moves cost.

    python benchmarks/check.py --data DATA --cache results/practice --seeds 3

A GCN is trained and ``structural`` is fitted on one graph, then used elsewhere: seven countries
(42 pairs) and three libraries (6 pairs); tolokers whose test nodes are resampled to another rate
of positives, or grown by 30% (the model and the calibrator knew 70% of the nodes); ogbn-arxiv's
graph in later years. Each line of the result has what the check says about the new nodes, the log
loss that the calibrator has there above one fitted on other labelled nodes of the same kind, and
its ECE. The limits of ``shift/check.py`` were chosen on the countries (that of a drift on the
years); the rest shows what they are worth.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gnncal
from gnncal import Graph, Nodes
from gnncal.data.arrays import IntArray
from gnncal.data.probability import log_losses
from gnncal.files.output import write_file
from gnncal_lab.classifiers import train_classifier
from gnncal_lab.datasets import Dataset, Split
from practice import LIBRARIES, SETTINGS, TWITCH, Models, options_for

METHOD = "structural"
RATES = {"rate x1": 1.0, "rate x1.5": 1.5, "rate x2": 2.0, "rate x3": 3.0, "rate x1/2": 0.5}
GROWTH = 0.3


def judged(
    calibrator: gnncal.Calibrator, nodes: Nodes, labels: IntArray, new: IntArray, own: IntArray
) -> dict[str, Any]:
    """What the check says about ``new`` nodes, and what the calibrator is worth there.

    ``own`` are labelled nodes of the same kind, to fit another calibrator on.
    """
    found = gnncal.check(calibrator, nodes, nodes=new)
    probs = calibrator.predict_proba(nodes)[new]
    fitted_here = gnncal.get_calibrator(METHOD).fit(nodes, labels, calibration_nodes=own)
    best = fitted_here.predict_proba(nodes)[new]
    loss, least = (log_losses(p, labels[new]).mean() for p in (probs, best))
    ece, least_ece = (gnncal.evaluate(labels[new], p).ece.value for p in (probs, best))
    return {
        "verdict": found.verdict,
        "distance": round(found.distance, 4),
        "moves": {move.name: round(move.distance, 3) for move in found.moves},
        "moved": [move.name for move in found.moves if move.is_moved],
        "nll": round(float(loss), 4),
        "excess": round(float(loss - least), 4),
        "ece": round(float(ece), 4),
        "ece_own": round(float(least_ece), 4),
        "gap": round(float(probs.max(1).mean() - (probs.argmax(1) == labels[new]).mean()), 4),
        "n_new": int(new.size),
    }


def pairs(models: Models, family: str, graphs: tuple[str, ...], seed: int) -> Iterator[Any]:
    for source in graphs:
        home = models.practice(source, seed)
        nodes = Nodes(home.logits, home.graph)
        fitted = gnncal.get_calibrator(METHOD).fit(
            nodes, home.labels, calibration_nodes=home.calibration_nodes
        )
        for target in graphs:
            there = models.elsewhere(source, target, seed)
            own = there.calibration_nodes
            if source != target:  # all labels of that graph but those of the judged nodes
                own = np.union1d(there.calibration_nodes, there.train_nodes)
            found = judged(
                fitted, Nodes(there.logits, there.graph), there.labels, there.test_nodes, own
            )
            yield {"family": family, "source": source, "target": target, "seed": seed, **found}


def resampled(models: Models, seed: int) -> Iterator[Any]:
    home = models.practice("tolokers", seed)
    nodes, labels = Nodes(home.logits, home.graph), home.labels
    fitted = gnncal.get_calibrator(METHOD).fit(
        nodes, labels, calibration_nodes=home.calibration_nodes
    )
    generator = np.random.default_rng(seed)
    others, positives = (home.test_nodes[labels[home.test_nodes] == c] for c in (0, 1))
    share = positives.size / home.test_nodes.size
    rates = {name: factor * share for name, factor in RATES.items()} | {"rate 3%": 0.03}
    for name, rate in rates.items():
        n_others = min(others.size, round(positives.size * (1 - rate) / rate))
        n_positives = min(positives.size, round(others.size * rate / (1 - rate)))
        chosen = [
            generator.choice(pool, n, replace=False)
            for pool, n in ((others, n_others), (positives, n_positives))
        ]
        mixed = generator.permutation(np.concatenate(chosen))
        new, own = (np.sort(half) for half in np.array_split(mixed, 2))
        found = judged(fitted, nodes, labels, new, own)
        yield {"family": "rates", "source": "tolokers", "target": name, "seed": seed, **found}


def grown(models: Models, seed: int) -> Iterator[Any]:
    dataset = models.dataset("tolokers")
    n_nodes = dataset.graph.n_nodes
    n_old = round(n_nodes * (1 - GROWTH))
    orders = {
        "random": np.random.default_rng(seed).permutation(n_nodes),
        "last": np.arange(n_nodes),
        "lowest degree": np.argsort(-dataset.graph.in_degree, kind="stable"),
    }
    for name, order in orders.items():
        old, joined = np.sort(order[:n_old]), np.sort(order[n_old:])
        parts = np.split(
            np.random.default_rng(seed).permutation(n_old), [n_old * 4 // 10, n_old * 6 // 10]
        )
        split = Split(*map(np.sort, parts))
        before = _part(dataset, old)
        path = models.cache / f"tolokers-grown-{name.replace(' ', '-')}-{seed}.npz"
        logits = _kept(path, lambda b=before, s=split: _trained(b, s, dataset.graph, seed))
        nodes = Nodes(logits["before"], before.graph)
        fitted = gnncal.get_calibrator(METHOD).fit(
            nodes, before.labels, calibration_nodes=split.calibration_nodes
        )
        here = Nodes(logits["after"], dataset.graph)
        halves = np.array_split(np.random.default_rng(seed).permutation(joined), 2)
        new, own = map(np.sort, halves)
        found = judged(fitted, here, dataset.labels, new, own)
        yield {"family": "growth", "source": "tolokers", "target": name, "seed": seed, **found}


def later_years(models: Models) -> Iterator[Any]:
    dataset = models.dataset("arxiv_years")
    with np.load(models.data / "more" / "arxiv_years.npz", allow_pickle=False) as file:
        year = file["node_year"].ravel()
    first = np.random.default_rng(0).permutation(np.flatnonzero(year == 2018))
    calibration, same = map(np.sort, np.array_split(first, 2))
    split = Split(np.flatnonzero(year <= 2017), calibration, np.flatnonzero(year >= 2019))
    path = models.cache / "arxiv_years-to-2017-0.npz"
    logits = _kept(path, lambda: _trained(dataset, split, dataset.graph, 0))["after"]
    nodes = Nodes(logits, dataset.graph)
    fitted = gnncal.get_calibrator(METHOD).fit(nodes, dataset.labels, calibration_nodes=calibration)
    kinds = {"2018": same} | {f"{y}": np.flatnonzero(year == y) for y in (2019, 2020)}
    for name, these in kinds.items():
        halves = np.array_split(np.random.default_rng(1).permutation(these), 2)
        new, own = map(np.sort, halves)
        found = judged(fitted, nodes, dataset.labels, new, own)
        yield {"family": "years", "source": "arxiv 2018", "target": name, "seed": 0, **found}


def _part(dataset: Dataset, kept: IntArray) -> Dataset:
    """The graph of some nodes, numbered anew."""
    number = np.full(dataset.graph.n_nodes, -1)
    number[kept] = np.arange(kept.size)
    edges = number[dataset.graph.edge_index]
    edges = edges[:, (edges >= 0).all(axis=0)]
    features = dataset.graph.features
    graph = Graph(edges, kept.size, None if features is None else features[kept])
    return replace(dataset, graph=graph, labels=dataset.labels[kept])


def _trained(dataset: Dataset, split: Split, later: Graph, seed: int) -> dict[str, Any]:
    classifier = train_classifier("gcn", dataset, split, seed=seed, settings=SETTINGS)
    return {"before": classifier.logits(dataset.graph), "after": classifier.logits(later)}


def _kept(path: Path, make: Any) -> dict[str, Any]:
    if not path.exists():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **make())
        write_file(path, buffer.getvalue(), overwrite=True)
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/check.json")
    parser.add_argument("--without-years", action="store_true", help="leave the large graph out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    models = Models(options.data, options.cache)
    lines: list[Any] = []
    for seed in range(options.seeds):
        for family, graphs in (("countries", TWITCH), ("libraries", LIBRARIES)):
            lines += pairs(models, family, graphs, seed)
        lines += resampled(models, seed)
        lines += grown(models, seed)
        print(f"seed {seed}: {len(lines)} lines", flush=True)
    if not options.without_years:
        lines += later_years(models)
    options.out.write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")


if __name__ == "__main__":
    main()
