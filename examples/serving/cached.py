"""The service for a large graph: it answers from cached logits, and never runs the model.

    python examples/serving/cached.py run --port 8000

Run the model on all nodes each night and write the logits to graph.npz, as prepare.py does. The
probabilities of a node depend on the nodes within ``module.hops`` along edges in both directions,
and on all edges among these nodes. An answer from them equals that from the whole graph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

import gnncal
from service import Service, main


class CachedService(Service):
    """Logits of all nodes, edges by sender and by receiver, and the calibrator."""

    def load(self, folder: Path, settings: dict[str, Any], arrays: dict[str, torch.Tensor]) -> None:
        """Read logits and edges; the model is not needed."""
        self.logits, self.n_nodes = arrays["logits"], len(arrays["logits"])
        self.module = gnncal.load(folder / "calibrator.safetensors").to_torch()
        ends = tuple(arrays["edge_index"].numpy())
        ones, shape = np.ones(len(ends[0])), (self.n_nodes, self.n_nodes)
        self.sent = sparse.csr_array((ones, ends), shape=shape)  # entries count multi-edges
        self.received = sparse.csr_array(self.sent.T)

    def probabilities(self, nodes: list[int]) -> torch.Tensor:
        """Return the calibrated probabilities of some nodes, (n, n_classes)."""
        around, edge_index = self.neighbourhood(nodes)
        rows = np.searchsorted(around, nodes)
        return self.module(self.logits[around], edge_index)[rows]

    def neighbourhood(self, nodes: list[int]) -> tuple[np.ndarray, torch.Tensor]:
        """Return the nodes that some nodes depend on, sorted, and all edges among them."""
        around = np.unique(nodes)
        for _ in range(self.module.hops):
            ends = [edges[around].indices for edges in (self.sent, self.received)]
            around = np.unique(np.concatenate([around, *ends]))
        among = self.sent[around][:, around].tocoo()
        edges = np.repeat(np.stack(among.coords), among.data.astype(int), axis=1)
        return around, torch.from_numpy(edges.astype(np.int64))


if __name__ == "__main__":
    main(CachedService)
