"""Sums over neighbours on a CPU, by the kernels of the NumPy path, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Graph, Side
from gnncal.core.grouping import EDGES_PER_BLOCK
from gnncal.core.neighbour_means import matrix_sums

Matrix = Callable[[], sparse.csr_array]


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
        needed = self._needed(side)
        counts = self.counts(needed).clamp(min=1)[:, None]
        return neighbour_sums(values, self.graph, needed) / counts

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        return ClassMean.apply(values, classes, self.graph, self._needed(side))

    def _needed(self, side: Side) -> Side:
        """Return the directions to sum over; one is enough in an undirected graph."""
        return "in" if side == "both" and self.graph.is_undirected else side

    def _tensor(self, values: Any) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.dtype)


class ConstantProduct(torch.autograd.Function):
    """A constant SciPy matrix times a tensor (n_nodes, k), with derivatives of every order."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Matrix, transpose: Matrix) -> Tensor:
        """Return ``matrix @ dense``."""
        ctx.matrix, ctx.transpose = matrix, transpose
        return torch.from_numpy(matrix_sums(matrix(), dense.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Multiply by the transpose, which is such a product again."""
        return ConstantProduct.apply(gradients[0], ctx.transpose, ctx.matrix), None, None


def sums_by_product(values: Tensor, there: Matrix, back: Matrix, side: Side) -> Tensor:
    """Multiply by the adjacency, by its transpose, or by both."""
    if side != "both":
        ways = (there, back) if side == "in" else (back, there)
        return ConstantProduct.apply(values, *ways)
    return ConstantProduct.apply(values, there, back) + ConstantProduct.apply(values, back, there)


def neighbour_sums(values: Tensor, graph: Graph, side: Side) -> Tensor:
    """Sum of each column over the neighbours of a node; zero where there are none."""
    dtype = values.detach().numpy().dtype
    sums = sums_by_product(
        values, lambda: graph.adjacency(dtype), lambda: graph.reversed.adjacency(dtype), side
    )
    if not graph.self_loops.any():
        return sums
    sums = sums - torch.from_numpy(_loops(graph, side)).to(values.dtype)[:, None] * values
    is_alone = torch.from_numpy(graph.neighbour_counts(side=side) == 0)
    return sums.masked_fill(is_alone[:, None], 0.0)  # rounding may be left


class ClassMean(torch.autograd.Function):
    """Mean over the neighbours of a node of the one column that its class names."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, classes: Tensor, graph: Graph, side: Side) -> Tensor:
        """Touch each edge once, whatever the number of classes."""
        ctx.graph, ctx.side, ctx.shape = graph, side, values.shape
        ctx.save_for_backward(classes)
        columns, own = values.detach().numpy(), classes.numpy()
        if graph.n_edges <= EDGES_PER_BLOCK:
            share = _class_mean_at_once(graph, columns, own, side)
        else:
            shares = neighbour_class_share(graph, own, columns, side=side)
            share = np.nan_to_num(shares, copy=False, nan=0.0)
        return torch.from_numpy(share).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Send each node's gradient back to the same column of its neighbours."""
        (classes,) = ctx.saved_tensors
        counts = torch.from_numpy(_at_least_one(ctx.graph, ctx.side)).to(gradients[0].dtype)
        shared = gradients[0].new_zeros(ctx.shape)
        shared = shared.scatter(1, classes[:, None], (gradients[0] / counts)[:, None])
        back: dict[Side, Side] = {"in": "out", "out": "in", "both": "both"}
        return neighbour_sums(shared, ctx.graph, back[ctx.side]), None, None, None


def _class_mean_at_once(graph: Graph, values: FloatArray, classes: IntArray, side: Side) -> Any:
    """Return the class mean with one number for each edge in memory: quick where edges are few."""
    sides: dict[Side, tuple[Side, ...]] = {"in": ("in",), "out": ("out",), "both": ("in", "out")}
    sums = np.zeros(len(values))
    for each in sides[side]:
        receiving = graph if each == "in" else graph.reversed
        entries = receiving.indices.astype(np.int64) * values.shape[1]
        entries += np.repeat(classes, receiving.in_degree)
        received = values.reshape(-1).take(entries)
        heard = np.flatnonzero(receiving.in_degree)
        starts = receiving.indptr[heard]
        sums[heard] += np.add.reduceat(received, starts, dtype=np.float64)
    sums -= _loops(graph, side) * values[np.arange(len(values)), classes]
    sums /= _at_least_one(graph, side)
    sums[graph.neighbour_counts(side=side) == 0] = 0.0  # rounding may be left of self-loops
    return sums


def _at_least_one(graph: Graph, side: Side) -> IntArray:
    return np.maximum(graph.neighbour_counts(side=side), 1)


def _loops(graph: Graph, side: Side) -> IntArray:
    """Return how often the sums over one side, or both, count a node itself."""
    return (2 if side == "both" else 1) * graph.self_loops
