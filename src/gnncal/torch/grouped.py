"""Sums over neighbours on a CPU, by the kernels of the NumPy path, with gradients."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnncal.core.graph import Graph, Side
from gnncal.homophily.share import neighbour_class_share

SMALL_PRODUCT = 1 << 20  # edges times classes that cost less than to take the classes one by one


class GroupedEdges:
    """The neighbours of a graph whose edges are grouped by receiver."""

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph, self.dtype = graph, dtype

    @cached_property
    def in_degree(self) -> Tensor:
        """(n_nodes,) with self-loops."""
        return self._tensor(self.graph.in_degree)

    @cached_property
    def out_degree(self) -> Tensor:
        """(n_nodes,) with self-loops."""
        return self._tensor(self.graph.out_degree)

    @cached_property
    def self_loops(self) -> Tensor:
        """(n_nodes,)."""
        return self._tensor(self.graph.self_loops)

    def counts(self, side: Side) -> Tensor:
        """How many neighbours each node has, (n_nodes,)."""
        return self._tensor(self.graph.neighbour_counts(side=side))

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        return NeighbourMean.apply(values, self.graph, self._needed(side))

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        return ClassMean.apply(values, classes, self.graph, self._needed(side))

    def _needed(self, side: Side) -> Side:
        """One direction of an undirected graph says what both say."""
        return "in" if side == "both" and self.graph.is_undirected else side

    def _tensor(self, values: Any) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.dtype)


class NeighbourMean(torch.autograd.Function):
    """Mean of each column over the neighbours of a node; zero where there are none."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, graph: Graph, side: Side) -> Tensor:
        """Multiply by the adjacency, once for each direction."""
        ctx.graph, ctx.side = graph, side
        means = graph.neighbour_mean(values.detach().numpy(), side=side)
        return torch.from_numpy(np.nan_to_num(means, copy=False, nan=0.0))

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
        """Touch each edge once, whatever the number of classes; on a small graph, every class."""
        ctx.graph, ctx.side, ctx.classes, ctx.shape = graph, side, classes.numpy(), values.shape
        columns = values.detach().numpy()
        if graph.n_edges * columns.shape[1] <= SMALL_PRODUCT:
            share = graph.neighbour_mean(columns, side=side)[np.arange(len(columns)), ctx.classes]
        else:
            share = neighbour_class_share(graph, ctx.classes, lambda c: columns[:, c], side=side)
        return torch.from_numpy(np.nan_to_num(share, copy=False, nan=0.0)).to(values.dtype)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Send each node's gradient back to the same column of its neighbours."""
        gradient = gradients[0].numpy()
        shared = np.zeros(ctx.shape, dtype=gradient.dtype)
        nodes = np.arange(len(gradient))
        shared[nodes, ctx.classes] = gradient / _at_least_one(ctx.graph, ctx.side)
        return torch.from_numpy(_sent_back(shared, ctx.graph, ctx.side)), None, None, None


def _at_least_one(graph: Graph, side: Side) -> Any:
    return np.maximum(graph.neighbour_counts(side=side), 1)


def _sent_back(shared: Any, graph: Graph, side: Side) -> Any:
    """The transpose of the sum over neighbours, applied to (n_nodes, k)."""
    matrix: sparse.csr_array = graph.adjacency(shared.dtype)
    directions = {"in": (matrix.T,), "out": (matrix,), "both": (matrix.T, matrix)}[side]
    sums = directions[0] @ shared
    for other in directions[1:]:
        sums += other @ shared
    sums -= (len(directions) * graph.self_loops)[:, None] * shared
    return sums.astype(shared.dtype, copy=False)
