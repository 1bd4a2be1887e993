"""Regions of a graph: the nodes nearest to each hub, and the distance to the training nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import IntArray
from gnncal.core.graph import Graph

N_REGIONS = 10
CANDIDATES = 2000  # nodes of highest degree among which hubs are looked for
MAXIMUM_HOPS = 100  # what lies further away counts as out of reach


@dataclass(frozen=True)
class Nearest:
    """The source that is nearest to each node, and how many hops away it is."""

    source: IntArray  # (n_nodes,) position among the sources, -1 out of reach
    hops: IntArray  # (n_nodes,) -1 out of reach


def nearest_source(graph: Graph, sources: IntArray) -> Nearest:
    """Walk from all sources at once, along edges in either direction.

    Each edge is looked at once for each direction. Of two sources that are equally near, a node
    takes the one that is listed first.
    """
    nobody = len(sources)
    source = np.full(graph.n_nodes, nobody, dtype=np.int64)
    hops = np.full(graph.n_nodes, -1, dtype=np.int64)
    source[sources[::-1]] = np.arange(len(sources))[::-1]
    hops[sources] = 0
    sides = [graph] if graph.is_undirected else [graph, graph.reversed]
    for distance in range(1, MAXIMUM_HOPS + 1):
        reached, owner = _neighbours(sides, np.flatnonzero(hops == distance - 1), source)
        fresh = hops[reached] < 0
        if not fresh.any():
            break
        reached = reached[fresh]
        np.minimum.at(source, reached, owner[fresh])  # the source that is listed first
        hops[reached] = distance
    return Nearest(np.where(source == nobody, -1, source), hops)


def _neighbours(sides: list[Graph], front: IntArray, source: IntArray) -> tuple[IntArray, IntArray]:
    """Neighbours of the front's nodes, each with the source that reaches it."""
    reached, owners = [], []
    for graph in sides:
        start = graph.indptr[front].astype(np.int64)
        count = graph.indptr[front + 1] - start
        offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        reached.append(graph.indices[np.repeat(start, count) + offset].astype(np.int64))
        owners.append(np.repeat(source[front], count))
    return np.concatenate(reached), np.concatenate(owners)


def find_hubs(graph: Graph, n_hubs: int = N_REGIONS) -> IntArray:
    """Return nodes of high degree that are not neighbours of each other, highest first."""
    degree = graph.in_degree + graph.out_degree
    ranked = np.argsort(-degree, kind="stable")[:CANDIDATES]
    undirected = graph.is_undirected
    hubs: list[int] = []
    taken: set[int] = set()
    for node in ranked[degree[ranked] > 0].tolist():
        if node in taken:
            continue
        hubs.append(node)
        if len(hubs) == n_hubs:
            break
        for side in (graph,) if undirected else (graph, graph.reversed):
            taken.update(side.indices[side.indptr[node] : side.indptr[node + 1]].tolist())
    return np.array(hubs, dtype=np.int64)
