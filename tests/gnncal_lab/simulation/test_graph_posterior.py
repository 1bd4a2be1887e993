"""The posterior over a graph is what adding up all possibilities gives."""

from itertools import product

import numpy as np
import pytest

from gnncal.graph.graph import Graph
from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.experiments.limit import best_temperature_given, sample_mixed_undirected
from gnncal_lab.simulation.graph_posterior import Edges, graph_posterior, propagate

LEVELS = (0.1, 0.5, 0.9)
MODEL = CSBM(n_classes=3, n_features=4, separation=1.5, sigma=0.8)
TREE = np.array([[0, 1, 2, 3, 2], [1, 2, 4, 1, 5]])  # edges in both directions, two steps deep


def features(n_nodes):
    return np.random.default_rng(0).normal(size=(n_nodes, MODEL.n_features)).astype(np.float32)


def enumerated(graph, edges, *, undirected):
    """Every class and level of every node, weighed by the model's own words."""
    n_nodes, n_classes = graph.n_nodes, MODEL.n_classes
    x = graph.features.astype(float)
    total = np.zeros((n_nodes, n_classes))
    density = np.exp(
        -((x[:, None] - MODEL.class_means) ** 2).sum(axis=2) / (2.0 * MODEL.sigma**2)
    )  # (n_nodes, n_classes)

    def chosen(h, own, other):
        return h if own == other else (1.0 - h) / (n_classes - 1)

    for classes in product(range(n_classes), repeat=n_nodes):
        seen = np.prod([density[i, c] for i, c in enumerate(classes)])
        summed = 0.0
        for h in product(LEVELS, repeat=n_nodes):
            weight = 1.0
            for s, r in edges.T:
                drawn = chosen(h[r], classes[r], classes[s])
                if undirected:  # either of them may have drawn the other
                    drawn = (drawn + chosen(h[s], classes[s], classes[r])) / 2.0
                weight *= drawn
            summed += weight
        for i, c in enumerate(classes):
            total[i, c] += seen * summed
    return total / total.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("undirected", [False, True])
def test_on_a_tree_the_posterior_is_the_sum_over_all_classes_and_levels(undirected):
    edges = TREE[:, :4]
    listed = np.concatenate([edges, edges[::-1]], axis=1) if undirected else edges
    graph = Graph(listed, 5, features(5))
    found = graph_posterior(MODEL, graph, LEVELS, radius=4)
    np.testing.assert_allclose(found, enumerated(graph, edges, undirected=undirected), rtol=1e-10)


@pytest.mark.parametrize(("radius", "inside"), [(1, [0, 1, 3, 2]), (2, [0, 1, 3, 2, 4, 5])])
def test_a_radius_counts_what_lies_within_it_and_nothing_else(radius, inside):
    graph = Graph(TREE, 6, features(6))
    found = graph_posterior(MODEL, graph, LEVELS, radius=radius)[1]
    kept = np.isin(TREE, inside).all(axis=0)
    renamed = np.searchsorted(np.sort(inside), TREE[:, kept])
    small = Graph(renamed, len(inside), graph.features[np.sort(inside)])
    expected = graph_posterior(MODEL, small, LEVELS, radius=9)[np.sort(inside).tolist().index(1)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_without_neighbours_the_posterior_is_that_of_the_features():
    x = np.array([[0.6, 0.2, 0.0, 0.0]], dtype=np.float32)
    graph = Graph(np.empty((2, 0), dtype=int), 1, x)
    found = graph_posterior(MODEL, graph, LEVELS, radius=3)[0]
    weights = np.exp(np.array([0.6, 0.2, 0.0]) * 1.5 / 0.64)  # x . mu_c / sigma^2
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-6)


def test_one_sender_of_a_known_class_is_believed_as_often_as_it_copies():
    # Two classes, h = 0.8 for all, nothing known of node 1, node 0 surely of class 0.
    log_likelihood = np.array([[0.0, -np.inf], [0.0, 0.0]])
    edges = Edges.of(Graph(np.array([[0], [1]]), 2), np.array([0.8]), 2)
    found = propagate(log_likelihood, edges, 1)[:, :, 0]
    np.testing.assert_allclose(found, [[1.0, 0.0], [0.8, 0.2]])


def test_a_receivers_unknown_level_is_averaged_over():
    # Node 0 is surely of class 0 and drew node 1. Levels 0.5 and 0.9: the chance is their mean.
    log_likelihood = np.array([[0.0, -np.inf], [0.0, 0.0]])
    edges = Edges.of(Graph(np.array([[1], [0]]), 2), np.array([0.5, 0.9]), 2)
    found = propagate(log_likelihood, edges, 1).sum(axis=2)
    np.testing.assert_allclose(found[1], [0.7, 0.3])


def test_class_random_neighbours_say_nothing():
    graph = MODEL.sample(np.full(200, 1 / 3)).graph
    alone, together = (graph_posterior(MODEL, graph, (1 / 3,), radius=radius) for radius in (0, 5))
    np.testing.assert_allclose(together, alone, rtol=1e-9)


@pytest.mark.parametrize("make", [CSBM.sample, sample_mixed_undirected])
def test_the_posterior_expects_the_loss_that_it_has(make):
    model = CSBM(n_classes=3, mean_degree=4.0, separation=1.0, n_features=3)
    h = np.random.default_rng(1).choice(LEVELS, 20_000)
    sample = make(model, h, random_state=2)
    probs = graph_posterior(model, sample.graph, LEVELS, radius=6)
    losses = -np.log(probs[np.arange(h.size), sample.labels])
    expected = -(probs * np.log(probs)).sum(axis=1)
    error = (losses - expected).std() / np.sqrt(h.size)
    assert abs((losses - expected).mean()) < 4 * error


def test_an_undirected_graph_of_mixed_homophily_keeps_the_mean_degree_and_averages_both_ends():
    model = CSBM(mean_degree=12.0)
    h = np.repeat([0.2, 0.8], 5000)
    sample = sample_mixed_undirected(model, h)
    assert sample.graph.is_undirected
    assert sample.graph.in_degree.mean() == pytest.approx(12.0, rel=0.02)
    senders, receivers = sample.graph.edge_index
    same = sample.labels[senders] == sample.labels[receivers]
    for ends, share in (((0.2, 0.2), 0.2), ((0.2, 0.8), 0.5), ((0.8, 0.8), 0.8)):
        between = (h[senders] == ends[0]) & (h[receivers] == ends[1])
        assert same[between].mean() == pytest.approx(share, abs=0.02)


def test_the_best_temperature_of_a_posterior_made_by_a_temperature_is_that_temperature():
    logits = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, 3.0]])
    temperature = np.array([0.5, 4.0])
    exponent = np.exp(logits / temperature[:, None])
    found = best_temperature_given(exponent / exponent.sum(axis=1, keepdims=True), logits)
    np.testing.assert_allclose(found, temperature, rtol=1e-6)


def test_where_the_posterior_contradicts_the_prediction_the_best_temperature_is_the_highest():
    found = best_temperature_given(np.array([[0.1, 0.9]]), np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(found, np.exp(5.0), rtol=1e-6)
