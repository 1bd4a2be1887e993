"""Check that a batch of a large graph has everything that its seed nodes depend on.

A model with L layers looks L hops away, and one more where a layer divides by the degrees of the
senders, as GCN does. A calibrator looks ``hops`` hops further: at the logits of the neighbours. So
sample ``num_neighbors=[-1] * (L + 1 + hops)``: then every node that matters has all its neighbours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnncal.core.errors import InputError
from gnncal.torch.edges import edge_index_of
from gnncal.torch.module import CalibratorModule


def check_batch(batch: Any, data: Any, calibrator: CalibratorModule, model_hops: int) -> None:
    """Raise an InputError unless the seed nodes of a batch have all that they depend on."""
    n_id, n_seeds = getattr(batch, "n_id", None), getattr(batch, "batch_size", None)
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
    part, whole = _edges(batch), _edges(data)
    n_hops = model_hops + calibrator.hops
    incomplete = _incomplete(part, len(n_id), n_seeds, calibrator, n_hops, _Degrees(whole, n_id))
    if incomplete:
        raise InputError(
            f"{incomplete} nodes of the batch lack neighbours that the probabilities of its seed "
            f"nodes depend on: the model looks {model_hops} hops away and the calibrator "
            f"{calibrator.hops} further; sample with num_neighbors=[-1] * {n_hops}."
        )


class _Degrees:
    """In- and out-degrees in the whole graph, of the nodes of a batch."""

    def __init__(self, edges: Tensor, n_id: Tensor) -> None:
        n_nodes = int(max(int(n_id.max()), int(edges.max()) if edges.numel() else 0)) + 1
        self.out, self.into = (torch.bincount(end, minlength=n_nodes)[n_id] for end in edges)


def _incomplete(
    edges: Tensor,
    n_nodes: int,
    n_seeds: int,
    calibrator: CalibratorModule,
    n_hops: int,
    whole: _Degrees,
) -> int:
    """Return how many nodes that matter have fewer edges in the batch than in the whole graph."""
    senders, receivers = edges
    lacks_in = torch.bincount(receivers, minlength=n_nodes) < whole.into
    lacks_out = torch.bincount(senders, minlength=n_nodes) < whole.out
    reached = torch.arange(n_nodes) < n_seeds
    lacking = torch.zeros(n_nodes, dtype=torch.bool)
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
    return int(lacking.sum())


def _edges(data: Any) -> Tensor:
    edges = getattr(data, "edge_index", None)
    return edge_index_of(data.adj_t if edges is None else edges).cpu()
