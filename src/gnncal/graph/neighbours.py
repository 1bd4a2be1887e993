"""Neighbours as formulas ask about them, and the share of them that have a node's class."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.graph.compiled import kernels_for, parallel_for, row_chunks
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, Side
from gnncal.graph.means import row_slices

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
    """Return the mean over the neighbours of each node of what they give to its class.

    ``values`` (n_nodes, n_classes) are what a node gives to each class, or (n_nodes,) the one class
    that it votes for. Only neighbours that are ``counted`` count. NaN without any.
    """
    if isinstance(graph, EntityGraph):
        return graph.class_share(classes, values, counted)
    sums = class_sums(graph, classes, values, side)
    if counted is None:
        counts: FloatArray = graph.neighbour_counts(side=side).astype(np.float64)
    else:
        yes = np.ones(graph.n_nodes, dtype=np.int64)
        counts = class_sums(graph, yes, counted.astype(np.int64), side)
    defined = (counts > 0) & (classes >= 0)
    return np.divide(sums, counts, out=np.full(graph.n_nodes, np.nan), where=defined)


def class_sums(graph: Graph, classes: IntArray, values: NumberArray, side: Side) -> FloatArray:
    """Sum over the neighbours of each node what they give to its class; any number without one."""
    sides = {"in": [graph], "out": [graph.reversed], "both": [graph, graph.reversed]}[side]
    is_vote = values.ndim == 1
    own = values == classes if is_vote else values[np.arange(len(values)), classes]
    own = graph.self_loops * own.astype(np.float64)
    kernels = None if is_vote else kernels_for(graph.n_edges)
    totals = []
    for each in sides:
        if kernels is not None:
            sums = _compiled_sums(each, classes, values, kernels)
        else:
            sums = _gathered_sums(each, classes, values)
        totals.append(sums - own)
    return totals[0] if len(totals) == 1 else totals[0] + totals[1]


def _gathered_sums(graph: Graph, classes: IntArray, values: NumberArray) -> FloatArray:
    """Touch each edge once, whatever the number of classes; sums have the order of the senders."""
    sums, flat, width = (
        np.empty(graph.n_nodes),
        values.reshape(-1),
        (1 if values.ndim == 1 else values.shape[1]),
    )
    for rows in row_slices(graph.indptr):
        senders = graph.indices[graph.indptr[rows.start] : graph.indptr[rows.stop]]
        receivers = np.repeat(np.arange(rows.stop - rows.start), graph.in_degree[rows])
        wanted = classes[rows][receivers]
        if values.ndim == 1:
            given = values[senders] == wanted
        else:
            given = flat.take(senders * np.int64(width) + wanted, mode="wrap")
        sums[rows] = np.bincount(receivers, given, minlength=rows.stop - rows.start)
    return sums


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
    return sums


class Neighbours(Protocol):
    """What can be asked about the neighbours of every node."""

    @property
    def in_degree(self) -> Any:
        """Number of edges to each node, self-loops included, (n_nodes,)."""

    @property
    def out_degree(self) -> Any:
        """Number of edges from each node, self-loops included, (n_nodes,)."""

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
