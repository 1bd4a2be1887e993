"""Means over the neighbours of every node: SciPy's products, or compiled loops on large graphs."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.compiled import in_parallel, kernels_for, pieces
from gnncal.core.grouping import row_blocks

if TYPE_CHECKING:
    from gnncal.core.graph import Graph, Side

CACHE_LINE = 64  # bytes; rows that begin with one are read with the fewest
EDGES_PER_ROW = 16  # of a row of values; where it is read less often, a copy does not pay


def neighbour_means(graph: Graph, values: FloatArray, side: Side) -> FloatArray:
    """Mean of ``values`` (n_nodes, ...) over the neighbours of each node; NaN without any."""
    kernels = kernels_for(graph.n_edges)
    if kernels is not None:
        matrix = values.reshape(graph.n_nodes, -1)
        return _compiled_means(graph, matrix, side, kernels).reshape(values.shape)
    column = (slice(None),) + (None,) * (values.ndim - 1)
    if side == "out":
        means: FloatArray = graph.adjacency(values.dtype).T @ values
    else:
        means = _sums_over_senders(graph, values)
    if side == "both":
        means += graph.adjacency(values.dtype).T @ values
    if graph.self_loops.any():
        n_sides = 2 if side == "both" else 1
        means -= (n_sides * graph.self_loops).astype(values.dtype)[column] * values
    counts = graph.neighbour_counts(side=side)
    means /= np.maximum(counts, 1).astype(values.dtype)[column]
    means[counts == 0] = np.nan
    return means


def _sums_over_senders(graph: Graph, values: FloatArray) -> FloatArray:
    """A @ values for some rows after the other: ones for all edges would be as large as these."""
    sums = np.empty(values.shape, dtype=values.dtype)
    for rows, block in row_blocks(graph.indptr, graph.indices, values.dtype):
        sums[rows] = block @ values
    return sums


def _compiled_means(
    graph: Graph, values: FloatArray, side: Side, kernels: ModuleType
) -> FloatArray:
    one = graph.reversed if side == "out" else graph
    other = graph.reversed if side == "both" else one
    n_sides = 2 if side == "both" else 1
    means = np.empty(values.shape, dtype=values.dtype)
    rows = _aligned(values) if graph.n_edges > EDGES_PER_ROW * graph.n_nodes else values
    loops = (n_sides * graph.self_loops).astype(values.dtype)
    counts = graph.neighbour_counts(side=side).astype(values.dtype)
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
