"""Edges that come to a module: read, checked, and set apart where a node has no logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnncal.data.errors import InputError
from gnncal.graph.conversions import edges_of_adjacency

WHOLE_NUMBERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def edge_index_of(edges: Any, n_nodes: int | None = None) -> Tensor:
    """(2, n_edges) of an edge_index or of a transposed adjacency, for so many nodes if given."""
    if isinstance(edges, Tensor) and edges.layout == torch.strided and edges.dtype in WHOLE_NUMBERS:
        if edges.ndim != 2 or edges.shape[0] != 2:
            hint = " Transpose it." if edges.ndim == 2 and edges.shape[1] == 2 else ""
            raise InputError(
                f"edge_index has shape {tuple(edges.shape)}; expected (2, n_edges), senders in row "
                f"0 and receivers in row 1.{hint}"
            )
        return edges
    is_matrix = isinstance(edges, Tensor) and edges.layout != torch.strided
    if not (is_matrix or hasattr(edges, "coo")):
        kind = f"of {edges.dtype} " if isinstance(edges, Tensor) else ""
        raise InputError(
            f"edge_index is a {type(edges).__name__} {kind}that gnncal cannot read as edges; "
            "expected a long tensor (2, n_edges), a sparse adj_t or a gnncal.Graph."
        )
    size = tuple(edges.shape) if is_matrix else tuple(edges.sizes()[:2])
    if len(size) != 2 or size[0] != size[1]:
        raise InputError(
            f"adj_t has shape {size}; expected a square matrix, one row and column for each node."
        )
    if n_nodes is not None and size[0] != n_nodes:
        raise InputError(
            f"adj_t is {size[0]} x {size[1]} but logits has {n_nodes} rows; pass the logits of "
            "every node of this very graph."
        )
    return torch.from_numpy(edges_of_adjacency(edges))


def check_nodes(edge_index: Tensor, n_nodes: int) -> None:
    """Raise an InputError if an edge names a node that is not there."""
    if edge_index.numel() == 0:
        return
    lowest, highest = (int(end) for end in torch.aminmax(edge_index))
    if lowest < 0:
        raise InputError(f"edge_index names node {lowest}; nodes are numbered from 0.")
    if highest >= n_nodes:
        raise InputError(
            f"edge_index names node {highest} but there are {n_nodes} nodes (0..{n_nodes - 1}); "
            "the graph and its logits must have every node."
        )


def set_apart(edge_index: Tensor, logits: Tensor) -> Tensor:
    """Turn edges of nodes whose logits are NaN into edges among such nodes; no other one sees
    them."""
    # Negative numbers, which ONNX would count from the end, become one that is out of range, so
    # that they are an error there too.
    n_nodes = logits.shape[0]
    senders, receivers = torch.where(edge_index < 0, n_nodes, edge_index).unbind(0)
    unknown = logits[:, 0].isnan()
    from_unknown, to_unknown = unknown.index_select(0, senders), unknown.index_select(0, receivers)
    return torch.stack(
        [
            torch.where(to_unknown, receivers, senders),
            torch.where(from_unknown, senders, receivers),
        ]
    )
