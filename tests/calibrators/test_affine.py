"""Matrix scaling, Dirichlet, SVS and SMS reach the one minimum of their convex losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from scipy.special import expit, log_softmax, logit

import gnncal
import gnncal_lab
from gnncal.calibrators.affine import StructuredVectorScaling, quadratic_objective
from tests.calibrators.planted import draw, mean_log_loss

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
BIAS = np.array([0.7, -0.7, 0.2])


@given(st.integers(0, 10**6), st.booleans())
def test_gradients_equal_finite_differences(seed, diagonal):
    generator = np.random.default_rng(seed)
    logits, labels = draw(30, 3, seed)
    penalty = generator.uniform(0, 1, 3 if diagonal else (3, 3))
    objective = StructuredVectorScaling()._objective(
        log_softmax(logits, axis=1), labels, penalty, 0.3
    )
    theta = generator.normal(size=penalty.size + 3)
    assert check_grad(lambda t: objective(t)[0], lambda t: objective(t)[1], theta) < 1e-4
    binary = quadratic_objective(generator.normal(size=30), labels % 2)
    theta = generator.normal(size=3)
    assert check_grad(lambda t: binary(t)[0], lambda t: binary(t)[1], theta) < 1e-4


def from_elsewhere(loss, size):
    """BFGS with numerical gradients from a random start."""
    start = np.random.default_rng(5).normal(size=size)
    return minimize(loss, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 5000})


@pytest.mark.parametrize("penalty", [None, 0.1])
def test_dirichlet_is_the_minimum_that_another_optimiser_finds(penalty):
    logits, labels = draw(300, 3, 0, bias=BIAS)
    calibrator = gnncal_lab.DirichletCalibration(penalty=penalty).fit(logits, labels)
    strength = 10.0 if penalty is None else penalty
    x = log_softmax(logits, axis=1)

    def loss(theta):
        W, b = theta[:9].reshape(3, 3), theta[9:]
        off = W[~np.eye(3, dtype=bool)]
        probs = gnncal.calibrators.softmax(x @ W.T + b)
        return mean_log_loss(labels, probs) + strength / 6 * off @ off + strength / 3 * b @ b

    best = from_elsewhere(loss, 12)
    np.testing.assert_allclose(calibrator.weight_.ravel(), best.x[:9], atol=1e-3)
    np.testing.assert_allclose(calibrator.bias_, best.x[9:], atol=1e-3)
    expected = gnncal.calibrators.softmax(x @ calibrator.weight_.T + calibrator.bias_)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-9)


def matrix_scores(theta, logits):
    W, b = theta[:9].reshape(3, 3), theta[9:]
    return logits @ W.T + b


def test_matrix_scaling_is_the_minimum_that_another_optimiser_finds():
    logits, labels = draw(300, 3, 0, bias=BIAS)
    logits = logits @ np.array([[1.0, 0.4, 0.0], [0.0, 1.0, -0.3], [0.2, 0.0, 1.0]])
    calibrator = gnncal_lab.MatrixScaling().fit(logits, labels)
    start = np.append(np.eye(3).ravel(), np.zeros(3))

    def loss(theta):
        ridge = 0.5e-6 * np.sum((theta - start) ** 2)
        return (
            mean_log_loss(labels, gnncal.calibrators.softmax(matrix_scores(theta, logits))) + ridge
        )

    best = from_elsewhere(loss, 12)
    found = np.append(calibrator.weight_.ravel(), calibrator.bias_)
    assert loss(found) <= best.fun + 1e-9
    # Only differences of rows of W matter to the softmax; the ridge decides the rest.
    expected = gnncal.calibrators.softmax(matrix_scores(best.x, logits))
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-4)
    means = calibrator.weight_.mean(axis=0), calibrator.bias_.mean()
    np.testing.assert_allclose(means[0], 1 / 3, atol=1e-3)
    np.testing.assert_allclose(means[1], 0, atol=1e-3)


def test_matrix_scaling_takes_back_a_linear_map_of_the_logits():
    logits, labels = draw(8000, 3, 1, temperature=1.0, bias=BIAS)
    mixed = logits @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.5, 0.0, 1.0]])
    probs = (
        gnncal_lab.MatrixScaling()
        .fit(mixed, labels, calibration_nodes=range(4000))
        .predict_proba(mixed)
    )
    truth = gnncal.calibrators.softmax(logits + BIAS)
    assert np.abs(probs - truth).mean() < 0.01
    diagonal = (
        gnncal_lab.VectorScaling()
        .fit(mixed, labels, calibration_nodes=range(4000))
        .predict_proba(mixed)
    )
    assert np.abs(diagonal - truth).mean() > 0.05


def test_an_infinite_dirichlet_penalty_leaves_the_diagonal():
    logits, labels = draw(300, 3, 0)
    calibrator = gnncal_lab.DirichletCalibration(penalty=1e9).fit(logits, labels)
    np.testing.assert_allclose(calibrator.weight_, np.diag(np.diag(calibrator.weight_)), atol=1e-7)
    np.testing.assert_allclose(calibrator.bias_, 0, atol=1e-7)
    assert (np.abs(np.diag(calibrator.weight_) - 1) > 0.1).all()


def test_the_dirichlet_penalty_depends_on_the_number_of_classes():
    for n_classes, penalty in ((8, 10.0), (9, 1000.0)):
        logits, labels = draw(100, n_classes, 0)
        default = gnncal_lab.DirichletCalibration().fit(logits, labels)
        given_it = gnncal_lab.DirichletCalibration(penalty=penalty).fit(logits, labels)
        np.testing.assert_array_equal(default.weight_, given_it.weight_)
    with pytest.raises(gnncal.InputError, match="penalty is -1; expected"):
        gnncal_lab.DirichletCalibration(penalty=-1).fit(logits, labels)


def mixed_logs(logits, labels):
    n, n_classes = logits.shape
    T = gnncal.calibrators.TemperatureScaling().fit(logits, labels).base_temperature_
    return np.log(n / (n + 1) * gnncal.calibrators.softmax(logits / T) + 1 / (n + 1) / n_classes)


@pytest.mark.parametrize("name", ["svs", "sms"])
def test_structured_scaling_is_the_minimum_that_another_optimiser_finds(name):
    n, K = 200, 3
    logits, labels = draw(n, K, 0, bias=BIAS)
    calibrator = gnncal.get_calibrator(name).fit(logits, labels)
    x = mixed_logs(logits, labels)

    def scores(theta):
        D = np.diag(theta[:K]) if name == "svs" else theta[: K * K].reshape(K, K)
        return x + x @ D.T + theta[-K:], D

    def loss(theta):
        moved, D = scores(theta)
        diagonal = K / n * np.sum(np.diag(D) ** 2)
        beside = K * (K - 1) / n * np.sum((D - np.diag(np.diag(D))) ** 2)
        ridge = diagonal + beside + K / n * np.sum(theta[-K:] ** 2)
        return mean_log_loss(labels, gnncal.calibrators.softmax(moved)) + ridge

    best = from_elsewhere(loss, 2 * K if name == "svs" else K * K + K)
    expected = gnncal.calibrators.softmax(scores(best.x)[0])
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["svs", "sms"])
def test_two_classes_are_fitted_by_a_parabola_of_the_log_odds(name):
    generator = np.random.default_rng(2)
    s = 2 * generator.normal(size=800)
    labels = (generator.random(800) < expit(0.3 + 0.6 * s - 0.2 * s**2)).astype(int)
    logits = np.stack([np.zeros(800), s], axis=1)
    calibrator = gnncal.get_calibrator(name).fit(logits, labels)

    def loss(theta):
        p = expit(theta[0] + theta[1] * s + theta[2] * s**2)
        return mean_log_loss(labels, np.stack([1 - p, p], axis=1))

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    found = logit(calibrator.predict_proba(logits)[:, 1])
    expected = best.x[0] + best.x[1] * s + best.x[2] * s**2
    np.testing.assert_allclose(found, expected, atol=2e-3)  # the ridge of 1e-6
    np.testing.assert_allclose(best.x, [0.3, 0.6, -0.2], atol=0.2)


def test_two_separable_classes_stay_finite():
    s = np.linspace(-3, 3, 41)
    labels = (np.abs(s) < 1).astype(int)  # a parabola separates them, a line does not
    logits = np.stack([np.zeros_like(s), s], axis=1)
    calibrator = gnncal.calibrators.StructuredMatrixScaling().fit(logits, labels)
    probs = calibrator.predict_proba(logits)
    assert np.isfinite(probs).all()
    np.testing.assert_array_equal(probs.argmax(axis=1), labels)
    assert calibrator.converged_


def test_a_bound_is_reported_where_nodes_are_separable():
    logits, _ = draw(100, 3, 1)
    logits = np.sign(logits - logits.max(axis=1, keepdims=True) + 1e-9) * 1e-3
    with pytest.warns(gnncal.GnncalWarning, match="DirichletCalibration is not determined"):
        calibrator = gnncal_lab.DirichletCalibration().fit(logits, logits.argmax(axis=1))
    assert calibrator.fit_report_.bounds_hit == ("weight",)


@pytest.mark.parametrize("name", ["matrix", "dirichlet", "sms"])
@pytest.mark.parametrize("n", [4, 60])
def test_many_classes_are_fitted_to_the_same_minimum(name, n, monkeypatch):
    from gnncal.calibrators import affine

    logits, labels = draw(n, 6, 3, bias=np.linspace(-1, 1, 6))
    few = gnncal.get_calibrator(name).fit(logits, labels)
    monkeypatch.setattr(affine, "MANY_CLASSES", 5)
    many = gnncal.get_calibrator(name).fit(logits, labels)
    assert many.converged_
    np.testing.assert_allclose(many.predict_proba(logits), few.predict_proba(logits), atol=1e-4)
    assert many.fit_report_.loss_after == pytest.approx(few.fit_report_.loss_after, abs=1e-5)


def test_a_penalty_of_any_form_holds_with_many_classes(monkeypatch):
    from gnncal.calibrators import affine

    class Uneven(gnncal_lab.MatrixScaling):
        def _fit(self, nodes):
            ridge = np.linspace(0.01, 1.0, nodes.n_classes**2).reshape(nodes.n_classes, -1)
            self._fit_affine(nodes, ridge, 0.1)
            self.fit_report_ = self._report(nodes, has_free_weights=True)

    logits, labels = draw(60, 6, 3)
    few = Uneven().fit(logits, labels)
    monkeypatch.setattr(affine, "MANY_CLASSES", 5)
    np.testing.assert_array_equal(Uneven().fit(logits, labels).weight_, few.weight_)


def test_three_hundred_classes_take_a_bounded_number_of_steps():
    logits, labels = draw(75, 300, 0)
    calibrator = gnncal_lab.DirichletCalibration().fit(logits, labels)
    assert calibrator.converged_
    assert calibrator.n_iter_ <= 200


@pytest.mark.parametrize("name", ["vs", "matrix"])
@pytest.mark.parametrize("size", [1e160, 1e300, 1.7e308])
def test_logits_too_large_for_a_linear_map_are_refused(name, size):
    generator = np.random.default_rng(0)
    logits = size * generator.uniform(-1, 1, size=(60, 3))
    with pytest.raises(gnncal.InputError, match="too large for a linear map; divide them all"):
        gnncal.get_calibrator(name).fit(logits, generator.integers(3, size=60))
