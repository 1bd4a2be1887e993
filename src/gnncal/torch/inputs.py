"""What a model and a calibrator read from PyTorch Geometric's Data, HeteroData and loaders."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gnncal.data.errors import InputError
from gnncal.graph.conversions import check_node_type, edges_of_type
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph
from gnncal.torch.neighbours import edge_index_of


def inputs_of(data: Any) -> tuple[Any, Any]:
    """Return features and edges, each a dict for a HeteroData; ``adj_t`` may stand for edges."""
    if is_hetero(data):
        has_list = any("edge_index" in data[kind] for kind in data.edge_types)
        return data.x_dict, data.edge_index_dict if has_list else data.adj_t_dict
    edges = getattr(data, "edge_index", None)
    return data.x, getattr(data, "adj_t", None) if edges is None else edges


def is_hetero(data: Any) -> bool:
    """Whether this is a HeteroData."""
    return hasattr(data, "node_types")


def is_loader(data: Any) -> bool:
    """Whether this gives batches of a graph, as a NeighborLoader does."""
    return hasattr(data, "data") and not (is_hetero(data) or hasattr(data, "edge_index"))


def of_type(data: Any, node_type: str | None) -> Any:
    """Return what a Data, or a HeteroData, stores for the nodes that are calibrated."""
    return data if node_type is None else data[node_type]


def node_type_of(data: Any, node_type: str | None) -> str | None:
    """Return the type of the nodes to calibrate; None for a graph that has one type."""
    if not is_hetero(data):
        if node_type is not None:
            raise InputError(f"node_type is {node_type!r} but the data has one type of nodes.")
        return None
    if node_type is not None:
        check_node_type(data, node_type)
        return node_type
    with_mask = [kind for kind in data.node_types if "val_mask" in data[kind]]
    if len(with_mask) != 1:
        raise InputError(
            f"{len(with_mask)} node types have a val_mask ({', '.join(with_mask) or 'none'}); pass "
            "node_type."
        )
    return with_mask[0]


def store_of(data: Any, node_type: str | None) -> Any:
    """Return what is stored for the nodes to calibrate, or raise if they have no ``val_mask``."""
    store = of_type(data, node_type)
    if getattr(store, "val_mask", None) is None:
        raise InputError(
            "the data has no val_mask; calibration needs labelled nodes that the model was not "
            "trained on: set data.val_mask, for example with PyTorch Geometric's RandomNodeSplit."
        )
    return store


def edges_between(edges: Any, node_type: str | None, n_nodes: int) -> Any:
    """Return the edges among the nodes that are calibrated, or the entities that they share."""
    if not isinstance(edges, dict):
        return edges
    own = [value for (one, _, other), value in edges.items() if one == node_type == other]
    if not own:
        lists = {kind: edge_index_of(value) for kind, value in edges.items()}
        return EntityGraph(edges_of_type(lists, node_type)[1], n_nodes)
    return own[0] if len(own) == 1 else torch.cat([edge_index_of(each) for each in own], dim=1)


def graph_of(data: Any, node_type: str | None, n_nodes: int) -> Graph | EntityGraph:
    """Return the graph of the nodes that are calibrated."""
    edges = edges_between(inputs_of(data)[1], node_type, n_nodes)
    return edges if isinstance(edges, EntityGraph) else Graph(edge_index_of(edges), n_nodes)


def check_form(logits: Any, n_classes: int) -> None:
    """Raise an InputError unless these are real numbers, a row for each node."""
    if not isinstance(logits, Tensor) or logits.layout != torch.strided:
        raise InputError(
            f"logits is a {type(logits).__name__}, not a dense tensor; pass "
            "torch.as_tensor(logits), or call the calibrator's predict_proba."
        )
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise InputError(
            f"logits has shape {tuple(logits.shape)}; expected (n_nodes, {n_classes}), "
            "one column for each class that the calibrator was fitted with."
        )


def check_finite(logits: Tensor) -> None:
    """Raise an InputError if a logit is NaN or infinite."""
    if logits.numel() == 0:
        return
    lowest, highest = torch.aminmax(logits.detach())  # one pass; both are NaN if a logit is
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        bad = int((~logits.isfinite()).any(dim=1).sum())
        raise InputError(
            f"logits contains NaN or infinity in {bad} of {len(logits)} rows, which would spread "
            "to neighbours; pass finite values, or set module.checks_values = False to get NaN for "
            "those nodes and leave them out elsewhere."
        )
