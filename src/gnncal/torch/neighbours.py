"""Sums over the neighbours of a node, in torch: two ways to the same numbers.

``EdgeList`` adds along the edges with torch alone, on any device, and can be exported.
``GroupedEdges`` has the edges grouped by receiver, as :class:`gnncal.Graph` has them, and uses
the kernels of the NumPy path: on a CPU that is many times faster. Both give gradients.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gnncal.core.errors import InputError
from gnncal.core.graph import Graph, Side
from gnncal.core.pyg import edges_of_adjacency
from gnncal.torch.grouped import GroupedEdges

EDGES_PER_BLOCK = 1 << 20  # bounds the memory for gathered rows


class Neighbours(Protocol):
    """What a module can ask about the neighbours of every node.

    Multi-edges count as often as they are listed; a node is never its own neighbour.
    """

    @property
    def in_degree(self) -> Tensor:
        """Number of edges to each node with self-loops, (n_nodes,), as precise as the logits."""

    @property
    def out_degree(self) -> Tensor:
        """Number of edges from each node with self-loops, (n_nodes,)."""

    @property
    def self_loops(self) -> Tensor:
        """Number of self-loops of each node, (n_nodes,)."""

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""


class EdgeList:
    """Edges as they come, for any device and for export."""

    def __init__(self, edge_index: Tensor, logits: Tensor) -> None:
        n_nodes = logits.shape[0]
        self.senders, self.receivers = edge_index[0], edge_index[1]
        ones = torch.ones_like(self.senders, dtype=logits.dtype)
        zeros = logits.new_zeros(n_nodes)
        self.in_degree = zeros.index_add(0, self.receivers, ones)
        self.out_degree = zeros.index_add(0, self.senders, ones)
        loops = (self.senders == self.receivers).to(logits.dtype)
        self.self_loops = zeros.index_add(0, self.receivers, loops)

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""
        if side == "both":
            return self.in_degree + self.out_degree - 2 * self.self_loops
        return (self.in_degree if side == "in" else self.out_degree) - self.self_loops

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        directions = self._directions(side)
        sums = torch.zeros_like(values)
        for senders, receivers in directions:
            for block in self._blocks():
                sums.index_add_(0, receivers[block], values.index_select(0, senders[block]))
        sums = sums - (len(directions) * self.self_loops)[:, None] * values
        counts = self.counts(side)[:, None]
        return torch.where(counts > 0, sums / counts.clamp(min=1), torch.zeros_like(sums))

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        directions = self._directions(side)
        flat, n_classes = values.reshape(-1), values.shape[1]
        sums = torch.zeros_like(self.in_degree)
        for senders, receivers in directions:
            for block in self._blocks():
                entry = senders[block] * n_classes + classes.index_select(0, receivers[block])
                sums.index_add_(0, receivers[block], flat.index_select(0, entry))
        own = values.gather(1, classes[:, None])[:, 0]
        sums = sums - len(directions) * self.self_loops * own
        counts = self.counts(side)
        return torch.where(counts > 0, sums / counts.clamp(min=1), torch.zeros_like(sums))

    def _directions(self, side: Side) -> list[tuple[Tensor, Tensor]]:
        there, back = (self.senders, self.receivers), (self.receivers, self.senders)
        return {"in": [there], "out": [back], "both": [there, back]}[side]

    def _blocks(self) -> list[slice]:
        if torch.compiler.is_compiling():  # a graph that is exported cannot count edges
            return [slice(None)]
        starts = range(0, self.senders.shape[0], EDGES_PER_BLOCK)
        return [slice(start, start + EDGES_PER_BLOCK) for start in starts]


class RememberedNeighbours:
    """Groups edges once, and keeps the groups while it gets the same tensor of edges."""

    def __init__(self) -> None:
        self._edges: weakref.ref[Any] | None = None
        self._version = -1
        self._graph: Graph | None = None

    def of(self, edges: Any, logits: Tensor) -> Neighbours:
        """Neighbours for these logits from an edge_index, an adj_t or a Graph."""
        if torch.compiler.is_compiling():
            return EdgeList(edges, logits)
        if isinstance(edges, Graph):
            _check_size(edges, logits)
            if logits.device.type == "cpu":
                return GroupedEdges(edges, logits.dtype)
            edge_index = torch.from_numpy(edges.edge_index.astype(np.int64))
            return EdgeList(edge_index.to(logits.device), logits)
        if logits.device.type == "cpu":
            return GroupedEdges(self._grouped(edges, logits), logits.dtype)
        return EdgeList(edge_index_of(edges).to(logits.device), logits)

    def _grouped(self, edges: Any, logits: Tensor) -> Graph:
        is_same = self._edges is not None and self._edges() is edges
        version = _version(edges)
        if not (is_same and version >= 0 and version == self._version):
            self._graph = Graph(edge_index_of(edges), logits.shape[0])
            self._edges, self._version = weakref.ref(edges), version
        assert self._graph is not None
        _check_size(self._graph, logits)
        return self._graph

    def __deepcopy__(self, memo: Any) -> RememberedNeighbours:
        return RememberedNeighbours()

    def __reduce__(self) -> tuple[Any, ...]:
        return RememberedNeighbours, ()


def _check_size(graph: Graph, logits: Tensor) -> None:
    if graph.n_nodes != logits.shape[0]:
        raise InputError(
            f"the graph has {graph.n_nodes} nodes but logits has {logits.shape[0]} rows; pass the "
            "logits of every node of this very graph."
        )


def _version(edges: Any) -> int:
    """Count of the changes in place of a tensor; -1 where torch does not keep it."""
    if not isinstance(edges, Tensor) or edges.is_inference() or edges.layout != torch.strided:
        return -1
    return edges._version


def edge_index_of(edges: Any) -> Tensor:
    """(2, n_edges) of an edge_index or of a transposed adjacency."""
    is_list = isinstance(edges, Tensor) and edges.layout == torch.strided
    if is_list and not edges.is_floating_point():
        return edges
    if is_list or not (isinstance(edges, Tensor) or hasattr(edges, "coo")):
        raise InputError(
            f"edge_index is a {type(edges).__name__} that gnncal cannot read as edges; expected a "
            "long tensor (2, n_edges), a sparse adj_t or a gnncal.Graph."
        )
    return torch.from_numpy(edges_of_adjacency(edges))
