"""The contextual stochastic block model: what it samples is what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal
from gnncal_lab.simulation import CSBM

# --- class means


@given(st.integers(2, 12), st.sampled_from(["one-hot", "simplex"]))
def test_class_means_are_equidistant_and_rho_0_from_their_centre(n_classes, kind):
    model = CSBM(n_classes=n_classes, means=kind, separation=1.5)
    means = model.class_means
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 1.5)
    distances = np.linalg.norm(means[:, None] - means, axis=2)[~np.eye(n_classes, dtype=bool)]
    np.testing.assert_allclose(distances, distances[0])
    from_centre = np.linalg.norm(means - means.mean(axis=0), axis=1)
    np.testing.assert_allclose(from_centre, model.bayes.rho_0)


def test_simplex_means_need_one_dimension_less_than_classes():
    model = CSBM(n_classes=3, means="simplex", n_features=2)
    np.testing.assert_allclose(model.class_means.sum(axis=0), 0, atol=1e-12)
    assert model.bayes.rho_0 == 2.0
    with pytest.raises(gnncal.InputError, match="at least 2"):
        CSBM(n_classes=3, means="simplex", n_features=1)


@pytest.mark.parametrize("kind", ["one-hot", "simplex"])
def test_features_have_the_stated_means(kind):
    model = CSBM(n_classes=3, separation=2.0, n_features=4, means=kind)
    sample = model.sample(np.full(30_000, 0.5))
    for c in range(3):
        mean = sample.graph.features[sample.labels == c].mean(axis=0)
        np.testing.assert_allclose(mean, model.class_means[c], atol=0.04)


def test_a_class_mean_scores_rho_0_for_its_own_class_and_less_for_the_others():
    model = CSBM(n_classes=4)
    scores = model.scores(model.class_means)
    np.testing.assert_allclose(np.diag(scores), model.bayes.rho_0)
    np.testing.assert_allclose(scores[0, 1:], -model.bayes.rho_0 / 3)  # cos = -1 / (K - 1)


# --- graphs with a homophily for every node


def test_sampled_neighbourhoods_have_the_homophily_they_were_given():
    homophily = np.repeat([0.1, 0.5, 0.9], 3000)
    sample = CSBM(mean_degree=8).sample(homophily, random_state=0)
    edges = sample.graph.edge_index
    same = sample.labels[edges[0]] == sample.labels[edges[1]]
    for h in (0.1, 0.5, 0.9):
        assert same[homophily[edges[1]] == h].mean() == pytest.approx(h, abs=0.01)
    assert sample.graph.in_degree.mean() == pytest.approx(8, rel=0.02)
    assert sample.graph.self_loops.sum() == 0


def test_a_degree_spread_keeps_the_mean_degree_and_widens_it():
    sample = CSBM(degree_spread=0.8).sample(np.full(40_000, 0.5))
    degree = sample.graph.in_degree
    assert degree.mean() == pytest.approx(10, rel=0.02)
    # Poisson around 10 w, w log-normal: variance 10 + 100 (exp(0.64) - 1) = 99.6
    assert degree.var() == pytest.approx(99.6, rel=0.12)


def test_the_same_seed_gives_the_same_graph():
    for draw in (
        lambda seed: CSBM().sample(np.full(200, 0.5), random_state=seed),
        lambda seed: CSBM().sample_undirected(200, 0.5, random_state=seed),
    ):
        first, second, other = draw(3), draw(3), draw(4)
        assert first.graph.fingerprint == second.graph.fingerprint
        np.testing.assert_array_equal(first.graph.features, second.graph.features)
        assert first.graph.fingerprint != other.graph.fingerprint


# --- undirected graphs of independent edges


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.7, 1.0])
def test_undirected_graphs_have_the_stated_degree_and_homophily(homophily):
    sample = CSBM(mean_degree=12).sample_undirected(20_000, homophily, random_state=1)
    edges = sample.graph.edge_index
    same = sample.labels[edges[0]] == sample.labels[edges[1]]
    assert same.mean() == pytest.approx(homophily, abs=0.006)
    assert sample.graph.in_degree.mean() == pytest.approx(12, rel=0.01)
    assert sample.graph.in_degree.var() == pytest.approx(12, rel=0.06)  # nearly Poisson


def test_undirected_graphs_list_both_directions_once_and_no_loops():
    graph = CSBM(mean_degree=30).sample_undirected(300, 0.6).graph
    dense = graph.adjacency().toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert dense.max() == 1
    assert np.trace(dense) == 0


def test_edge_probabilities_by_hand_and_back():
    # n = 100, K = 4: 25 a class; h d = 6 own-class neighbours, 4 among 75 others
    model = CSBM(n_classes=4, mean_degree=10)
    p_in, p_out = model.edge_probabilities(100, 0.6)
    assert (p_in, p_out) == pytest.approx((6 / 25, 4 / 75))
    again, homophily = CSBM.from_edge_probabilities(p_in, p_out, n_nodes=100, n_classes=4)
    assert again.mean_degree == pytest.approx(10)
    assert homophily == pytest.approx(0.6)


def test_equal_edge_probabilities_are_a_class_random_graph_with_a_positive_signal():
    model, homophily = CSBM.from_edge_probabilities(0.01, 0.01, n_nodes=2000)
    assert homophily == pytest.approx(1 / 5)
    assert model.mean_degree == pytest.approx(20)
    assert model.bayes.signal(homophily) == pytest.approx(model.bayes.rho_0 / 21)
    sample = model.sample_undirected(2000, homophily)
    edges = sample.graph.edge_index
    same = sample.labels[edges[0]] == sample.labels[edges[1]]
    assert same.mean() == pytest.approx(0.2, abs=0.01)


# --- what is refused


@pytest.mark.parametrize(
    "options",
    [
        {"n_classes": 1},
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"separation": -1},
        {"mean_degree": -1},
        {"mean_degree": np.inf},
        {"degree_spread": -0.1},
        {"n_features": 2},
        {"n_classes": 2.5},
        {"n_classes": True},
        {"n_features": 16.5},
        {"means": "random"},
    ],
)
def test_impossible_models_are_refused_by_the_name_of_what_is_wrong(options):
    with pytest.raises(gnncal.InputError, match=next(iter(options))):
        CSBM(**options)


@pytest.mark.parametrize("homophily", [1.2, -0.1, np.nan, []])
def test_impossible_homophily_is_refused(homophily):
    for method in (CSBM().sample, CSBM().sample_population, CSBM().bayes.signal):
        with pytest.raises(gnncal.InputError, match="shares in"):
            method(homophily)


@pytest.mark.parametrize("homophily", [0.7, np.full((3, 3), 0.7)])
def test_homophily_is_one_number_a_node_and_any_other_shape_is_refused(homophily):
    for method in (CSBM().sample, CSBM().sample_population):
        with pytest.raises(gnncal.InputError, match=r"np\.full\(n_nodes, 0\.7\)"):
            method(homophily)


def test_undirected_graphs_take_one_homophily_for_all():
    with pytest.raises(gnncal.InputError, match=r"shape \(2,\); .* use sample\(homophily\)"):
        CSBM().sample_undirected(2000, [0.1, 0.2])


@pytest.mark.parametrize("n_nodes", [0, -5, 20.5])
def test_graphs_have_a_whole_number_of_nodes_and_at_least_one(n_nodes):
    for draw in (
        lambda: CSBM().sample_undirected(n_nodes, 0.5),
        lambda: CSBM().edge_probabilities(n_nodes, 0.5),
        lambda: CSBM.from_edge_probabilities(0.1, 0.1, n_nodes=n_nodes),
    ):
        with pytest.raises(gnncal.InputError, match="n_nodes is"):
            draw()


@pytest.mark.parametrize("n_classes", [0, 1, 2.5])
def test_edge_probabilities_need_two_classes(n_classes):
    with pytest.raises(gnncal.InputError, match="n_classes is"):
        CSBM.from_edge_probabilities(0.1, 0.1, n_nodes=100, n_classes=n_classes)


def test_a_node_cannot_expect_more_neighbours_than_there_are_others():
    with pytest.raises(gnncal.InputError, match="1000 is impossible with 10 nodes"):
        CSBM(mean_degree=1000).sample(np.full(10, 0.5))
    with pytest.raises(gnncal.InputError, match="impossible"):
        CSBM(mean_degree=9.5).sample(np.full(10, 0.5))
    assert CSBM(mean_degree=9).sample(np.full(10, 0.5)).graph.n_nodes == 10


def test_a_degree_spread_changes_neither_the_bayes_rule_nor_the_population():
    even, uneven = CSBM(), CSBM(degree_spread=0.8)
    assert even.bayes == uneven.bayes
    first, second = (m.sample_population(np.full(20, 0.6)).posterior for m in (even, uneven))
    np.testing.assert_array_equal(first, second)


def test_a_degree_that_the_nodes_cannot_have_is_refused():
    with pytest.raises(gnncal.InputError, match="impossible with 100 nodes"):
        CSBM(mean_degree=30).sample_undirected(100, 0.9)
    with pytest.raises(gnncal.InputError, match="degree_spread"):
        CSBM(degree_spread=1.0).sample_undirected(1000, 0.5)


@pytest.mark.parametrize(("p_in", "p_out"), [(1.5, 0.1), (-0.1, 0.1), (0.0, 0.0)])
def test_edge_probabilities_outside_0_1_are_refused(p_in, p_out):
    with pytest.raises(gnncal.InputError, match="p_in"):
        CSBM.from_edge_probabilities(p_in, p_out, n_nodes=100)
