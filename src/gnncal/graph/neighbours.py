"""Neighbours: means and class shares over them, and what formulas ask about them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.graph.compiled import kernels_for, parallel_for, row_chunks
from gnncal.graph.entities import EntityGraph, Side

if TYPE_CHECKING:
    from gnncal.graph.graph import Graph

NumberArray = npt.NDArray[np.floating[Any] | np.integer[Any]]
EDGES_AT_ONCE = 1 << 17  # so that what is gathered stays in the cache
EDGES_IN_CACHE = 1 << 20  # temporaries of that many numbers are reused quickly
SHORT = 64  # float32 numbers whose sum is off by less than 1e-6 of it
PARTIAL = 8  # of them in each part of a longer sum


def row_slices(indptr: IntArray, size: int | None = None) -> Iterator[slice]:
    """Cut rows into runs of about ``size`` edges; a row with more edges is a run of its own."""
    cuts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]), size or EDGES_IN_CACHE))
    for start, end in pairwise(np.unique([0, *cuts, len(indptr) - 1]).tolist()):
        yield slice(start, end)


def graphs_of(graph: Graph, side: Side) -> list[Graph]:
    """Return the graphs in which the neighbours of a side are senders."""
    return [graph] if side == "in" else [graph.reversed, *([graph] if side == "both" else [])]


def neighbour_means(graph: Graph, values: FloatArray, side: Side) -> FloatArray:
    """Mean of ``values`` (n_nodes, ...) over the neighbours of each node; NaN without any."""
    matrix = values if values.ndim == 2 else values.reshape(graph.n_nodes, -1)
    sides, counts = graphs_of(graph, side), graph.neighbour_counts(side=side)
    loops = len(sides) * graph.self_loops
    kernels = kernels_for(graph.n_edges)
    if kernels is not None:
        means = _compiled_means(sides, matrix, loops, counts, kernels)
    else:
        means = np.empty_like(matrix)
        divisors = np.maximum(counts, 1)[:, None].astype(values.dtype)
        for rows in row_slices(sides[0].indptr):
            parts = [edge_sums(each.indptr, each.indices, rows, matrix) for each in sides]
            sums = parts[0] if len(parts) == 1 else parts[0] + parts[1]
            if loops[rows].any():
                sums -= loops[rows, None].astype(sums.dtype) * matrix[rows]
            means[rows] = np.divide(sums, divisors[rows], out=sums)
    means[counts == 0] = np.nan
    return means.reshape(values.shape)


def edge_sums(indptr: IntArray, indices: IntArray, rows: slice, values: FloatArray) -> FloatArray:
    """Sum ``values`` (n, k) over the senders of some nodes; long sums keep their digits."""
    starts = indptr[rows.start : rows.stop + 1].astype(np.int64)
    counts = np.diff(starts)
    is_long = counts > SHORT
    if values.dtype == np.float64 or not is_long.any():
        return _product(starts, indices, values)
    n_parts = np.where(is_long, -(-counts // PARTIAL), 1)
    ends = np.cumsum(n_parts)
    cuts = np.repeat(starts[:-1] - PARTIAL * (ends - n_parts), n_parts)
    cuts += PARTIAL * np.arange(ends[-1])
    parts = _product(np.append(cuts, starts[-1]), indices, values)
    sums = parts[ends - 1].astype(np.float64)  # the only part of a short row
    of_long = parts[np.repeat(is_long, n_parts)].astype(np.float64)
    n_before = np.append(0, np.cumsum(n_parts[is_long]))
    sums[is_long] = _product(n_before, np.arange(len(of_long), dtype=indices.dtype), of_long)
    return sums


def _product(starts: IntArray, indices: IntArray, values: FloatArray) -> FloatArray:
    """Sum ``values`` at ``indices[starts[i]:starts[i + 1]]`` for each i, in their precision."""
    first, last = starts[0], starts[-1]
    ones = np.ones(last - first, dtype=values.dtype)
    entries = (ones, indices[first:last], (starts - first).astype(indices.dtype))
    return sparse.csr_array(entries, shape=(len(starts) - 1, len(values))) @ values


def _compiled_means(
    sides: list[Graph], values: FloatArray, loops: IntArray, counts: IntArray, kernels: ModuleType
) -> FloatArray:
    """Return the means with compiled loops, some rows on each core."""
    means = np.empty(values.shape, dtype=values.dtype)

    def work(first: int, last: int) -> None:
        sums = np.zeros((last - first, values.shape[1]))
        for each in sides:
            starts = each.indptr[first : last + 1]
            kernels.add_rows(starts, each.indices, values, 0, last - first, sums)
        sums -= loops[first:last, None] * values[first:last]
        means[first:last] = sums / np.maximum(counts[first:last], 1)[:, None]

    parallel_for(work, *row_chunks(sides[0].indptr))
    return means


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
        return _share_of_entities(graph, classes, values, counted)
    sums = class_sums(graph, classes, values, side)
    if counted is None:
        counts: FloatArray = graph.neighbour_counts(side=side).astype(np.float64)
    else:
        yes = np.ones(graph.n_nodes, dtype=np.int64)
        counts = class_sums(graph, yes, counted.astype(np.int64), side)
    defined = (counts > 0) & (classes >= 0)
    return np.divide(sums, counts, out=np.full(graph.n_nodes, np.nan), where=defined)


def _share_of_entities(
    graph: EntityGraph, classes: IntArray, values: Any, counted: BoolArray | None
) -> FloatArray:
    """Return the mean over an item's entities of what other items give to its class."""
    if values.ndim == 1:
        values = values[:, None] == np.arange(max(values.max(), classes.max()) + 1)
    given = values.astype(np.float64)
    if counted is not None:
        given = np.column_stack([given * counted[:, None], counted])
    means = graph.neighbour_mean(given)
    share = means[np.arange(graph.n_nodes), np.maximum(classes, 0)]
    if counted is not None:
        known = means[:, -1]
        share = np.divide(share, known, out=np.full(graph.n_nodes, np.nan), where=known > 0)
    return np.where(classes >= 0, share, np.nan)


def class_sums(graph: Graph, classes: IntArray, values: NumberArray, side: Side) -> FloatArray:
    """Sum what neighbours give to each node's class; arbitrary where a node has no class."""
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
    """Degrees, counts and means of the neighbours of every node."""

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


def needed_side(graph: Graph | EntityGraph, side: Side) -> Side:
    """Return the directions to sum over; one is enough in an undirected graph."""
    return graph.all_sides if side == "both" else side


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
        means = self.graph.neighbour_mean(values, side=needed_side(self.graph, side))
        means[self.counts(side) == 0] = 0.0
        return means

    def class_mean(self, values: FloatArray, classes: IntArray, side: Side) -> FloatArray:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        share = neighbour_class_share(
            self.graph, classes, values, side=needed_side(self.graph, side)
        )
        return np.nan_to_num(share, copy=False, nan=0.0)
