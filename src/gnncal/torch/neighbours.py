"""Edges that come to a module: read, checked, and set apart where a node has no logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gnncal.data.arrays import IntArray
from gnncal.data.errors import InputError
from gnncal.graph.conversions import edges_of_adjacency
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, Side, check_edge_shape, check_range
from gnncal.graph.neighbours import (
    Neighbours,
    matrix_sums,
    needed_side,
    neighbour_class_share,
)

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
    """The neighbours of a graph whose edges are grouped by receiver."""

    def __init__(self, graph: Any, dtype: torch.dtype) -> None:
        self.graph, self.dtype = graph, dtype
        self.in_degree, self.out_degree = map(self._tensor, (graph.in_degree, graph.out_degree))

    def counts(self, side: Side) -> Tensor:
        """Return how many neighbours each node has, (n_nodes,)."""
        return self._tensor(self.graph.neighbour_counts(side=side))

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        needed = needed_side(self.graph, side)
        counts = self.counts(needed).clamp(min=1)[:, None]
        return neighbour_sums(values, self.graph, needed) / counts

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        return ClassMean.apply(values, classes, self.graph, needed_side(self.graph, side))

    def _tensor(self, values: IntArray) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.dtype)


class SharedEntities(GroupedEdges):
    """The neighbours of items that share entities."""

    def mean(self, values: Tensor, side: Side) -> Tensor:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        gather, spread, own = self.graph.matrices
        sums = ConstantProduct.apply(values, lambda: gather, lambda: gather.T.tocsr())
        means = ConstantProduct.apply(sums, lambda: spread, lambda: spread.T.tocsr())
        return means - torch.from_numpy(own).to(values.dtype)[:, None] * values

    def class_mean(self, values: Tensor, classes: Tensor, side: Side) -> Tensor:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        return self.mean(values, side).gather(1, classes[:, None])[:, 0]


Matrix = Callable[[], sparse.csr_array]


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


def neighbour_sums(values: Tensor, graph: Graph, side: Side) -> Tensor:
    """Sum of each column over the neighbours of a node; zero where there are none."""
    dtype = values.detach().numpy().dtype
    there, back = (lambda g=each: g.adjacency(dtype) for each in (graph, graph.reversed))
    ways = {"in": [(there, back)], "out": [(back, there)], "both": [(there, back), (back, there)]}
    sums = sum(ConstantProduct.apply(values, *way) for way in ways[side])
    if not graph.self_loops.any():
        return sums
    loops = torch.from_numpy(len(ways[side]) * graph.self_loops).to(values.dtype)
    is_alone = torch.from_numpy(graph.neighbour_counts(side=side) == 0)
    sums = sums - loops[:, None] * values
    return sums.masked_fill(is_alone[:, None], 0.0)  # rounding may be left


class ClassMean(torch.autograd.Function):
    """Mean over the neighbours of a node of the one column that its class names."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, classes: Tensor, graph: Graph, side: Side) -> Tensor:
        """Touch each edge once, whatever the number of classes."""
        ctx.graph, ctx.side, ctx.shape = graph, side, values.shape
        ctx.save_for_backward(classes)
        columns = values.detach().numpy()
        share = neighbour_class_share(graph, classes.numpy(), columns, side=side)
        return torch.from_numpy(np.nan_to_num(share, copy=False, nan=0.0)).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Send each node's gradient back to the same column of its neighbours."""
        (classes,) = ctx.saved_tensors
        counts = np.maximum(ctx.graph.neighbour_counts(side=ctx.side), 1)
        given = gradients[0] / torch.from_numpy(counts).to(gradients[0].dtype)
        shared = gradients[0].new_zeros(ctx.shape).scatter(1, classes[:, None], given[:, None])
        back: dict[Side, Side] = {"in": "out", "out": "in", "both": "both"}
        return neighbour_sums(shared, ctx.graph, back[ctx.side]), None, None, None


def neighbours_of(edges: Any, logits: Tensor, *, checks_values: bool) -> Neighbours:
    """Return the neighbours of the nodes in an edge_index, an adj_t or a Graph."""
    n_nodes, is_graph = logits.shape[0], isinstance(edges, Graph | EntityGraph)
    if is_graph and edges.n_nodes != n_nodes:
        raise InputError(
            f"the graph has {edges.n_nodes} nodes but logits has {n_nodes} rows; pass the "
            "logits of every node of this graph."
        )
    if isinstance(edges, EntityGraph):
        return SharedEntities(edges, logits.dtype)
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


def _heard(column: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
    return column.index_select(0, senders)


class EdgeList:
    """Edges as they come: for other devices, for export, and around nodes without logits."""

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
        columns = [self._sums(partial(_heard, each), side) for each in values.unbind(1)]
        return self._mean(torch.stack(columns, dim=1), values, side)

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
