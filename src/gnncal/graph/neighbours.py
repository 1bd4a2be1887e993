"""Neighbours as formulas ask about them, and the share of them that have a node's class."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.graph.compiled import parallel_for
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, Side
from gnncal.graph.means import graphs_of, row_slices

NumberArray = npt.NDArray[np.floating[Any] | np.integer[Any]]
EDGES_AT_ONCE = 1 << 17  # so that what is gathered stays in the cache


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
    is_vote = values.ndim == 1
    own = values == classes if is_vote else values[np.arange(len(values)), classes]
    of_loops = graph.self_loops * own.astype(np.float64)
    sums = [_sums_over_senders(each, classes, values) - of_loops for each in graphs_of(graph, side)]
    return sums[0] if len(sums) == 1 else sums[0] + sums[1]


def _sums_over_senders(graph: Graph, classes: IntArray, values: NumberArray) -> FloatArray:
    """Touch each edge once, whatever the number of classes."""
    sums, flat, one = np.empty(graph.n_nodes), values.reshape(-1), np.ones(1)

    def work(rows: slice) -> None:
        starts = graph.indptr[rows.start : rows.stop + 1]
        senders = graph.indices[starts[0] : starts[-1]]
        wanted = np.repeat(classes[rows], graph.in_degree[rows]).astype(np.int64)
        if values.ndim == 1:
            given = (values[senders] == wanted).astype(np.float64)
        else:
            wanted += senders * np.int64(values.shape[1])
            given = flat.take(wanted, mode="wrap").astype(np.float64, copy=False)
        entries = (given, np.zeros_like(senders), starts - starts[0])
        sums[rows] = sparse.csr_array(entries, shape=(len(starts) - 1, 1)) @ one

    parallel_for(work, row_slices(graph.indptr, EDGES_AT_ONCE))
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
