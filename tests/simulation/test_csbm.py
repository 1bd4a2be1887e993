"""The contextual stochastic block model: what it samples is what it says."""

import numpy as np
import pytest

import gnncal
from gnncal.simulation import CSBM


def test_signal_and_variance_by_hand():
    model = CSBM(n_classes=2, mean_degree=4, separation=2.0, sigma=3.0, n_features=2)
    # m_1 = (1, -1), rho_0 = sqrt 2; v = 9 / 5; h = 3/4: h~ = 1/2, Gamma = sqrt 2 * 3 / 5
    assert model.rho_0 == pytest.approx(np.sqrt(2))
    assert model.v == pytest.approx(1.8)
    assert model.signal(0.75) == pytest.approx(np.sqrt(2) * 0.6)
    assert model.signal(0.5) == pytest.approx(np.sqrt(2) / 5)  # a random neighbourhood


def test_the_exact_posterior_is_calibrated():
    homophily = np.random.default_rng(0).uniform(0.2, 0.9, 40_000)
    sample = CSBM(separation=0.6).sample_population(homophily, random_state=1)
    found = gnncal.metrics.estimate_calibration_error(sample.labels, sample.posterior)
    assert found.p_value > 0.01
    assert found.low == 0.0


def test_accuracy_of_two_classes_is_the_normal_integral():
    from scipy.stats import norm

    model = CSBM(n_classes=2, mean_degree=6, separation=0.8, n_features=2)
    sample = model.sample_population(np.full(50_000, 0.7), random_state=0)
    accuracy = (sample.scores.argmax(axis=1) == sample.labels).mean()
    assert accuracy == pytest.approx(norm.cdf(model.signal(0.7) / np.sqrt(model.v)), abs=0.006)


def test_sampled_neighbourhoods_have_the_homophily_they_were_given():
    homophily = np.repeat([0.1, 0.5, 0.9], 3000)
    sample = CSBM(mean_degree=8).sample(homophily, random_state=0)
    edges = sample.graph.edge_index
    same = sample.labels[edges[0]] == sample.labels[edges[1]]
    for h in (0.1, 0.5, 0.9):
        assert same[homophily[edges[1]] == h].mean() == pytest.approx(h, abs=0.01)
    assert sample.graph.in_degree.mean() == pytest.approx(8, rel=0.02)
    assert sample.graph.self_loops.sum() == 0


def test_features_have_the_stated_means():
    sample = CSBM(n_classes=3, separation=2.0, n_features=4).sample(np.full(30_000, 0.5))
    for c in range(3):
        mean = sample.graph.features[sample.labels == c].mean(axis=0)
        np.testing.assert_allclose(mean, 2.0 * np.eye(4)[c], atol=0.04)


def test_the_same_seed_gives_the_same_graph():
    first, second = (CSBM().sample(np.full(200, 0.5), random_state=3) for _ in range(2))
    assert first.graph.fingerprint == second.graph.fingerprint
    np.testing.assert_array_equal(first.labels, second.labels)


@pytest.mark.parametrize(
    "options",
    [{"n_classes": 1}, {"sigma": 0.0}, {"separation": -1}, {"mean_degree": -1}, {"n_features": 2}],
)
def test_impossible_models_are_refused(options):
    with pytest.raises(gnncal.InputError):
        CSBM(**options)


@pytest.mark.parametrize("homophily", [1.2, -0.1, np.nan, []])
def test_impossible_homophily_is_refused(homophily):
    with pytest.raises(gnncal.InputError, match="shares in"):
        CSBM().sample(homophily)
