"""Temperature, vector, ensemble and entropy scaling against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize, minimize_scalar

import gnncal
import gnncal_lab
from gnncal.math.losses import TemperatureLoss
from gnncal.math.solvers import Solution
from tests.calibrators.planted import draw, mean_log_loss

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def test_temperature_of_four_nodes_by_hand():
    # Logits (1, 0), three times right and once wrong: the best confidence is 3/4, so 1/T = ln 3.
    logits = np.tile([1.0, 0.0], (4, 1))
    calibrator = gnncal.calibrators.TemperatureScaling().fit(logits, np.array([0, 0, 0, 1]))
    assert calibrator.base_temperature_ == pytest.approx(1 / math.log(3), rel=1e-6)
    assert calibrator.fit_report_.loss_before == pytest.approx(
        math.log(1 + math.e) - 0.75, rel=1e-12
    )


@given(st.integers(0, 10**6), st.floats(0.3, 5.0))
def test_temperature_scaling_finds_the_minimum_that_a_scalar_search_finds(seed, temperature):
    logits, labels = draw(200, 4, seed, temperature)
    calibrator = gnncal.calibrators.TemperatureScaling().fit(logits, labels)
    best = minimize_scalar(
        lambda u: mean_log_loss(labels, gnncal.calibrators.softmax(logits, math.exp(u))),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert math.log(calibrator.base_temperature_) == pytest.approx(best.x, abs=1e-4)


@given(st.integers(0, 10**6))
def test_the_slope_of_the_loss_equals_finite_differences(seed):
    logits, labels = draw(5, 3, seed)
    loss = TemperatureLoss(logits, labels)
    temperature = np.random.default_rng(seed).uniform(0.5, 3, 5)
    value, slope, _ = loss.derivatives(temperature)
    assert value == pytest.approx(loss.value(temperature))
    np.testing.assert_allclose(slope, approx_fprime(temperature, loss.value, 1e-7), atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_vector_scaling_reaches_the_minimum_of_its_convex_loss(bias):
    logits, labels = draw(400, 3, 0, bias=np.array([0.5, -0.5, 0.0]))
    calibrator = gnncal_lab.VectorScaling(bias=bias).fit(logits, labels)

    def loss(theta):
        scores = theta[:3] * logits + (theta[3:] if bias else 0.0)
        return mean_log_loss(labels, gnncal.calibrators.softmax(scores))

    best = minimize(loss, np.array([1.0] * 3 + [0.0] * 3), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(calibrator.weight_, best.x[:3], atol=1e-4)
    assert calibrator.fit_report_.loss_after == pytest.approx(best.fun, abs=1e-8)
    assert (calibrator.bias_ != 0).any() == bias
    np.testing.assert_allclose(
        calibrator.predict_proba(logits),
        gnncal.calibrators.softmax(calibrator.weight_ * logits + calibrator.bias_),
    )


@given(st.integers(0, 10**6), st.booleans())
def test_the_gradient_of_vector_scaling_equals_finite_differences(seed, bias):
    logits, labels = draw(20, 3, seed)
    objective = gnncal_lab.VectorScaling(bias=bias)._objective(logits, labels, np.zeros(3), 0.0)
    theta = np.random.default_rng(seed).normal(size=6)
    expected = approx_fprime(theta, lambda t: objective(t)[0], 1e-7)
    expected[3:] *= bias
    np.testing.assert_allclose(objective(theta)[1], expected, atol=1e-5)


def test_vector_scaling_of_separable_nodes_stops_at_a_bound():
    logits = 0.01 * draw(100, 3, 1)[0]
    with pytest.warns(gnncal.GnncalWarning, match="VectorScaling is not determined by the calib"):
        calibrator = gnncal_lab.VectorScaling(bias=False).fit(logits, logits.argmax(axis=1))
    assert calibrator.fit_report_.bounds_hit == ("weight[0]", "weight[1]", "weight[2]")


def test_vector_scaling_says_when_it_did_not_converge(monkeypatch):
    from gnncal_lab.methods import vector

    def stopped(objective, start, lower, upper):
        return Solution(start, objective(start)[0], 7, converged=False)

    monkeypatch.setattr(vector, "lbfgs", stopped)
    logits, labels = draw(50, 3, 0)
    with pytest.warns(gnncal.GnncalWarning, match="VectorScaling: .* before convergence after 7"):
        assert not gnncal_lab.VectorScaling().fit(logits, labels).converged_


def test_a_class_that_is_missing_from_the_calibration_nodes_becomes_improbable_not_impossible():
    logits, labels = draw(100, 3, 1)
    keep = labels != 2
    probs = gnncal_lab.VectorScaling().fit(logits[keep], labels[keep]).predict_proba(logits)
    assert 0 < probs[:, 2].max() < 0.01


@given(st.integers(0, 10**6))
def test_ensemble_weights_are_the_best_on_the_simplex(seed):
    logits, labels = draw(150, 3, seed)
    labels[:15] = np.random.default_rng(seed).integers(0, 3, 15)  # noise that w_3 can absorb
    calibrator = gnncal_lab.EnsembleTemperatureScaling().fit(logits, labels)
    assert calibrator.weights_.sum() == pytest.approx(1.0)
    assert (calibrator.weights_ >= 0).all()
    parts = [
        gnncal.calibrators.softmax(logits, calibrator.base_temperature_),
        gnncal.calibrators.softmax(logits),
        np.full(logits.shape, 1 / 3),
    ]

    def loss(weights):
        return mean_log_loss(labels, sum(w * p for w, p in zip(weights, parts, strict=True)))

    grid = [
        loss((a, b, 1 - a - b)) for a in np.linspace(0, 1, 21) for b in np.linspace(0, 1 - a, 21)
    ]
    assert calibrator.fit_report_.loss_after <= min(grid) + 1e-6
    np.testing.assert_allclose(
        calibrator.predict_proba(logits),
        sum(w * p for w, p in zip(calibrator.weights_, parts, strict=True)),
        atol=1e-9,
    )


@given(st.integers(0, 10**6))
def test_the_derivatives_of_the_mixture_equal_finite_differences(seed):
    from gnncal_lab.methods.ensemble import mixture_derivatives

    generator = np.random.default_rng(seed)
    at_label = generator.uniform(0.01, 1, size=(30, 3))

    def derivatives(weights):
        return mixture_derivatives(at_label, weights, 0.1)

    weights = generator.uniform(0.1, 0.9, 3)
    _, gradient, hessian = derivatives(weights)
    np.testing.assert_allclose(
        gradient, approx_fprime(weights, lambda w: derivatives(w)[0], 1e-7), atol=1e-5
    )
    for i in range(3):
        found = approx_fprime(weights, lambda w, i=i: derivatives(w)[1][i], 1e-7)
        np.testing.assert_allclose(hessian[i], found, atol=1e-4)


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.99, 1.01, 3.0]), st.integers(2, 200))
def test_ensemble_weights_converge_also_where_the_parts_are_nearly_equal(seed, T, n):
    from gnncal_lab.methods.ensemble import mixture_weights

    logits, labels = draw(n, 3, seed)
    labels[::3] = np.random.default_rng(seed).integers(0, 3, len(labels[::3]))
    parts = [
        gnncal.calibrators.softmax(logits, T),
        gnncal.calibrators.softmax(logits),
        np.full(logits.shape, 1 / 3),
    ]
    at_label = np.stack([p[np.arange(n), labels] for p in parts], axis=1)
    found = mixture_weights(at_label)
    assert found.converged
    best = minimize(
        lambda w: -np.log(at_label @ w + 1e-15).mean(),
        [0.3, 0.3, 0.4],
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert found.loss <= best.fun + 2e-6


def entropy(logits):
    p = gnncal.calibrators.softmax(logits)
    return -(p * np.log(p)).sum(axis=1) / math.log(logits.shape[1])


def test_entropy_scaling_is_linear_in_the_entropy():
    logits, labels = draw(500, 4, 3)
    calibrator = gnncal.calibrators.EntropyScaling().fit(logits, labels)
    e = entropy(logits)
    expected = (1 - e) * calibrator.certain_temperature_ + e * calibrator.uncertain_temperature_
    np.testing.assert_allclose(calibrator.temperature_, expected, rtol=1e-9)


def test_log_entropy_scaling_is_softplus_of_the_log_entropy():
    logits, labels = draw(500, 4, 3)
    calibrator = gnncal_lab.LogEntropyScaling().fit(logits, labels)
    expected = np.log1p(np.exp(calibrator.slope_ * np.log(entropy(logits)) + calibrator.intercept_))
    np.testing.assert_allclose(calibrator.temperature_, expected, rtol=1e-6)


def test_entropy_scaling_under_the_papers_protocol_is_the_released_form():
    logits, labels = draw(900, 4, 5)
    calibrator = gnncal.calibrators.EntropyScaling(protocol="paper")
    calibrator.fit(
        logits, labels, calibration_nodes=np.arange(300), train_nodes=np.arange(300, 900)
    )
    # softplus(1) + 0.1 = 1.413 at the start, and T never below 0.1
    theta, _ = calibrator._paper_link(np.array(calibrator.paper_start))
    np.testing.assert_allclose(theta, [1.413262, 1.413262], rtol=1e-6)
    calibrator.certain_temperature_, calibrator.uncertain_temperature_ = 1.0, -5.0
    assert calibrator.predict_temperature(logits).min() == pytest.approx(0.1)


def test_the_papers_loop_freezes_a_sharp_start():
    # Training nodes fitted too well: their loss rises as T grows from 1, so the first checkpoint
    # is restored although the calibration nodes want T = 2.5.
    logits, labels = draw(2000, 5, 0, temperature=2.5)
    labels[1000:] = logits[1000:].argmax(axis=1)
    split = {"calibration_nodes": np.arange(1000), "train_nodes": np.arange(1000, 2000)}
    frozen = gnncal.calibrators.TemperatureScaling(protocol="paper").fit(logits, labels, **split)
    free = gnncal.calibrators.TemperatureScaling().fit(logits, labels, **split)
    assert frozen.base_temperature_ == pytest.approx(1.01, abs=0.005)
    assert frozen.n_iter_ == 51
    assert not frozen.converged_
    assert free.base_temperature_ == pytest.approx(2.5, rel=0.1)
