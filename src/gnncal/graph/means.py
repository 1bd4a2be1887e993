"""Edges grouped by receiver: compressed sparse rows from a list of edges in any order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.compiled import kernels_for, n_threads, parallel_for, row_chunks

if TYPE_CHECKING:
    from gnncal.graph.graph import Graph


Side = Literal["in", "out", "both"]
EDGES_IN_CACHE = 1 << 20  # temporaries of that many numbers are reused quickly
MOST_BUCKETS = 1024  # more places to write to are no longer in the cache
EDGES_PER_BUCKET = 1 << 15
LARGEST_BUCKET = 1 << 21  # edges that one loop sorts with a copy; hubs may have more
BITS_PER_DIGIT = 11
EDGES_PER_COUNT = 4  # bytes of a thread's own counters for each edge, at most


class GroupedEdges(NamedTuple):
    """Senders grouped by receiver and sorted within, and what was counted on the way."""

    indptr: IntArray  # (n_nodes + 1,)
    indices: IntArray  # (n_edges,)
    in_degree: IntArray  # (n_nodes,)
    out_degree: IntArray
    self_loops: IntArray


def group_by_receiver(
    senders: IntArray, receivers: IntArray, n_nodes: int, *, of_edges: int = 0
) -> GroupedEdges:
    """Group edges between nodes 0..n_nodes-1; numbers are int32 where all of them fit.

    If they are only a part of a graph, ``of_edges`` is the number of all edges.
    """
    fits = max(n_nodes, len(senders)) <= np.iinfo(np.int32).max
    index_type = np.dtype(np.int32 if fits else np.int64)
    kernels = kernels_for(max(len(senders), of_edges))
    if kernels is not None and len(senders):
        return _radix_group(senders, receivers, n_nodes, index_type, kernels)
    ones = np.ones(len(senders), dtype=np.int8)
    ends = (senders.astype(index_type, copy=False), receivers.astype(index_type, copy=False))
    edges = sparse.coo_array((ones, ends), shape=(n_nodes, n_nodes))
    edges.has_canonical_format = True  # so that multi-edges stay apart
    grouped = edges.tocsr(copy=False).T.tocsr()  # by sender, then by receiver: sorted both ways
    counts = (
        np.diff(grouped.indptr),
        np.bincount(senders, minlength=n_nodes),
        np.bincount(senders[senders == receivers], minlength=n_nodes),
    )
    in_degree, out_degree, loops = (each.astype(index_type, copy=False) for each in counts)
    return GroupedEdges(grouped.indptr, grouped.indices, in_degree, out_degree, loops)


def _starts(counts: IntArray, index_type: np.dtype[Any]) -> IntArray:
    """Return the number of entries before each group, and at last the number of all."""
    starts = np.zeros(len(counts) + 1, dtype=index_type)
    np.cumsum(counts, out=starts[1:])
    return starts


def _radix_group(
    senders: IntArray,
    receivers: IntArray,
    n_nodes: int,
    index_type: np.dtype[Any],
    kernels: ModuleType,
) -> GroupedEdges:
    """Do the same on every core: counted into buckets of receivers, then within each."""
    if senders.dtype not in (np.int32, np.int64):
        senders, receivers = senders.astype(np.int64), receivers.astype(np.int64)
    n_edges, bits = len(senders), max(n_nodes - 1, 1).bit_length()
    n_buckets = min(max(n_edges // EDGES_PER_BUCKET, 1), MOST_BUCKETS)
    shift = max(bits - (n_buckets - 1).bit_length(), 0)
    n_buckets = (max(n_nodes - 1, 0) >> shift) + 1
    out_degree = _counted(senders, n_nodes, index_type, kernels)

    parts = _parts(n_edges, n_threads())
    counts = np.zeros((len(parts), n_buckets), dtype=np.int64)
    parallel_for(lambda p, c: kernels.count_buckets(receivers, shift, *p, c), parts, counts)
    starts = _starts(counts.sum(axis=0), np.dtype(np.int64))
    places = starts[:-1] + np.cumsum(counts, axis=0) - counts  # each part has its own
    keys = np.empty(n_edges, dtype=np.int64)
    parallel_for(
        lambda p, c: kernels.fill_buckets(senders, receivers, shift, bits, *p, c, keys),
        parts,
        places,
    )

    large = np.flatnonzero(np.diff(starts) > LARGEST_BUCKET)
    parallel_for(lambda b: keys[starts[b] : starts[b + 1]].sort(), large)
    n_digits = -(-(bits + shift) // BITS_PER_DIGIT)
    digit = -(-(bits + shift) // n_digits)
    indices = np.empty(n_edges, dtype=index_type)
    in_degree = np.zeros(n_nodes, dtype=index_type)
    loops = np.zeros(n_nodes, dtype=index_type)
    parallel_for(
        lambda first, last: kernels.sort_buckets(
            keys,
            starts,
            LARGEST_BUCKET,
            bits + shift,
            digit,
            bits,
            first,
            last,
            indices,
            in_degree,
            loops,
        ),
        *row_chunks(starts),
    )
    return GroupedEdges(_starts(in_degree, index_type), indices, in_degree, out_degree, loops)


def _parts(n_edges: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut a list of edges into as many parts."""
    cuts = np.linspace(0, n_edges, n_parts + 1).astype(np.int64)
    return list(pairwise(cuts.tolist()))


def _threads_with_counters(n_edges: int, n_nodes: int) -> int:
    """Return how many threads may have a counter of their own for each node."""
    return max(1, min(n_threads(), EDGES_PER_COUNT * n_edges // (8 * max(n_nodes, 1))))


def _counted(
    nodes: IntArray, n_nodes: int, index_type: np.dtype[Any], kernels: ModuleType
) -> IntArray:
    """Return how often each node is named."""
    parts = _parts(len(nodes), _threads_with_counters(len(nodes), n_nodes))
    counts = np.zeros((len(parts), n_nodes), dtype=index_type)
    parallel_for(lambda p, c: kernels.count_nodes(nodes, *p, c), parts, counts)
    return counts.sum(axis=0, dtype=index_type)


def row_slices(indptr: IntArray, size: int | None = None) -> Iterator[slice]:
    """Cut rows into runs of about so many edges; a row with many edges stands alone."""
    cuts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]), size or EDGES_IN_CACHE))
    for start, end in pairwise(np.unique([0, *cuts, len(indptr) - 1]).tolist()):
        yield slice(start, end)


SHORT = 64  # float32 numbers whose sum is off by less than 1e-6 of it
PARTIAL = 8  # of them in each part of a longer sum


def graphs_of(graph: Graph, side: Side) -> list[Graph]:
    """Return the graphs in which the neighbours of a side are senders."""
    return [graph] if side == "in" else [graph.reversed, *([graph] if side == "both" else [])]


def neighbour_means(graph: Graph, values: FloatArray, side: Side) -> FloatArray:
    """Mean of ``values`` (n_nodes, ...) over the neighbours of each node; NaN without any."""
    matrix = values.reshape(graph.n_nodes, -1)
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


def matrix_sums(matrix: sparse.csr_array, values: FloatArray) -> FloatArray:
    """Return ``matrix @ values``, (n_rows, k), where long sums keep their digits."""
    sums: FloatArray = np.empty((matrix.shape[0], values.shape[1]), dtype=values.dtype)
    for rows in row_slices(matrix.indptr):
        sums[rows] = edge_sums(matrix.indptr, matrix.indices, rows, values, matrix.data)
    return sums


def edge_sums(
    indptr: IntArray,
    indices: IntArray,
    rows: slice,
    values: FloatArray,
    data: FloatArray | None = None,
) -> FloatArray:
    """Multiply some rows of a matrix, whose entries are 1 without ``data``, by ``values`` (n,
    k)."""
    starts = indptr[rows.start : rows.stop + 1].astype(np.int64)
    counts = np.diff(starts)
    is_long = counts > SHORT
    if values.dtype == np.float64 or not is_long.any():
        return _product(starts, indices, values, data)
    n_parts = np.where(is_long, -(-counts // PARTIAL), 1)
    ends = np.cumsum(n_parts)
    cuts = np.repeat(starts[:-1] - PARTIAL * (ends - n_parts), n_parts)
    cuts += PARTIAL * np.arange(ends[-1])
    parts = _product(np.append(cuts, starts[-1]), indices, values, data)
    sums = parts[ends - 1].astype(np.float64)  # the only part of a short row
    of_long = parts[np.repeat(is_long, n_parts)].astype(np.float64)
    n_before = np.append(0, np.cumsum(n_parts[is_long]))
    sums[is_long] = _product(n_before, np.arange(len(of_long), dtype=indices.dtype), of_long)
    return sums


def _product(
    starts: IntArray, indices: IntArray, values: FloatArray, data: FloatArray | None = None
) -> FloatArray:
    """Sum ``values`` at ``indices[starts[i]:starts[i + 1]]`` for each i, in their precision."""
    first, last = starts[0], starts[-1]
    times = np.ones(last - first, dtype=values.dtype) if data is None else data[first:last]
    entries = (times, indices[first:last], (starts - first).astype(indices.dtype))
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
