"""The one-layer network is softmax regression on neighbourhood means."""

import numpy as np
from sklearn.linear_model import LogisticRegression

import gnncal
from gnncal.data.probability import softmax
from gnncal_lab.simulation import CSBM, GraphSample
from gnncal_lab.simulation.linear_gcn import aggregate, split_nodes, train_linear_gcn


def test_the_aggregate_by_hand():
    graph = gnncal.Graph([[0, 1, 1], [2, 2, 0]], 3, features=[[1.0], [2.0], [6.0]])
    # node 0 hears 1: (1 + 2) / 2; node 1 hears nobody; node 2 hears 0 and 1: (6 + 1 + 2) / 3
    np.testing.assert_allclose(aggregate(graph), [[1.5], [2.0], [3.0]])


def test_splits_are_20_10_70_and_disjoint():
    split = split_nodes(200, random_state=1)
    assert [
        len(part) for part in (split.train_nodes, split.calibration_nodes, split.test_nodes)
    ] == [40, 20, 140]
    everything = np.concatenate([split.train_nodes, split.calibration_nodes, split.test_nodes])
    np.testing.assert_array_equal(np.sort(everything), np.arange(200))


def test_training_approaches_the_maximum_likelihood_of_scikit_learn():
    model = CSBM(n_classes=3, n_features=4, separation=0.7, mean_degree=1)
    sample = model.sample(np.full(1500, 0.5), random_state=0)
    train = np.arange(1000)
    probs = softmax(train_linear_gcn(sample, train, 3))
    inputs = aggregate(sample.graph)
    reference = LogisticRegression(C=1e6, max_iter=1000).fit(inputs[train], sample.labels[train])
    np.testing.assert_allclose(probs, reference.predict_proba(inputs), atol=0.02)


def test_labels_outside_the_training_nodes_never_matter():
    sample = CSBM().sample(np.full(300, 0.8), random_state=0)
    train = np.arange(100)
    other = sample.labels.copy()
    other[100:] = 0
    changed = GraphSample(sample.graph, other, sample.homophily)
    np.testing.assert_array_equal(
        train_linear_gcn(sample, train, 5), train_linear_gcn(changed, train, 5)
    )
