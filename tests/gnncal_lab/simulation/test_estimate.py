"""Numbers with their uncertainty."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import gnncal
from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.estimate import (
    check_seeds,
    fit_inverse_temperature,
    log_slope,
    of_the_mean,
    over_seeds,
    score_variance,
)


def test_the_interval_over_seeds_by_hand():
    found = over_seeds(np.array([1.0, 2.0, 3.0]))
    # sd 1, standard error 1/sqrt 3, Student's 97.5% quantile with 2 degrees of freedom 4.3027
    assert found.value == pytest.approx(2.0)
    assert (found.low, found.high) == pytest.approx(
        (2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), 1e-4
    )


def test_a_statistic_of_the_mean_is_computed_on_the_mean_and_brackets_it():
    values = np.random.default_rng(0).normal([1.0, 2.0, 4.0], 0.1, (20, 3))
    found = of_the_mean(values, lambda mean: float(mean[2] / mean[0]))
    assert found.value == pytest.approx(values[:, 2].mean() / values[:, 0].mean())
    assert found.low < found.value < found.high


def test_the_slope_of_a_power_law_is_its_exponent():
    x = np.array([1.0, 2.0, 5.0])
    assert log_slope(x, 3 * x**-1.7) == pytest.approx(-1.7)


@pytest.mark.parametrize("x", [[], [2.0], [2.0, 2.0]])
def test_a_slope_needs_two_different_points(x):
    assert np.isnan(log_slope(np.array(x), np.ones(len(x))))


@pytest.mark.parametrize("homophily", [0.0, 0.6])
def test_the_signed_inverse_temperature_minimises_the_log_loss(homophily):
    sample = CSBM(separation=1.0).sample_population(np.full(3000, homophily), random_state=5)
    found = fit_inverse_temperature(sample.scores, sample.labels)

    def loss(tau):
        return -log_softmax(tau * sample.scores, axis=1)[np.arange(3000), sample.labels].mean()

    best = minimize_scalar(loss, bracket=(-3, 6), tol=1e-10)
    assert found.value == pytest.approx(best.x, abs=1e-4)
    step = 1e-3
    bent = (loss(best.x + step) - 2 * best.fun + loss(best.x - step)) / step**2
    assert found.high - found.value == pytest.approx(1.96 / np.sqrt(3000 * bent), rel=1e-3)
    assert (found.value < 0) == (homophily == 0.0)


def test_the_variance_of_two_scores_by_hand():
    # p = (3/4, 1/4) at tau = ln 3: Var = 3/16 * (1 - 0)^2
    assert score_variance(np.array([[1.0, 0.0]]), np.log(3)) == pytest.approx(3 / 16)


def test_one_seed_is_refused():
    with pytest.raises(gnncal.InputError, match="at least 2"):
        check_seeds(1)
