"""Sets of classes while the graph grows: what an old threshold covers, and a refreshed one.

    python benchmarks/growing.py --draws 1000

A graph of 600 nodes, of which 150 are there at first, chosen at random; 75 of these are calibration
nodes. The model reads a node's features and its neighbours, so that its probabilities change when
neighbours join. Sets are judged on the 450 nodes that join later, with the threshold of the first
graph and with one that was refreshed on the whole graph. The expected coverage of a fresh threshold
is known exactly. Two worlds: in one the neighbours help, in the other they mislead the model.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from gnncal import Graph
from gnncal.calibrators import softmax
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.decisions import ConformalClassifier

N_NODES, N_FIRST, N_CALIBRATION, N_CLASSES = 600, 150, 75, 3
COVERAGE = 0.9


@dataclass(frozen=True)
class World:
    """How often neighbours are of one class, and what the model makes of their features."""

    kept_within: float  # share of the possible edges within a class
    kept_between: float
    adds_up: bool  # the model adds neighbours up, or takes their mean
    trust: float  # in what it reads
    diffusion: float  # of DAPS


WORLDS = {
    "neighbours help": World(0.9, 0.05, adds_up=False, trust=2.0, diffusion=0.5),
    "neighbours mislead": World(0.1, 0.45, adds_up=True, trust=0.3, diffusion=0.2),
}


def draw_graph(world: World) -> tuple[FloatArray, IntArray, IntArray]:
    """Features, labels and edges of all nodes, the same in every draw."""
    generator = np.random.default_rng(0)
    labels = generator.integers(N_CLASSES, size=N_NODES)
    features = np.eye(N_CLASSES)[labels] + 1.2 * generator.normal(size=(N_NODES, N_CLASSES))
    edges = generator.integers(N_NODES, size=(2, 20 * N_NODES))
    within = labels[edges[0]] == labels[edges[1]]
    kept = generator.random(within.size) < np.where(within, world.kept_within, world.kept_between)
    edges = edges[:, kept & (edges[0] != edges[1])][:, : 6 * N_NODES]
    return features, labels, np.concatenate([edges, edges[::-1]], axis=1)


def predict(world: World, features: FloatArray, graph: Graph) -> FloatArray:
    """Probabilities of a model that reads each node and its neighbours."""
    near = np.nan_to_num(graph.neighbour_mean(features))
    if world.adds_up:
        return softmax(world.trust * (2 * features + graph.in_degree[:, None] * near))
    return softmax(world.trust * (features + near))


def covered_after_growth(world: World, n_draws: int) -> FloatArray:
    """Share of the new nodes whose set has the true class, (n_draws, 2): old and refreshed."""
    features, labels, edges = draw_graph(world)
    new = np.arange(N_FIRST, N_NODES)
    shares = []
    for draw in range(n_draws):
        order = np.random.default_rng(draw).permutation(N_NODES)  # in which nodes join
        x, y, today = features[order], labels[order], Graph(np.argsort(order)[edges], N_NODES)
        there = (today.edge_index < N_FIRST).all(axis=0)
        first = Graph(today.edge_index[:, there], N_FIRST)
        old = ConformalClassifier(
            COVERAGE,
            score="daps",
            score_params={"diffusion": world.diffusion},
            nonempty=False,
            random_state=draw,
        )
        old.fit(
            predict(world, x[:N_FIRST], first),
            y[:N_FIRST],
            first,
            calibration_nodes=np.arange(N_CALIBRATION),
        )
        probs = predict(world, x, today)
        shares.append([_covered(c, probs, today, y, new) for c in (old, old.refresh(probs, today))])
    return np.array(shares)


def expected_coverage() -> float:
    """What a threshold of so many calibration nodes covers on average, exactly."""
    return ceil((N_CALIBRATION + 1) * COVERAGE - 1e-9) / (N_CALIBRATION + 1)


def _covered(conformal: Any, probs: FloatArray, graph: Graph, y: IntArray, new: IntArray) -> float:
    sets = conformal.predict_set(probs, graph, ids=np.arange(N_NODES))
    return float(sets[new, y[new]].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    n_draws = parser.parse_args().draws
    print(f"expected with a fresh threshold: {100 * expected_coverage():.2f}%")
    for name, world in WORLDS.items():
        shares = 100 * covered_after_growth(world, n_draws)
        margin = 1.96 * shares.std(axis=0, ddof=1) / np.sqrt(n_draws)
        texts = [
            f"{mean:.2f}% [{mean - m:.2f}, {mean + m:.2f}]"
            for mean, m in zip(shares.mean(axis=0), margin, strict=True)
        ]
        print(f"{name}: old threshold {texts[0]}, refreshed {texts[1]}")


if __name__ == "__main__":
    main()
