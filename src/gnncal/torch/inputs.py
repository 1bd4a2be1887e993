"""What a model and a calibrator read from PyTorch Geometric's Data, HeteroData and loaders.

And what a batch of a loader must hold for its probabilities to be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gnncal.data.errors import InputError
from gnncal.graph.conversions import check_node_type, edges_of_type
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph
from gnncal.torch.module import CalibratorModule
from gnncal.torch.neighbours import edge_index_of

MOST_HOPS = 16  # length of the paths along which a model is tried
N_PATHS = 8  # with features of other nodes each, so that no rectifier hides a change


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


def collected_logits(loader: Any, run: Callable[[Any], Tensor], node_type: str | None) -> Tensor:
    """Return the logits of every node, each from the batch in which it is a seed node."""
    n_nodes = int(of_type(loader.data, node_type).num_nodes)
    logits, is_seen = None, torch.zeros(n_nodes, dtype=torch.bool)
    for batch in loader:
        store = of_type(batch, node_type)
        seeds = _seeds(store).cpu()
        rows = run(batch)[: len(seeds)].cpu()
        if logits is None:
            logits = rows.new_zeros(n_nodes, rows.shape[1])
        logits[seeds], is_seen[seeds] = rows, True
    if logits is None or not is_seen.all():
        raise InputError(
            f"the loader gives {int(is_seen.sum()):,} of {n_nodes:,} nodes as seed nodes, and "
            "neighbours of calibration nodes need logits too; pass one over all nodes, with "
            "input_nodes=None."
        )
    return logits


def _seeds(store: Any) -> Tensor:
    """Return the numbers, in the whole graph, of a batch's seed nodes."""
    n_id, n_seeds = getattr(store, "n_id", None), getattr(store, "batch_size", None)
    if n_id is None or n_seeds is None:
        raise InputError(
            "the batch has no n_id or no batch_size, so its seed nodes are unknown; pass a batch "
            "of NeighborLoader, or set both."
        )
    if not 0 < n_seeds <= len(n_id):
        raise InputError(
            f"batch_size is {n_seeds} but the batch has {len(n_id)} nodes; it is the number of "
            "seed nodes, which come first: at least 1."
        )
    return n_id[:n_seeds]


def hops_of(model: nn.Module, x: Tensor) -> int:
    """Return how many hops away an edge changes what a model says of a node, by trying it."""
    n_nodes = MOST_HOPS + 1  # of a path 0 -> 1 -> ..., and one more, whose edge to 0 is added
    first = n_nodes * torch.arange(N_PATHS)
    path = torch.arange(MOST_HOPS - 1)
    edges = torch.stack([path, path + 1])[:, None, :] + first[None, :, None]
    added = torch.stack([first + MOST_HOPS, first])
    rows = torch.randint(len(x), (N_PATHS * n_nodes,), generator=torch.Generator().manual_seed(0))
    without = edges.reshape(2, -1)
    try:
        before, after = (
            model(x[rows.to(x.device)], each.to(x.device))
            for each in (without, torch.cat([without, added], dim=1))
        )
        is_changed = (before != after).any(dim=1).reshape(N_PATHS, n_nodes)[:, :MOST_HOPS]
    except Exception as error:  # a model may need anything else
        raise InputError(
            f"the model does not run on features and edges alone ({type(error).__name__}: "
            f"{error}), so its hops are unknown; pass model_hops."
        ) from error
    reach = is_changed.any(dim=0).nonzero()
    hops = int(reach.max()) + 1 if len(reach) else 0
    if hops == MOST_HOPS:
        raise InputError(
            f"a node depends on nodes {MOST_HOPS} hops away or more, perhaps on all; pass "
            "model_hops if you know better."
        )
    return hops


def check_batch(batch: Any, data: Any, calibrator: CalibratorModule, model_hops: int) -> None:
    """Raise an InputError unless the seed nodes of a batch have all that they depend on."""
    n_seeds, n_id = len(_seeds(batch)), batch.n_id.cpu()
    part, whole = (edge_index_of(inputs_of(each)[1]).cpu() for each in (batch, data))
    n_whole = int(max(int(n_id.max()), int(whole.max()) if whole.numel() else 0)) + 1
    lacks_out, lacks_in = (
        torch.bincount(here, minlength=len(n_id)) < torch.bincount(there, minlength=n_whole)[n_id]
        for here, there in zip(part, whole, strict=True)
    )
    senders, receivers = part
    n_hops = model_hops + calibrator.hops
    reached = torch.arange(len(n_id)) < n_seeds
    lacking = torch.zeros_like(reached)
    for hop in range(n_hops):
        side = calibrator.side if hop < calibrator.hops else "in"
        grown = reached.clone()
        if side in ("in", "both"):
            lacking |= reached & lacks_in
            grown[senders[reached[receivers]]] = True
        if side in ("out", "both"):
            lacking |= reached & lacks_out
            grown[receivers[reached[senders]]] = True
        reached = grown
    if lacking.any():
        # Edges from the outermost nodes come with the senders of one hop more.
        is_short = calibrator.hops > 0 and calibrator.side != "in" and model_hops == 0
        advice = f"sample with num_neighbors=[-1] * {n_hops + is_short}"
        if not Graph(whole, n_whole).is_undirected:
            advice = (
                "not every edge of the graph has its reverse, so pass all nodes within "
                f"{n_hops} hops, along edges in both directions, and all edges among them"
            )
        raise InputError(
            f"{int(lacking.sum())} nodes of the batch lack neighbours that the probabilities of "
            f"its seed nodes depend on: the model looks {model_hops} hops away and the calibrator "
            f"{calibrator.hops} further; {advice}."
        )
