"""Means over the neighbours of every node: SciPy's products, or compiled loops on large graphs."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.compiled import in_parallel, kernels_for, pieces
from gnncal.core.grouping import row_slices

if TYPE_CHECKING:
    from gnncal.core.graph import Graph, Side

CACHE_LINE = 64  # bytes; rows that begin with one are read with the fewest
SHORT = 64  # float32 numbers whose sum is off by less than 1e-6 of it
PARTIAL = 8  # of them in each part of a longer sum
EDGES_PER_ROW = 16  # of a row of values; where it is read less often, a copy does not pay


def neighbour_means(graph: Graph, values: FloatArray, side: Side) -> FloatArray:
    """Mean of ``values`` (n_nodes, ...) over the neighbours of each node; NaN without any."""
    matrix = values.reshape(graph.n_nodes, -1)
    kernels = kernels_for(graph.n_edges)
    if kernels is not None:
        return _compiled_means(graph, matrix, side, kernels).reshape(values.shape)
    means = np.empty_like(matrix)
    counts = graph.neighbour_counts(side=side)[:, None]
    divisors = np.maximum(counts, 1).astype(values.dtype)
    for rows, sums in _neighbour_sums(graph, matrix, side):
        means[rows] = np.divide(sums, divisors[rows], out=sums)
    means[counts[:, 0] == 0] = np.nan
    return means.reshape(values.shape)


def matrix_sums(matrix: sparse.csr_array, values: FloatArray) -> FloatArray:
    """Return ``matrix @ values``, (n_rows, k), where long sums keep their digits."""
    sums: FloatArray = np.empty((matrix.shape[0], values.shape[1]), dtype=values.dtype)
    for rows in row_slices(matrix.indptr):
        sums[rows] = edge_sums(matrix.indptr, matrix.indices, rows, values, matrix.data)
    return sums


def _neighbour_sums(
    graph: Graph, values: FloatArray, side: Side
) -> Iterator[tuple[slice, FloatArray]]:
    """Give sums of ``values`` (n_nodes, k) over neighbours, for some nodes at a time."""
    sides = [graph] if side == "in" else [graph.reversed]
    sides += [graph] if side == "both" else []
    for rows in row_slices(sides[0].indptr):
        parts = [edge_sums(each.indptr, each.indices, rows, values) for each in sides]
        sums = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        loops = len(sides) * graph.self_loops[rows]
        if loops.any():
            sums -= loops[:, None].astype(sums.dtype) * values[rows]
        yield rows, sums


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
    graph: Graph, values: FloatArray, side: Side, kernels: ModuleType
) -> FloatArray:
    one = graph.reversed if side == "out" else graph
    other = graph.reversed if side == "both" else one
    n_sides = 2 if side == "both" else 1
    means = np.empty(values.shape, dtype=values.dtype)
    rows = _aligned(values) if graph.n_edges > EDGES_PER_ROW * graph.n_nodes else values
    loops = n_sides * graph.self_loops
    counts = graph.neighbour_counts(side=side)
    in_parallel(
        lambda first, last: kernels.row_means(
            one.indptr,
            one.indices,
            other.indptr,
            other.indices,
            n_sides,
            rows,
            loops,
            counts,
            first,
            last,
            means,
        ),
        *pieces(one.indptr),
    )
    return means


def _aligned(values: FloatArray) -> FloatArray:
    """Return a copy with some columns of zeros, so that each row begins a cache line."""
    line = CACHE_LINE // values.itemsize
    n_rows, n_columns = values.shape
    width = -(-n_columns // line) * line
    memory = np.zeros(n_rows * width + line, dtype=values.dtype)
    start = -(memory.ctypes.data // values.itemsize) % line
    copy = memory[start : start + n_rows * width].reshape(n_rows, width)
    copy[:, :n_columns] = values
    return copy
