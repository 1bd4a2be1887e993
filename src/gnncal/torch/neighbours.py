"""Edges that come to a module: read, checked, and set apart where a node has no logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.graph.conversions import edges_of_adjacency
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, Side, check_edge_shape, check_range
from gnncal.graph.neighbours import GraphNeighbours, Neighbours, needed_side

WHOLE_NUMBERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def edge_index_of(edges: Any, n_nodes: int | None = None) -> Tensor:
    """(2, n_edges) of an edge_index or of a transposed adjacency, for so many nodes if given."""
    if isinstance(edges, Tensor) and edges.layout == torch.strided and edges.dtype in WHOLE_NUMBERS:
        check_edge_shape(tuple(edges.shape))
        return edges
    is_matrix = isinstance(edges, Tensor) and edges.layout != torch.strided
    if not (is_matrix or hasattr(edges, "coo")):
        kind = f"of {edges.dtype} " if isinstance(edges, Tensor) else ""
        raise InputError(
            f"edge_index is a {type(edges).__name__} {kind}that gnncal cannot read as edges; "
            "expected a long tensor (2, n_edges), a sparse adj_t or a gnncal.Graph."
        )
    size = tuple(edges.shape) if is_matrix else tuple(edges.sizes()[:2])
    expected = size[:1] if n_nodes is None else (n_nodes,)
    if size != 2 * expected:
        raise InputError(
            f"adj_t has shape {size}; expected a square matrix, a row and a column for each of the "
            f"{expected[0]} nodes: pass it with the logits of the same graph."
        )
    return torch.from_numpy(edges_of_adjacency(edges))


def isolate_nan_nodes(edge_index: Tensor, logits: Tensor) -> Tensor:
    """Turn edges of nodes whose logits are NaN into edges among them; no other node sees them."""
    # Negative numbers, which ONNX would count from the end, become one that is out of range, so
    # that they are an error there too.
    n_nodes = logits.shape[0]
    senders, receivers = torch.where(edge_index < 0, n_nodes, edge_index).unbind(0)
    unknown = logits[:, 0].isnan()
    from_unknown, to_unknown = unknown.index_select(0, senders), unknown.index_select(0, receivers)
    ends = (to_unknown, receivers, senders), (from_unknown, senders, receivers)
    return torch.stack([torch.where(*each) for each in ends])


class GroupedEdges:
    """The neighbours in a graph, or of items that share entities: NumPy's, with derivatives."""

    def __init__(self, graph: Graph | EntityGraph, dtype: torch.dtype) -> None:
        self.graph, self.dtype, self._arrays = graph, dtype, GraphNeighbours(graph)
        self.in_degree, self.out_degree = map(self._tensor, (graph.in_degree, graph.out_degree))

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""
        return self._tensor(self._arrays.counts(side))

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        back = partial(transposed_mean, self.graph, side=side)
        return LinearMap.apply(values, partial(self._arrays.mean, side=side), back)

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        columns = classes.numpy()

        def back(given: FloatArray) -> FloatArray:
            spread = np.zeros(values.shape, dtype=given.dtype)
            np.put_along_axis(spread, columns[:, None], given[:, None], axis=1)
            return transposed_mean(self.graph, spread, side)

        there = partial(self._arrays.class_mean, classes=columns, side=side)
        return LinearMap.apply(values, there, back)

    def _tensor(self, values: IntArray) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.dtype)


Map = Callable[[FloatArray], FloatArray]


class LinearMap(torch.autograd.Function):
    """A linear map of arrays as one of tensors, with derivatives of every order."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, there: Map, back: Map) -> Tensor:
        """Return ``there(values)``; ``back`` is the transposed map."""
        ctx.there, ctx.back = there, back
        return torch.from_numpy(there(values.detach().numpy())).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Apply the transposed map, which is linear too."""
        return LinearMap.apply(gradients[0], ctx.back, ctx.there), None, None


def transposed_mean(graph: Graph | EntityGraph, values: FloatArray, side: Side) -> FloatArray:
    """Apply the transpose of the matrix that takes means over neighbours."""
    if isinstance(graph, EntityGraph):
        gather, spread, own = graph.matrices
        return gather.T @ (spread.T @ values) - own[:, None] * values
    there = needed_side(graph, side)
    opposite: dict[Side, Side] = {"in": "out", "out": "in", "both": "both"}
    back, neighbours = opposite[there], GraphNeighbours(graph)
    n_there, n_back = (
        neighbours.counts(each)[:, None].astype(values.dtype) for each in (there, back)
    )
    return neighbours.mean(values / np.maximum(n_there, 1.0), back) * n_back


def neighbours_of(edges: Any, logits: Tensor, *, checks_values: bool) -> Neighbours:
    """Return the neighbours of the nodes in an edge_index, an adj_t or a Graph."""
    n_nodes, is_graph = logits.shape[0], isinstance(edges, Graph | EntityGraph)
    if is_graph and edges.n_nodes != n_nodes:
        raise InputError(
            f"the graph has {edges.n_nodes} nodes but logits has {n_nodes} rows; pass the "
            "logits of every node of this graph."
        )
    if isinstance(edges, EntityGraph):
        return GroupedEdges(edges, logits.dtype)
    is_here = logits.device.type == "cpu" and not torch.compiler.is_compiling()
    if is_here and (checks_values or not logits[:, 0].isnan().any()):
        graph = edges if is_graph else Graph(edge_index_of(edges, n_nodes), n_nodes)
        return GroupedEdges(graph, logits.dtype)
    listed = torch.from_numpy(edges.edge_index) if is_graph else edge_index_of(edges, n_nodes)
    edge_index = listed.to(logits.device, torch.int64)
    if checks_values and edge_index.numel():
        lowest, highest = (int(end) for end in torch.aminmax(edge_index))
        check_range(lowest, highest, n_nodes)
    return EdgeList(edge_index if checks_values else isolate_nan_nodes(edge_index, logits), logits)


class EdgeList:
    """Edges as they come: for other devices, for export, and around nodes without logits."""

    def __init__(self, edge_index: Tensor, logits: Tensor) -> None:
        self.senders, self.receivers = edge_index[0], edge_index[1]
        self.n_nodes, self.dtype = logits.shape[0], logits.dtype
        ones, are_loops = torch.ones_like(self.senders), self.senders == self.receivers
        self.in_degree = self._counted(self.receivers, ones)
        self.out_degree = self._counted(self.senders, ones)
        self.self_loops = self._counted(self.receivers, are_loops.long())

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""
        if side == "both":
            return self.in_degree + self.out_degree - 2 * self.self_loops
        return (self.in_degree if side == "in" else self.out_degree) - self.self_loops

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""

        def sums_of(column: Tensor) -> Tensor:
            return self._sums(lambda senders, _: column.index_select(0, senders), side)

        return self._mean(torch.stack(list(map(sums_of, values.unbind(1))), dim=1), values, side)

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        flat, width = values.reshape(-1), values.shape[1]

        def heard(senders: Tensor, receivers: Tensor) -> Tensor:
            return flat.index_select(0, senders * width + classes.index_select(0, receivers))

        own = values.gather(1, classes[:, None])
        return self._mean(self._sums(heard, side)[:, None], own, side)[:, 0]

    def _sums(self, given: Callable[[Tensor, Tensor], Tensor], side: Side) -> Tensor:
        """Sum what senders give to receivers: without a race everywhere, and in little memory."""
        device = self.senders.device
        # In float32 a million small numbers lose several digits; Apple's devices have nothing else.
        wide = self.dtype if device.type == "mps" else torch.float64
        sums = torch.zeros(self.n_nodes, dtype=wide, device=device)
        for senders, receivers in self._directions(side):
            sums = sums.scatter_add(0, receivers, given(senders, receivers).to(sums.dtype))
        return sums.to(self.dtype)

    def _mean(self, sums: Tensor, own: Tensor, side: Side) -> Tensor:
        """Divide sums (n_nodes, k) by the number of neighbours, self-loops left out."""
        sums = sums - (len(self._directions(side)) * self.self_loops)[:, None] * own
        counts = self.counts(side)[:, None]
        return torch.where(counts > 0, sums / counts.clamp(min=1), torch.zeros_like(sums))

    def _directions(self, side: Side) -> list[tuple[Tensor, Tensor]]:
        there, back = (self.senders, self.receivers), (self.receivers, self.senders)
        return {"in": [there], "out": [back], "both": [there, back]}[side]

    def _counted(self, nodes: Tensor, numbers: Tensor) -> Tensor:
        """Add whole numbers at nodes, exactly."""
        zeros = torch.zeros(self.n_nodes, dtype=torch.int64, device=nodes.device)
        return zeros.scatter_add(0, nodes, numbers).to(self.dtype)
