"""The one sparse kernel of homophily: the share of neighbours that have a node's class."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.graph.compiled import kernels_for, parallel_for, row_chunks
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, Side
from gnncal.graph.means import EDGES_PER_BLOCK

NumberArray = npt.NDArray[np.floating[Any] | np.integer[Any]]
CLASSES_AT_ONCE = 16  # columns that are laid out one after the other: a cache line of float32


def neighbour_class_share(
    graph: Graph | EntityGraph,
    classes: IntArray,
    values: NumberArray,
    *,
    side: Side,
    counted: BoolArray | None = None,
) -> FloatArray:
    """Return the mean over the neighbours of each node of what they give to its class."""
    if isinstance(graph, EntityGraph):
        return graph.class_share(classes, values, counted)
    sums = _neighbour_sums(graph, classes, values, side)
    if counted is None:
        counts: FloatArray = graph.neighbour_counts(side=side).astype(np.float64)
    else:
        yes = np.ones(graph.n_nodes, dtype=np.int64)
        counts = _neighbour_sums(graph, yes, counted.astype(np.int64), side)
    defined = (counts > 0) & (classes >= 0)
    return np.divide(sums, counts, out=np.full(graph.n_nodes, np.nan), where=defined)


def _neighbour_sums(graph: Graph, classes: IntArray, values: NumberArray, side: Side) -> FloatArray:
    if side == "both":
        return _sums_over_senders(graph, classes, values) + _sums_over_senders(
            graph.reversed, classes, values
        )
    return _sums_over_senders(graph if side == "in" else graph.reversed, classes, values)


def _sums_over_senders(graph: Graph, classes: IntArray, values: NumberArray) -> FloatArray:
    kernels = kernels_for(graph.n_edges)
    if kernels is not None and values.ndim == 1:
        return _compiled_votes(graph, classes, values, kernels)
    if kernels is not None:
        return _compiled_sums(graph, classes, values, kernels)
    sums = np.zeros(graph.n_nodes)
    adjacency = graph.adjacency(np.int8)  # one byte for each edge; widened block by block
    for c in np.unique(classes[classes >= 0]):
        column = values == c if values.ndim == 1 else values[:, c]
        given = column.astype(np.float64)
        for rows in _blocks(np.flatnonzero(classes == c), graph.in_degree):
            sums[rows] = adjacency[rows] @ given - graph.self_loops[rows] * given[rows]
    return sums


def _blocks(rows: IntArray, degree: IntArray) -> Iterator[IntArray]:
    """Cut rows into runs of at most EDGES_PER_BLOCK edges (a larger row stands alone)."""
    edges_before = np.cumsum(degree[rows], dtype=np.int64)
    cuts = np.flatnonzero(np.diff(edges_before // EDGES_PER_BLOCK)) + 1
    yield from np.split(rows, cuts)


def _compiled_sums(
    graph: Graph, classes: IntArray, values: NumberArray, kernels: ModuleType
) -> FloatArray:
    sums = np.zeros(graph.n_nodes)
    order = np.argsort(classes, kind="stable")
    ranked = classes[order]
    for first_class in range(0, values.shape[1], CLASSES_AT_ONCE):
        last_class = min(first_class + CLASSES_AT_ONCE, values.shape[1])
        chosen = order[slice(*np.searchsorted(ranked, [first_class, last_class]))]
        if not chosen.size:
            continue
        columns = np.ascontiguousarray(values[:, first_class:last_class].T)
        ends = np.append(0, np.cumsum(graph.in_degree[chosen], dtype=np.int64))
        parallel_for(
            lambda first, last, c=columns, n=first_class, o=chosen: kernels.class_sums(
                graph.indptr, graph.indices, c, n, classes, o, first, last, sums
            ),
            *row_chunks(ends),
        )
    known = np.flatnonzero(classes >= 0)
    sums[known] -= graph.self_loops[known] * values[known, classes[known]].astype(np.float64)
    return sums


def _compiled_votes(
    graph: Graph, classes: IntArray, votes: NumberArray, kernels: ModuleType
) -> FloatArray:
    sums = np.zeros(graph.n_nodes)
    narrow = votes.astype(np.int32)  # half the size: more of them are in the cache
    parallel_for(
        lambda first, last: kernels.vote_sums(
            graph.indptr, graph.indices, narrow, classes, first, last, sums
        ),
        *row_chunks(graph.indptr),
    )
    sums -= graph.self_loops * (votes == classes)
    sums[classes < 0] = 0.0
    return sums


class Neighbours(Protocol):
    """What can be asked about the neighbours of every node."""

    @property
    def in_degree(self) -> Any:
        """Number of edges to each node, self-loops included, (n_nodes,)."""

    @property
    def out_degree(self) -> Any:
        """Number of edges from each node, self-loops included, (n_nodes,)."""

    @property
    def self_loops(self) -> Any:
        """Number of self-loops of each node, (n_nodes,)."""

    def counts(self, side: Side) -> Any:
        """Return how many neighbours each node has, (n_nodes,)."""

    def mean(self, values: Any, side: Side) -> Any:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""

    def class_mean(self, values: Any, classes: Any, side: Side) -> Any:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""


class GraphNeighbours:
    """The neighbours in a graph, by SciPy's sparse products."""

    def __init__(self, graph: Graph | EntityGraph) -> None:
        self.graph = graph
        self.in_degree: IntArray = graph.in_degree
        self.out_degree: IntArray = graph.out_degree
        self.self_loops: IntArray = graph.self_loops

    def counts(self, side: Side) -> IntArray:
        """Return how many neighbours each node has, (n_nodes,)."""
        return self.graph.neighbour_counts(side=side)

    def mean(self, values: FloatArray, side: Side) -> FloatArray:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        means = self.graph.neighbour_mean(values, side=self._needed(side))
        means[self.counts(side) == 0] = 0.0
        return means

    def class_mean(self, values: FloatArray, classes: IntArray, side: Side) -> FloatArray:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        share = neighbour_class_share(self.graph, classes, values, side=self._needed(side))
        return np.nan_to_num(share, copy=False, nan=0.0)

    def _needed(self, side: Side) -> Side:
        """Return the directions to sum over; one is enough in an undirected graph."""
        return self.graph.all_sides if side == "both" else side
