"""The Bayes rule: numbers by hand, and Bayes' theorem written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import gnncal
from gnncal_lab.simulation import CSBM


def test_signal_and_variance_by_hand():
    model = CSBM(n_classes=2, mean_degree=4, separation=2.0, sigma=3.0, n_features=2)
    # m_1 = (1, -1), rho_0 = sqrt 2; v = 9 / 5; h = 3/4: h~ = 1/2, Gamma = sqrt 2 * 3 / 5
    bayes = model.bayes
    assert bayes.rho_0 == pytest.approx(np.sqrt(2))
    assert bayes.v == pytest.approx(1.8)
    assert bayes.signal(0.75) == pytest.approx(np.sqrt(2) * 0.6)
    assert bayes.signal(0.5) == pytest.approx(np.sqrt(2) / 5)  # a random neighbourhood
    assert bayes.temperature(0.75) == pytest.approx(9 / (3 * np.sqrt(2)))  # s^2/((1 + d h~) rho_0)


@given(st.integers(2, 12), st.floats(0.5, 50))
def test_the_signal_rises_with_homophily_and_changes_sign_at_h_0(n_classes, mean_degree):
    bayes = CSBM(n_classes=n_classes, mean_degree=mean_degree).bayes
    signal = bayes.signal(np.linspace(0, 1, 21))
    assert (np.diff(signal) > 0).all()
    assert bayes.signal(1 / n_classes) > 0
    if bayes.zero_signal >= 0:
        assert bayes.signal(bayes.zero_signal) == pytest.approx(0, abs=1e-9)
        np.testing.assert_array_equal(
            bayes.is_positive(np.linspace(0, 1, 21)), np.linspace(0, 1, 21) > bayes.zero_signal
        )
    else:
        assert signal.min() > 0


def test_the_releases_constants_put_h_0_at_012():
    assert CSBM().bayes.zero_signal == pytest.approx(0.12)
    assert np.isnan(CSBM().bayes.temperature([0.05])).all()
    assert CSBM(mean_degree=0).bayes.zero_signal == -np.inf


def test_the_posterior_is_bayes_theorem_written_out():
    model = CSBM(n_classes=3, mean_degree=6, n_features=5, means="simplex")
    generator = np.random.default_rng(0)
    aggregates = generator.normal(size=(20, 5))
    homophily = generator.uniform(0, 1, 20)
    means, d = model.class_means, 6
    centre = means.mean(axis=0)
    expected = np.empty((20, 3))
    for i, h in enumerate(homophily):
        for c in range(3):
            # the node itself, h d neighbours of its class, the rest spread over the others
            others = [means[k] for k in range(3) if k != c]
            total = means[c] + h * d * means[c] + sum((1 - h) * d / 2 * m for m in others)
            density = norm.pdf(aggregates[i], total / (d + 1), model.sigma / np.sqrt(d + 1))
            expected[i, c] = density.prod()
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.abs(centre).max() < 1e-12
    found = model.bayes.posterior(model.scores(aggregates), homophily)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_exact_posterior_is_calibrated():
    homophily = np.random.default_rng(0).uniform(0.0, 0.9, 40_000)
    sample = CSBM(separation=0.6).sample_population(homophily, random_state=1)
    found = gnncal.metrics.estimate_calibration_error(sample.labels, sample.posterior)
    assert found.p_value > 0.01
    assert found.low == 0.0


def test_accuracy_of_two_classes_is_the_normal_integral():
    model = CSBM(n_classes=2, mean_degree=6, separation=0.8, n_features=2)
    sample = model.sample_population(np.full(50_000, 0.7), random_state=0)
    accuracy = (sample.scores.argmax(axis=1) == sample.labels).mean()
    expected = norm.cdf(model.bayes.signal(0.7) / np.sqrt(model.bayes.v))
    assert model.bayes.correctness(0.7) == pytest.approx(expected)
    assert accuracy == pytest.approx(expected, abs=0.006)
    with pytest.raises(gnncal.InputError, match="2 classes only"):
        CSBM().bayes.correctness(0.7)


def test_population_scores_have_the_moments_of_the_appendix():
    model = CSBM(n_classes=4)
    sample = model.sample_population(np.full(100_000, 0.4), random_state=2)
    own = sample.scores[np.arange(100_000), sample.labels]
    assert own.mean() == pytest.approx(model.bayes.signal(0.4), abs=0.005)
    assert own.var() == pytest.approx(model.bayes.v, rel=0.02)
    np.testing.assert_allclose(sample.scores.sum(axis=1), 0, atol=1e-9)


def test_homophily_at_or_below_h_0_is_refused_where_a_positive_temperature_is_needed():
    CSBM().bayes.check_positive([0.2, 0.9])
    with pytest.raises(gnncal.InputError, match=r"h_0 = 0\.120"):
        CSBM().bayes.check_positive([0.05, 0.9])
