"""Perturbed graphs have the edges that were asked for, and nothing else changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal
from gnncal.data.errors import InputError
from gnncal_lab.bench.perturbation import perturb


def pairs(graph):
    return sorted(map(tuple, graph.edge_index.T.tolist()))


def directed_graph():
    generator = np.random.default_rng(0)
    edges = generator.integers(40, size=(2, 100))
    return gnncal.Graph(np.unique(edges, axis=1), 40, generator.random((40, 3)))


def undirected_graph():
    edges = directed_graph().edge_index
    loops = np.stack([np.arange(5)] * 2)
    both = np.concatenate([edges, edges[::-1], loops], axis=1)
    return gnncal.Graph(np.unique(both, axis=1), 40)


def loops(graph):
    return [pair for pair in pairs(graph) if pair[0] == pair[1]]


@given(rate=st.sampled_from([0.0, 0.05, 0.3, 0.5]), directed=st.booleans())
def test_removing_takes_the_share_away_and_adds_nothing(rate, directed):
    graph = directed_graph() if directed else undirected_graph()
    after = perturb(graph, "remove", rate, seed=1)
    step = 1 if directed else 2
    movable = (graph.n_edges - len(loops(graph))) // step
    assert graph.n_edges - after.n_edges == step * round(rate * movable)
    assert set(pairs(after)) <= set(pairs(graph))
    assert loops(after) == loops(graph)


@given(rate=st.sampled_from([0.0, 0.05, 0.3, 0.5]), directed=st.booleans())
def test_adding_keeps_every_edge_and_adds_new_ones(rate, directed):
    graph = directed_graph() if directed else undirected_graph()
    after = perturb(graph, "add", rate, seed=1)
    step = 1 if directed else 2
    movable = (graph.n_edges - len(loops(graph))) // step
    assert after.n_edges - graph.n_edges == step * round(rate * movable)
    assert set(pairs(graph)) <= set(pairs(after))
    assert len(set(pairs(after))) == after.n_edges
    assert loops(after) == loops(graph)


def test_an_undirected_graph_stays_undirected():
    for operation in ("add", "remove"):
        after = pairs(perturb(undirected_graph(), operation, 0.3, seed=2))
        assert sorted((v, u) for u, v in after) == after


def test_perturbation_is_determined_by_its_seed_and_keeps_features():
    graph = directed_graph()
    first = perturb(graph, "add", 0.5, seed=3)
    assert first.fingerprint == perturb(graph, "add", 0.5, seed=3).fingerprint
    assert first.fingerprint != perturb(graph, "add", 0.5, seed=4).fingerprint
    np.testing.assert_array_equal(first.features, graph.features)


def test_impossible_perturbations_are_refused():
    complete = gnncal.Graph(np.array([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), 3)
    with pytest.raises(InputError, match="only 0 pairs"):
        perturb(complete, "add", 0.5, seed=0)
    with pytest.raises(InputError, match="expected 'add' or 'remove'"):
        perturb(complete, "swap", 0.5, seed=0)
