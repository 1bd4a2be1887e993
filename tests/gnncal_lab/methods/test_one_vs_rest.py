"""Platt scaling and its relatives: a curve of each class against the rest, rows normalised."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp
from sklearn.calibration import _SigmoidCalibration

import gnncal
import gnncal_lab
from gnncal_lab.fitting.one_vs_rest import log_chances, normalised_sigmoids
from tests.calibrators.planted import draw

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
N = 80  # calibration nodes of 160


def log_odds(logits):
    """z_c less the logarithm of the sum of the others' e^z, class by class."""
    rests = [logsumexp(np.delete(logits, c, axis=1), axis=1) for c in range(logits.shape[1])]
    return logits - np.stack(rests, axis=1)


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 7]), st.sampled_from([0.1, 1.0, 12.0]))
def test_logarithms_of_both_chances_are_exact_next_to_zero_and_one(seed, n_classes, size):
    z = size * np.random.default_rng(seed).normal(size=(40, n_classes))
    z[0] = 0.0  # all tied
    z[1, :2] = z[1].max() + 1.0  # two tied at the top
    own, others = log_chances(z)
    np.testing.assert_allclose(own, np.maximum(log_softmax(z, axis=1), -88), atol=1e-9)
    expected = np.maximum(log_softmax(z, axis=1) - log_odds(z), -88)
    np.testing.assert_allclose(others, expected, atol=1e-9)


def test_logarithms_of_chances_are_finite_for_logits_of_any_size():
    z = np.array([[3e38, -3e38, 0], [-3e38, 3e38, 3e38], [1e4, 0, 0]], dtype=np.float32)
    for logarithm in log_chances(z):
        assert np.isfinite(logarithm).all()
        assert logarithm.dtype == np.float32


def test_sigmoids_that_are_all_next_to_zero_still_have_a_ratio():
    f = np.array([[-2000.0, -2001.0], [50.0, 50.0]])
    e = np.exp(-1.0)
    expected = [[1 / (1 + e), e / (1 + e)], [0.5, 0.5]]
    np.testing.assert_allclose(normalised_sigmoids(f), expected)


@given(st.integers(0, 10**6), st.booleans())
def test_platt_of_two_classes_is_that_of_scikit_learn(seed, weighted):
    logits, labels = draw(2 * N, 2, seed, bias=np.array([0.5, -0.5]))
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, 2 * N) if weighted else None
    score = logits[:, 1] - logits[:, 0]
    seen = None if weights is None else weights[:N]
    theirs = _SigmoidCalibration().fit(score[:N], labels[:N], sample_weight=seen)
    ours = gnncal_lab.PlattScaling().fit(
        logits, labels, calibration_nodes=range(N), sample_weight=weights
    )
    assert ours.converged_
    # Theirs stops at a gradient of 1e-5 or so, ours at the optimum.
    np.testing.assert_allclose(ours.slope_[1], -theirs.a_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(logits)[:, 1], theirs.predict(score), atol=2e-3)
    np.testing.assert_allclose(ours.slope_[0], ours.slope_[1], rtol=1e-6)
    np.testing.assert_allclose(ours.intercept_[0], -ours.intercept_[1], atol=1e-6)


@given(st.integers(0, 10**6))
@example(seed=880126)  # large log-odds
def test_platt_of_several_classes_is_a_sigmoid_each_then_normalised(seed):
    logits, labels = draw(2 * N, 3, seed)
    calibrator = gnncal_lab.PlattScaling().fit(logits, labels, calibration_nodes=range(N))
    s = log_odds(logits)
    curves = []
    for c in range(3):
        f = calibrator.slope_[c] * s[:, c] + calibrator.intercept_[c]
        n_with = (labels[:N] == c).sum()
        target = np.where(labels[:N] == c, (n_with + 1) / (n_with + 2), 1 / (N - n_with + 2))
        residual = expit(f[:N]) - target
        # The loss is convex, so a gradient of zero is the minimum. It has the size of the features.
        gradient = np.array([residual.mean(), residual @ s[:N, c] / (N * np.abs(s[:N, c]).max())])
        np.testing.assert_allclose(gradient, 0, atol=1e-8)
        curves.append(expit(f))
    expected = np.stack(curves, axis=1)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-9)


def test_platt_stays_finite_where_a_class_can_be_told_from_the_rest():
    s = np.append(np.linspace(-40, -30, 20), np.linspace(30, 40, 20))
    logits, labels = np.stack([0 * s, s], axis=1), (s > 0).astype(int)
    calibrator = gnncal_lab.PlattScaling().fit(logits, labels)
    assert calibrator.converged_
    # Nodes of a class have the target 21/22, which they reach on average, weighted by log-odds.
    confidence = calibrator.predict_proba(logits).max(axis=1)
    np.testing.assert_allclose(np.average(confidence, weights=np.abs(s)), 21 / 22, atol=1e-8)
    assert confidence.max() < 0.98


def test_log_odds_that_do_not_vary_give_the_rate_of_the_class():
    labels = np.repeat([0, 1], [30, 10])
    calibrator = gnncal_lab.PlattScaling().fit(np.tile([0.0, 1.0], (40, 1)), labels)
    np.testing.assert_array_equal(calibrator.slope_, 0.0)
    target = (10 * 11 / 12 + 30 / 32) / 40
    np.testing.assert_allclose(calibrator.predict_proba([[9.0, 0.0]])[0, 1], target)


def unpenalised(features, is_label):
    """Logistic regression by BFGS: the weights of the features, then the intercept."""
    x = np.column_stack([*features, np.ones(len(is_label))])

    def loss(theta):
        return np.mean(np.logaddexp(0, x @ theta) - is_label * (x @ theta))

    def slope(theta):
        return x.T @ (expit(x @ theta) - is_label) / len(x)

    options = {"gtol": 1e-9, "maxiter": 2000}
    return minimize(loss, np.zeros(x.shape[1]), jac=slope, method="BFGS", options=options).x


def beta_with_refits(p, is_label):
    """a, b and c by the rules of the authors' release: fit, and again without a negative one."""
    first, second = np.log(p), -np.log1p(-p)
    a, b, c = unpenalised([first, second], is_label)
    if a < 0:
        b, c = unpenalised([second], is_label)
        return 0.0, b, c
    if b < 0:
        a, c = unpenalised([first], is_label)
        return a, 0.0, c
    return a, b, c


TRUE_CURVES = [(1.0, 0.4), (0.3, 1.2), (0.8, -0.5), (-0.5, 0.8)]  # a negative one is refitted


@pytest.mark.parametrize(("a", "b"), TRUE_CURVES)
@pytest.mark.parametrize("seed", range(3))
def test_beta_of_two_classes_is_a_regression_with_the_refits_of_the_release(a, b, seed):
    generator = np.random.default_rng(seed)
    p = generator.uniform(0.01, 0.99, size=600)
    labels = (generator.random(600) < expit(a * np.log(p) - b * np.log1p(-p) + 0.3)).astype(int)
    logits = np.log(np.stack([1 - p, p], axis=1))
    calibrator = gnncal_lab.BetaCalibration().fit(logits, labels)
    expected = beta_with_refits(p, labels)
    assert (0.0 in expected) == (min(a, b) < 0)
    found = calibrator.own_weight_[1], calibrator.rest_weight_[1], calibrator.intercept_[1]
    np.testing.assert_allclose(found, expected, atol=2e-4)  # the ridge of 1e-6
    # Class 0 has the mirror image, so the two curves sum to one.
    np.testing.assert_allclose(calibrator.own_weight_[0], expected[1], atol=2e-4)
    curve = expit(expected[0] * np.log(p) - expected[1] * np.log1p(-p) + expected[2])
    np.testing.assert_allclose(calibrator.predict_proba(logits)[:, 1], curve, atol=1e-4)


def test_beta_of_several_classes_is_a_curve_each_then_normalised():
    logits, labels = draw(900, 3, 4, bias=np.array([0.7, -0.7, 0.2]))
    calibrator = gnncal_lab.BetaCalibration().fit(logits, labels, calibration_nodes=range(600))
    p, curves = gnncal.calibrators.softmax(logits), []
    for c in range(3):
        a, b, intercept = beta_with_refits(p[:600, c], labels[:600] == c)
        curves.append(expit(a * np.log(p[:, c]) - b * np.log1p(-p[:, c]) + intercept))
    expected = np.stack(curves, axis=1)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-3)


def test_beta_leaves_probabilities_that_are_right_as_they_are():
    logits, labels = draw(20_000, 2, 0, temperature=1.0)
    calibrator = gnncal_lab.BetaCalibration().fit(logits, labels)
    np.testing.assert_allclose(
        calibrator.predict_proba(logits), gnncal.calibrators.softmax(logits), atol=0.02
    )


def test_no_curve_of_beta_falls_even_where_labels_contradict_the_model():
    logits, labels = draw(300, 2, 1)
    calibrator = gnncal_lab.BetaCalibration().fit(logits, 1 - labels)
    np.testing.assert_array_equal(calibrator.own_weight_, 0.0)
    np.testing.assert_array_equal(calibrator.rest_weight_, 0.0)
    rate = np.mean(1 - labels)
    np.testing.assert_allclose(calibrator.predict_proba(logits)[:, 1], rate, atol=1e-5)


def test_a_class_that_stands_apart_from_the_rest_is_named():
    logits, labels = draw(300, 3, 1)
    logits[labels == 2, 2] += 60.0
    with pytest.warns(gnncal.GnncalWarning, match="every calibration node of class 2 has a larger"):
        calibrator = gnncal_lab.BetaCalibration().fit(logits, labels)
    assert calibrator.converged_
    assert np.isfinite(calibrator.predict_proba(logits)).all()
    assert gnncal_lab.PlattScaling().fit(logits, labels).fit_report_.undetermined == ()
