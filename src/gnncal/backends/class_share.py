"""The one sparse kernel of homophily: the share of neighbours that have a node's class."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.graph import EDGES_PER_BLOCK, Graph, Side

ClassColumn = Callable[[int], FloatArray]


def neighbour_class_share(
    graph: Graph,
    classes: IntArray,
    column: ClassColumn,
    *,
    side: Side,
    counted: BoolArray | None = None,
) -> FloatArray:
    """Mean of ``column(classes[i])`` over the neighbours of each node i, itself left out.

    ``column(c)`` is (n_nodes,): how much each node counts for class c. ``counted`` restricts the
    mean to some neighbours. NaN where no neighbour counts or the class is -1.

    Each edge is touched once for each side, for the one class that matters at its receiver: the
    cost is that of a sparse matrix-vector product, whatever the number of classes.
    """
    sums = _neighbour_sums(graph, classes, column, side)
    if counted is None:
        counts: FloatArray = graph.neighbour_counts(side=side).astype(np.float64)
    else:
        everywhere = np.zeros(graph.n_nodes, dtype=np.int64)
        counts = _neighbour_sums(graph, everywhere, lambda _: counted.astype(np.float64), side)
    defined = (counts > 0) & (classes >= 0)
    return np.divide(sums, counts, out=np.full(graph.n_nodes, np.nan), where=defined)


def _neighbour_sums(graph: Graph, classes: IntArray, column: ClassColumn, side: Side) -> FloatArray:
    if side == "both":
        return _sums_over_senders(graph, classes, column) + _sums_over_senders(
            graph.reversed, classes, column
        )
    return _sums_over_senders(graph if side == "in" else graph.reversed, classes, column)


def _sums_over_senders(graph: Graph, classes: IntArray, column: ClassColumn) -> FloatArray:
    sums = np.zeros(graph.n_nodes)
    adjacency = graph.adjacency(np.int8)  # one byte for each edge; widened block by block
    for c in np.unique(classes[classes >= 0]):
        values = np.asarray(column(int(c)), dtype=np.float64)
        for rows in _blocks(np.flatnonzero(classes == c), graph.in_degree):
            sums[rows] = adjacency[rows] @ values - graph.self_loops[rows] * values[rows]
    return sums


def _blocks(rows: IntArray, degree: IntArray) -> Iterator[IntArray]:
    """Cut rows into runs of at most EDGES_PER_BLOCK edges (a larger row stands alone)."""
    edges_before = np.cumsum(degree[rows], dtype=np.int64)
    cuts = np.flatnonzero(np.diff(edges_before // EDGES_PER_BLOCK)) + 1
    yield from np.split(rows, cuts)
