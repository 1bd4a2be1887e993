"""Single nodes: those whose confidence changed most, and the neighbours around each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Graph

LISTED_NODES = 300
DRAWN_NEIGHBOURS = 24


@dataclass(frozen=True)
class NodeView:
    """What is known of some nodes; every array has one entry for each node."""

    node: IntArray  # index in the graph
    name: Sequence[str]
    split: Sequence[str]  # train, calibration, test, or nothing
    prediction: IntArray  # of the model
    label: IntArray  # -1 unknown
    in_degree: IntArray
    entropy: FloatArray
    support: FloatArray  # NaN without neighbours
    confidence: FloatArray  # of the model
    calibrated: Mapping[str, FloatArray]  # by method: probability of the model's prediction
    predicted: Mapping[str, IntArray]  # by method that may change predictions
    temperature: Mapping[str, FloatArray]  # by method that has one


@dataclass(frozen=True)
class Surroundings:
    """A listed node with its neighbours; numbers are positions in the view of the drawn nodes."""

    centre: int
    neighbours: IntArray  # (n_drawn,)
    edges: IntArray  # (2, n) among the neighbours
    n_neighbours: int  # of which some may not be drawn


def most_changed(before: FloatArray, after: FloatArray, n_listed: int = LISTED_NODES) -> IntArray:
    """Return the nodes by the size of the change, largest first; equal changes by position."""
    change = np.abs(after - before)
    n_listed = min(n_listed, len(change))
    smallest = np.partition(change, len(change) - n_listed)[len(change) - n_listed]
    candidates = np.flatnonzero(change >= smallest)
    return candidates[np.argsort(-change[candidates], kind="stable")][:n_listed]


def look_around(
    graph: Graph, nodes: IntArray, *, random_state: int = 0
) -> tuple[IntArray, list[Surroundings]]:
    """Return the nodes to draw, and the surroundings of each of ``nodes`` among them."""
    generator = np.random.default_rng(random_state)
    circles = []
    for node in nodes.tolist():
        around = _neighbours(graph, node)
        n_neighbours = len(around)
        if n_neighbours > DRAWN_NEIGHBOURS:
            around = np.sort(generator.choice(around, DRAWN_NEIGHBOURS, replace=False))
        circles.append((node, around, n_neighbours))
    drawn = np.unique(np.concatenate([nodes, *(around for _, around, _ in circles)]))
    surroundings = [
        Surroundings(
            int(np.searchsorted(drawn, node)),
            np.searchsorted(drawn, around),
            np.searchsorted(drawn, _edges_among(graph, around)),
            n_neighbours,
        )
        for node, around, n_neighbours in circles
    ]
    return drawn, surroundings


def _neighbours(graph: Graph, node: int) -> IntArray:
    """Return the other nodes that send to a node or receive from it, sorted."""
    sides = (graph,) if graph.is_undirected else (graph, graph.reversed)
    ends = [side.indices[side.indptr[node] : side.indptr[node + 1]] for side in sides]
    around = np.unique(np.concatenate(ends)).astype(np.int64)
    return around[around != node]


def _edges_among(graph: Graph, nodes: IntArray) -> IntArray:
    """(2, n) edges between some nodes, each pair once."""
    pairs = []
    for receiver in nodes.tolist():
        senders = graph.indices[graph.indptr[receiver] : graph.indptr[receiver + 1]]
        inside = senders[np.isin(senders, nodes)]  # no sort: a hub has many senders
        pairs += [(min(s, receiver), max(s, receiver)) for s in inside.tolist() if s != receiver]
    return np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2).T
