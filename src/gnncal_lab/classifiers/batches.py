"""GraphSAGE as practitioners train it: mini-batches of sampled neighbours, perhaps class-weighted.

PyG's ``NodeLoader`` with a sampler in NumPy, so that neither pyg-lib nor torch-sparse is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.graph import Graph
from gnncal_lab.datasets import Dataset, Split


@dataclass(frozen=True)
class BatchSettings:
    """How the network is built and trained."""

    hidden: int = 64
    n_layers: int = 2
    dropout: float = 0.5
    learning_rate: float = 0.01
    n_epochs: int = 12
    batch_size: int = 512
    fanout: int = 10  # neighbours that are drawn for each node and layer
    weighted: bool = True  # classes weigh alike in total


class NeighbourSampler(BaseSampler):
    """Draws up to ``fanout`` senders of every node, layer after layer."""

    def __init__(self, graph: Graph, fanout: int, n_layers: int, seed: int) -> None:
        matrix = graph.adjacency(np.float32)  # row i has an entry for each sender of node i
        self.starts, self.senders = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.fanout, self.n_layers = fanout, n_layers
        self.generator = np.random.default_rng(seed)

    def sample_from_nodes(self, index: NodeSamplerInput, **options: Any) -> SamplerOutput:
        """Return the seeds first, then what was drawn, with edges from drawn to drawing nodes."""
        found = frontier = index.node.numpy()
        edges = []
        for _ in range(self.n_layers):
            edges.append(self._draw(frontier))
            frontier = np.setdiff1d(edges[-1][0], found)
            found = np.concatenate([found, frontier])
        order = np.argsort(found)
        row, col = order[np.searchsorted(found[order], np.concatenate(edges, axis=1))]
        return SamplerOutput(
            node=torch.from_numpy(found),
            row=torch.from_numpy(row),
            col=torch.from_numpy(col),
            edge=None,
            metadata=(index.input_id, index.time),
        )

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """Not needed here; PyG's class is abstract in it."""
        raise NotImplementedError

    def _draw(self, nodes: IntArray) -> IntArray:
        """Return (2, m): senders without repetition, and the nodes that drew them."""
        degree = self.starts[nodes + 1] - self.starts[nodes]
        receivers = np.repeat(np.arange(len(nodes)), degree)
        first = np.cumsum(degree) - degree
        place = np.arange(len(receivers)) - first[receivers] + self.starts[nodes][receivers]
        shuffled = np.lexsort((self.generator.random(len(receivers)), receivers))
        is_drawn = np.arange(len(receivers)) - first[receivers] < self.fanout
        drawn = shuffled[is_drawn]
        return np.stack([self.senders[place[drawn]], nodes[receivers[drawn]]])


def train_in_batches(
    dataset: Dataset, split: Split, *, seed: int, settings: BatchSettings | None = None
) -> FloatArray:
    """Train GraphSAGE on ``split.train_nodes`` for a fixed number of epochs; return all logits."""
    made = settings or BatchSettings()
    features = dataset.graph.features
    assert features is not None
    dense = features.toarray() if sparse.issparse(features) else np.asarray(features)
    data = Data(
        x=torch.from_numpy(dense.astype(np.float32)),
        edge_index=torch.from_numpy(dataset.graph.edge_index.astype(np.int64)),
        y=torch.from_numpy(dataset.labels),
    )
    counts = np.bincount(dataset.labels[split.train_nodes], minlength=dataset.n_classes)
    weight = torch.from_numpy(counts.sum() / (dataset.n_classes * np.maximum(counts, 1.0))).float()
    sampler = NeighbourSampler(dataset.graph, made.fanout, made.n_layers, seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = GraphSAGE(
            data.num_features, made.hidden, made.n_layers, dataset.n_classes, dropout=made.dropout
        )
        adam = torch.optim.Adam(network.parameters(), lr=made.learning_rate)
        loader = NodeLoader(
            data,
            sampler,
            torch.from_numpy(split.train_nodes),
            batch_size=made.batch_size,
            shuffle=True,
        )
        for _ in range(made.n_epochs):
            for batch in loader:
                n = batch.batch_size
                logits = network(batch.x, batch.edge_index)[:n]
                loss = F.cross_entropy(logits, batch.y[:n], weight if made.weighted else None)
                adam.zero_grad()
                loss.backward()
                adam.step()
    network.eval()
    with torch.no_grad():
        return network(data.x, data.edge_index).numpy()
