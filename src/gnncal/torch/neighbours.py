"""Sums over the neighbours of a node, in torch: two ways to the same numbers.

``EdgeList`` takes edges as they come, on any device, and can be exported. ``GroupedEdges`` takes a
:class:`gnncal.Graph`, whose edges are grouped by receiver already, on a CPU. Both have derivatives
of every order. Both live for one call: nothing about edges is remembered between calls.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gnncal.backends.neighbours import Neighbours
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph, Side
from gnncal.torch.edges import check_nodes, edge_index_of, set_apart
from gnncal.torch.grouped import GroupedEdges, sums_by_product

EDGES_PER_BLOCK = 1 << 20  # bounds the memory for gathered rows
COLUMNS_PER_BLOCK = 16  # bounds the memory for sums in float64


def neighbours_of(edges: Any, logits: Tensor, *, checks_values: bool) -> Neighbours:
    """Return the neighbours in an edge_index, an adj_t or a Graph, for the nodes of these
    logits."""
    n_nodes = logits.shape[0]
    if isinstance(edges, Graph):
        if edges.n_nodes != n_nodes:
            raise InputError(
                f"the graph has {edges.n_nodes} nodes but logits has {n_nodes} rows; pass the "
                "logits of every node of this very graph."
            )
        if logits.device.type == "cpu" and (checks_values or not logits[:, 0].isnan().any()):
            return GroupedEdges(edges, logits.dtype)
        edge_index = torch.from_numpy(edges.edge_index.astype(np.int64)).to(logits.device)
    else:
        edge_index = edge_index_of(edges, n_nodes).to(logits.device, torch.int64)
        if checks_values:
            check_nodes(edge_index, n_nodes)
    return EdgeList(edge_index if checks_values else set_apart(edge_index, logits), logits)


class EdgeList:
    """Edges as they come, for any device and for export."""

    def __init__(self, edge_index: Tensor, logits: Tensor) -> None:
        self.senders, self.receivers = edge_index[0], edge_index[1]
        self.n_nodes, self.dtype = logits.shape[0], logits.dtype

    @cached_property
    def in_degree(self) -> Tensor:
        """Number of edges to each node, self-loops included, (n_nodes,)."""
        return self._counted(self.receivers, torch.ones_like(self.receivers))

    @cached_property
    def out_degree(self) -> Tensor:
        """Number of edges from each node, self-loops included, (n_nodes,)."""
        return self._counted(self.senders, torch.ones_like(self.senders))

    @cached_property
    def self_loops(self) -> Tensor:
        """Number of self-loops of each node, (n_nodes,)."""
        return self._counted(self.receivers, (self.senders == self.receivers).long())

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""
        if side == "both":
            return self.in_degree + self.out_degree - 2 * self.self_loops
        return (self.in_degree if side == "in" else self.out_degree) - self.self_loops

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        if torch.compiler.is_compiling():
            sums = self._sums_by_column(values, side)
        elif values.device.type == "cpu":
            side = "in" if side == "both" and self._is_undirected else side
            sums = self._sums_by_product(values, side)
        else:
            sums = self._sums_by_row(values, side)
        sums = sums - (len(self._directions(side)) * self.self_loops)[:, None] * values
        counts = self.counts(side)[:, None]
        return torch.where(counts > 0, sums / counts.clamp(min=1), torch.zeros_like(sums))

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        directions = self._directions(side)
        flat, n_classes = values.reshape(-1), values.shape[1]
        sums = self._zeros()
        for senders, receivers in directions:
            for block in self._blocks():
                entry = senders[block] * n_classes + classes.index_select(0, receivers[block])
                heard = flat.index_select(0, entry).to(sums.dtype)
                sums = sums.scatter_add(0, receivers[block], heard)
        own = values.gather(1, classes[:, None])[:, 0]
        sums = sums.to(self.dtype) - len(directions) * self.self_loops * own
        counts = self.counts(side)
        return torch.where(counts > 0, sums / counts.clamp(min=1), torch.zeros_like(sums))

    def _sums_by_column(self, values: Tensor, side: Side) -> Tensor:
        """Add one column at a time: what runs everywhere without a race and in little memory."""
        columns = []
        for column in values.unbind(1):
            sums = self._zeros()
            for senders, receivers in self._directions(side):
                heard = column.index_select(0, senders).to(sums.dtype)
                sums = sums.scatter_add(0, receivers, heard)
            columns.append(sums.to(self.dtype))
        return torch.stack(columns, dim=1)

    def _sums_by_product(self, values: Tensor, side: Side) -> Tensor:
        """Multiply by the adjacency on a CPU: several times faster than gathering rows."""
        return sums_by_product(values, lambda: self._adjacency, lambda: self._transpose, side)

    def _sums_by_row(self, values: Tensor, side: Side) -> Tensor:
        """Add rows, some columns at a time: sums in float64 take more memory than their values."""
        parts = []
        for some in values.split(COLUMNS_PER_BLOCK, dim=1):
            sums = self._zeros()[:, None].repeat(1, some.shape[1])
            for senders, receivers in self._directions(side):
                for block in self._blocks():
                    heard = some.index_select(0, senders[block]).to(sums.dtype)
                    sums = sums.index_add(0, receivers[block], heard)
            parts.append(sums.to(self.dtype))
        return torch.cat(parts, dim=1)

    @cached_property
    def _adjacency(self) -> sparse.csr_array:
        """A, for which ``A @ x`` sums over the senders of each node."""
        return self._matrix(self.receivers, self.senders)

    @cached_property
    def _transpose(self) -> sparse.csr_array:
        return self._matrix(self.senders, self.receivers)

    def _matrix(self, rows: Tensor, columns: Tensor) -> sparse.csr_array:
        ones = torch.ones(len(rows), dtype=self.dtype).numpy()
        small = self.n_nodes <= np.iinfo(np.int32).max
        ends = [end.numpy().astype(np.int32 if small else np.int64) for end in (rows, columns)]
        return sparse.csr_array((ones, tuple(ends)), shape=(self.n_nodes, self.n_nodes))

    @cached_property
    def _is_undirected(self) -> bool:
        """Whether every edge is listed in both directions, as :class:`gnncal.Graph` finds out."""
        if not torch.equal(self.in_degree, self.out_degree):
            return False
        generator = torch.Generator().manual_seed(0)
        numbers = torch.randint(1 << 20, (self.n_nodes,), generator=generator)
        there, back = (
            torch.zeros_like(numbers).scatter_add(0, end, numbers[start])
            for start, end in (self._ends, self._ends[::-1])
        )
        return torch.equal(there, back)

    @property
    def _ends(self) -> tuple[Tensor, Tensor]:
        return self.receivers, self.senders

    def _directions(self, side: Side) -> list[tuple[Tensor, Tensor]]:
        there, back = (self.senders, self.receivers), (self.receivers, self.senders)
        return {"in": [there], "out": [back], "both": [there, back]}[side]

    def _blocks(self) -> list[slice]:
        if torch.compiler.is_compiling():  # a graph that is exported cannot count edges
            return [slice(None)]
        starts = range(0, self.senders.shape[0], EDGES_PER_BLOCK)
        return [slice(start, start + EDGES_PER_BLOCK) for start in starts]

    def _counted(self, nodes: Tensor, numbers: Tensor) -> Tensor:
        """Add whole numbers at nodes, exactly."""
        zeros = torch.zeros(self.n_nodes, dtype=torch.int64, device=nodes.device)
        return zeros.scatter_add(0, nodes, numbers).to(self.dtype)

    def _zeros(self) -> Tensor:
        """Sums to add to, in float64: in float32 a million small numbers lose several digits."""
        device = self.senders.device
        wide = self.dtype if device.type == "mps" else torch.float64  # Apple's has no float64
        return torch.zeros(self.n_nodes, dtype=wide, device=device)
