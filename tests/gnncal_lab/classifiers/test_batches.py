"""GraphSAGE in mini-batches: neighbours are drawn among the neighbours, and seeds decide."""

import numpy as np
import pytest

import gnncal

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.sampler import NodeSamplerInput  # noqa: E402

from gnncal_lab.classifiers.batches import (  # noqa: E402
    BatchSettings,
    NeighbourSampler,
    train_in_batches,
)
from gnncal_lab.datasets import Dataset, Split  # noqa: E402


def make_dataset(n=200):
    generator = np.random.default_rng(0)
    labels = (generator.random(n) < 0.2).astype(np.int64)
    edges = generator.integers(n, size=(2, 6 * n))
    features = np.stack([labels + generator.normal(size=n), np.ones(n)], axis=1)
    return Dataset("rare", gnncal.Graph(edges, n, features), labels)


def test_every_drawn_edge_is_one_of_the_graph_and_no_node_draws_more_than_its_fanout():
    graph = make_dataset().graph
    seeds = torch.arange(40)
    drawn = NeighbourSampler(graph, 3, 2, seed=1).sample_from_nodes(NodeSamplerInput(None, seeds))
    node = drawn.node.numpy()
    assert np.array_equal(node[:40], seeds)
    assert len(np.unique(node)) == len(node)
    senders, receivers = node[drawn.row.numpy()], node[drawn.col.numpy()]
    listed = set(map(tuple, graph.edge_index.T.tolist()))
    assert set(zip(senders.tolist(), receivers.tolist(), strict=True)) <= listed
    counts = np.bincount(receivers, minlength=200)
    np.testing.assert_array_equal(counts[:40], np.minimum(graph.in_degree[:40], 3))
    assert counts.max() <= 3


def test_the_same_seed_gives_the_same_logits_and_weights_favour_the_rare_class():
    dataset, split = make_dataset(), Split(np.arange(100), np.arange(100, 150), np.arange(150, 200))
    settings = BatchSettings(n_epochs=4, batch_size=50)
    weighted, again = (
        train_in_batches(dataset, split, seed=3, settings=settings) for _ in range(2)
    )
    assert np.array_equal(weighted, again)
    plain = train_in_batches(
        dataset, split, seed=3, settings=BatchSettings(n_epochs=4, batch_size=50, weighted=False)
    )
    rare = [gnncal.calibrators.softmax(logits)[:, 1].mean() for logits in (weighted, plain)]
    assert rare[0] > rare[1]
