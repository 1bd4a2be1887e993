"""The graph of the examples: Cora if ``$GNNCAL_DATA`` has it, otherwise a small sampled one."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch_geometric.data import Data

from gnncal_lab import datasets
from gnncal_lab.simulation import CSBM


def load_data(seed: int = 0) -> Data:
    """Return a graph with features x, labels y and masks of training, validation and test."""
    if os.environ.get("GNNCAL_DATA"):
        found = datasets.load("Cora")
        graph, labels = found.graph, found.labels
    else:
        model = CSBM(mean_degree=5, separation=1.2, n_features=64)
        found = model.sample_undirected(3000, 0.6, random_state=seed)
        graph, labels = found.graph, found.labels
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    first, second = graph.n_nodes // 10, graph.n_nodes // 3
    masks = np.zeros((3, graph.n_nodes), dtype=bool)
    masks[0, order[:first]] = masks[1, order[first:second]] = masks[2, order[second:]] = True
    features = (
        graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    )
    return Data(
        x=torch.from_numpy(features.astype(np.float32)),
        y=torch.from_numpy(np.asarray(labels, dtype=np.int64)),
        edge_index=torch.from_numpy(graph.edge_index.astype(np.int64)),
        train_mask=torch.from_numpy(masks[0]),
        val_mask=torch.from_numpy(masks[1]),
        test_mask=torch.from_numpy(masks[2]),
    )
