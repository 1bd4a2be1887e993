"""Spline calibration against a natural cubic spline written out in truncated powers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal
import gnncal_lab
from tests.calibrators.planted import draw

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def natural_basis(t, knots):
    """1, t and the truncated cubes that are linear beyond the outer knots, and derivatives."""

    def d(k, power):
        def cube(x):
            return np.maximum(x, 0.0) ** power * (3 if power == 2 else 1)

        return (cube(t - knots[k]) - cube(t - knots[-1])) / (knots[-1] - knots[k])

    last = len(knots) - 2
    values = [np.ones_like(t), t, *(d(k, 3) - d(last, 3) for k in range(last))]
    slopes = [np.zeros_like(t), np.ones_like(t), *(d(k, 2) - d(last, 2) for k in range(last))]
    return np.stack(values, axis=1), np.stack(slopes, axis=1)


@given(st.integers(0, 10**6), st.integers(3, 9))
def test_the_curve_is_the_derivative_of_a_natural_spline_through_summed_errors(seed, n_knots):
    logits, labels = draw(80, 4, seed)
    calibrator = gnncal_lab.SplineCalibration(n_knots=n_knots).fit(logits, labels)
    p = gnncal.softmax(logits)
    order = np.argsort(p.max(axis=1))
    s, a = p.max(axis=1)[order], (p.argmax(axis=1) == labels)[order]
    t = np.linspace(0, 1, 80)
    values, slopes = natural_basis(t, np.linspace(0, 1, n_knots))
    weights = np.linalg.lstsq(values, np.cumsum(a - s) / 80)[0]
    expected = np.clip(s + slopes @ weights, 0, 1)
    probs = calibrator.predict_proba(logits)[order]
    top = p.argmax(axis=1)[order]
    np.testing.assert_allclose(probs[np.arange(80), top], expected, atol=1e-8)
    # The others share what remains in the model's proportions.
    rest = np.where(np.eye(4, dtype=bool)[top], 0, p[order])
    rest *= (1 - expected)[:, None] / rest.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(np.eye(4, dtype=bool)[top], 0, probs), rest, atol=1e-8)


def test_confidences_beyond_the_curve_continue_it_in_a_straight_line():
    logits, labels = draw(80, 3, 0)
    calibrator = gnncal_lab.SplineCalibration().fit(logits, labels)
    calibrator.curve_ = np.array([[0.5, 0.6, 0.7], [0.5, 0.55, 0.65]])
    logits = np.log([[0.8, 0.1, 0.1], [0.65, 0.3, 0.05], [0.4, 0.3, 0.3]])
    found = calibrator.predict_proba(logits)[:, 0]
    np.testing.assert_allclose(found, [0.75, 0.6, 0.45])


def test_equal_confidences_count_once_and_one_gives_its_accuracy():
    logits = np.tile([1.0, 0.0, 0.0], (4, 1))
    calibrator = gnncal_lab.SplineCalibration().fit(logits, np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(calibrator.predict_proba(logits), [[0.75, 0.125, 0.125]] * 4)


def test_a_certain_model_shares_the_remainder_evenly():
    logits = np.array([[1e4, 0.0, 0.0]] * 4)
    calibrator = gnncal_lab.SplineCalibration().fit(logits, np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(calibrator.predict_proba(logits), [[0.75, 0.125, 0.125]] * 4)


def test_predictions_can_change_where_the_accuracy_is_low():
    assert not gnncal_lab.SplineCalibration.preserves_predictions
    logits = np.tile([0.1, 0.0], (4, 1))
    probs = gnncal_lab.SplineCalibration().fit(logits, np.array([0, 1, 1, 1])).predict_proba(logits)
    np.testing.assert_allclose(probs, [[0.25, 0.75]] * 4)


def test_a_spline_has_at_least_two_knots():
    with pytest.raises(
        gnncal.InputError, match="n_knots is 1; expected a whole number of at least 2"
    ):
        gnncal_lab.SplineCalibration(n_knots=1).fit(np.eye(3), np.arange(3))
