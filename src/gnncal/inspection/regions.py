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
    """Walk from all sources at once, along edges in either direction."""
    nobody = len(sources)
    source = np.full(graph.n_nodes, nobody, dtype=np.int64)
    hops = np.full(graph.n_nodes, -1, dtype=np.int64)
    source[sources[::-1]] = np.arange(len(sources))[::-1]
    hops[sources] = 0
    sides = [graph] if graph.is_undirected else [graph, graph.reversed]
    front = np.flatnonzero(hops == 0)
    missing = np.flatnonzero((hops < 0) & (sum(side.in_degree for side in sides) > 0))
    for distance in range(1, MAXIMUM_HOPS + 1):
        n_edges = [sum(int(side.in_degree[e].sum()) for side in sides) for e in (front, missing)]
        if n_edges[0] < n_edges[1]:
            _reach_from(front, sides, source, hops)
        else:
            _look_around(missing, sides, source)
        is_reached = source[missing] < nobody
        front, missing = missing[is_reached], missing[~is_reached]
        hops[front] = distance
        if not front.size or not missing.size:
            break
    return Nearest(np.where(source == nobody, -1, source), hops)


def _reach_from(front: IntArray, sides: list[Graph], source: IntArray, hops: IntArray) -> None:
    """Give the neighbours of the front that nobody has reached the first of their sources."""
    for graph in sides:
        reached, _, count = _edges_of(graph, front)
        fresh = hops[reached] < 0
        np.minimum.at(source, reached[fresh], np.repeat(source[front], count)[fresh])


def _look_around(missing: IntArray, sides: list[Graph], source: IntArray) -> None:
    """Give nodes that nobody has reached the first source of their neighbours."""
    nearest = source[missing]
    for graph in sides:
        around, start, count = _edges_of(graph, missing)
        filled = count > 0
        if filled.any():
            first = np.minimum.reduceat(source[around], start[filled])
            nearest[filled] = np.minimum(nearest[filled], first)
    source[missing] = nearest


def _edges_of(graph: Graph, nodes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the senders of some nodes, where those of each node begin, and how many it has."""
    begin = graph.indptr[nodes].astype(np.int64)
    count = graph.indptr[nodes + 1] - begin
    start = np.cumsum(count) - count
    place = np.repeat(begin - start, count)
    place += np.arange(place.size)
    return graph.indices[place], start, count


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
