"""Sums over neighbours on a CPU, by the kernels of the NumPy path, with gradients."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import EDGES_PER_BLOCK, Graph, Side


class GroupedEdges:
    """The neighbours of a graph whose edges are grouped by receiver."""

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph, self.dtype = graph, dtype

    @cached_property
    def in_degree(self) -> Tensor:
        """Number of edges of each node, self-loops included, (n_nodes,)."""
        return self._tensor(self.graph.in_degree)

    @cached_property
    def out_degree(self) -> Tensor:
        """Number of edges of each node, self-loops included, (n_nodes,)."""
        return self._tensor(self.graph.out_degree)

    @cached_property
    def self_loops(self) -> Tensor:
        """Number of self-loops of each node, (n_nodes,)."""
        return self._tensor(self.graph.self_loops)

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""
        return self._tensor(self.graph.neighbour_counts(side=side))

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        return NeighbourMean.apply(values, self.graph, self._needed(side))

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        return ClassMean.apply(values, classes, self.graph, self._needed(side))

    def _needed(self, side: Side) -> Side:
        """Return the directions to sum over; one is enough in an undirected graph."""
        return "in" if side == "both" and self.graph.is_undirected else side

    def _tensor(self, values: Any) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.dtype)


class NeighbourMean(torch.autograd.Function):
    """Mean of each column over the neighbours of a node; zero where there are none."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, graph: Graph, side: Side) -> Tensor:
        """Multiply by the adjacency, once for each direction."""
        ctx.graph, ctx.side = graph, side
        columns = values.detach().numpy()
        sums = _added(graph.adjacency(columns.dtype), side, lambda matrix: matrix @ columns)
        if graph.self_loops.any():
            sums -= _loops(graph, side)[:, None] * columns
            sums[graph.neighbour_counts(side=side) == 0] = 0.0  # rounding may be left
        sums *= (1.0 / _at_least_one(graph, side)).astype(columns.dtype)[:, None]
        return torch.from_numpy(sums)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Send each node's gradient back to its neighbours."""
        shared = gradients[0].numpy() / _at_least_one(ctx.graph, ctx.side)[:, None]
        return torch.from_numpy(_sent_back(shared, ctx.graph, ctx.side)), None, None


class ClassMean(torch.autograd.Function):
    """Mean over the neighbours of a node of the one column that its class names."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, classes: Tensor, graph: Graph, side: Side) -> Tensor:
        """Touch each edge once, whatever the number of classes."""
        ctx.graph, ctx.side, ctx.classes, ctx.shape = graph, side, classes.numpy(), values.shape
        columns = values.detach().numpy()
        if graph.n_edges <= EDGES_PER_BLOCK:
            share = _class_mean_at_once(graph, columns, ctx.classes, side)
        else:
            found = neighbour_class_share(graph, ctx.classes, lambda c: columns[:, c], side=side)
            share = np.nan_to_num(found, copy=False, nan=0.0)
        return torch.from_numpy(share).to(values.dtype)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Send each node's gradient back to the same column of its neighbours."""
        gradient = gradients[0].numpy()
        shared = np.zeros(ctx.shape, dtype=gradient.dtype)
        nodes = np.arange(len(gradient))
        shared[nodes, ctx.classes] = gradient / _at_least_one(ctx.graph, ctx.side)
        return torch.from_numpy(_sent_back(shared, ctx.graph, ctx.side)), None, None, None


def _class_mean_at_once(graph: Graph, values: FloatArray, classes: IntArray, side: Side) -> Any:
    """Return the class mean with one number for each edge in memory: quick where edges are few."""
    sides: dict[Side, tuple[Side, ...]] = {"in": ("in",), "out": ("out",), "both": ("in", "out")}
    sums = np.zeros(len(values), dtype=values.dtype)
    for each in sides[side]:
        seen = graph if each == "in" else graph.reversed
        entries = seen.indices.astype(np.int64) * values.shape[1]
        entries += np.repeat(classes, seen.in_degree)
        heard = values.reshape(-1).take(entries)
        shape = (len(values),) * 2
        sums += sparse.csr_array((heard, seen.indices, seen.indptr), shape=shape).sum(axis=1)
    sums -= _loops(graph, side) * values[np.arange(len(values)), classes]
    sums /= _at_least_one(graph, side)
    sums[graph.neighbour_counts(side=side) == 0] = 0.0  # rounding may be left of self-loops
    return sums


def _at_least_one(graph: Graph, side: Side) -> IntArray:
    return np.maximum(graph.neighbour_counts(side=side), 1)


def _loops(graph: Graph, side: Side) -> IntArray:
    """Return how often the sums over one side, or both, count a node itself."""
    return (2 if side == "both" else 1) * graph.self_loops


def _added(matrix: sparse.csr_array, side: Side, product: Any) -> Any:
    """Products with the directions of the adjacency that a side needs, added up."""
    directions = {"in": (matrix,), "out": (matrix.T,), "both": (matrix, matrix.T)}[side]
    sums = product(directions[0])
    for other in directions[1:]:
        sums += product(other)
    return sums


def _sent_back(shared: Any, graph: Graph, side: Side) -> Any:
    """Return the transpose of the sum over neighbours, applied to (n_nodes, k)."""
    back: dict[Side, Side] = {"in": "out", "out": "in", "both": "both"}
    sums = _added(graph.adjacency(shared.dtype), back[side], lambda matrix: matrix @ shared)
    sums -= _loops(graph, side)[:, None] * shared
    return sums.astype(shared.dtype, copy=False)
