"""Isotonic calibration against pool-adjacent-violators by hand and by scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

import gnncal
import gnncal_lab
from tests.calibrators.planted import draw
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def isotonic(x, y, at):
    return IsotonicRegression(out_of_bounds="clip").fit(x, y).predict(at)


@given(st.integers(0, 10**6))
def test_one_vs_rest_is_a_regression_a_class_then_normalised(seed):
    logits, labels = draw(120, 3, seed)
    calibrator = gnncal_lab.IsotonicCalibration().fit(
        logits, labels, calibration_nodes=np.arange(60)
    )
    p = gnncal.calibrators.softmax(logits)
    mapped = np.stack(
        [isotonic(p[:60, c], labels[:60] == c, p[:, c]) + 1e-9 * p[:, c] for c in range(3)], axis=1
    )
    expected = mapped / mapped.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-9)


@given(st.integers(0, 10**6))
def test_multi_class_isotonic_is_one_regression_of_all_pairs(seed):
    logits, labels = draw(120, 3, seed)
    calibrator = gnncal.calibrators.MultiClassIsotonic().fit(
        logits, labels, calibration_nodes=np.arange(60)
    )
    p = gnncal.calibrators.softmax(logits)
    mapped = isotonic(p[:60].ravel(), np.eye(3)[labels[:60]].ravel(), p.ravel()) + 1e-9 * p.ravel()
    mapped = mapped.reshape(p.shape)
    expected = mapped / mapped.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-9)


def test_pooled_violators_of_four_nodes_by_hand():
    # Class 1 has p = .2, .4, .6, .8 and happens to nodes 1 and 3: the pair (1, 0) in the middle
    # violates the order and pools to 1/2. Class 0 mirrors it.
    p = np.array([0.2, 0.4, 0.6, 0.8])
    logits = np.log(np.stack([1 - p, p], axis=1))
    labels = np.array([0, 1, 0, 1])
    for calibrator in (gnncal_lab.IsotonicCalibration(), gnncal.calibrators.MultiClassIsotonic()):
        probs = calibrator.fit(logits, labels).predict_proba(logits)
        np.testing.assert_allclose(probs[:, 1], [0, 0.5, 0.5, 1], atol=1e-8)


@given(task=tasks())
def test_multi_class_isotonic_never_swaps_two_classes(task):
    probs = task.fit(gnncal.calibrators.MultiClassIsotonic()).predict_proba(task.logits)
    order = np.argsort(task.logits, axis=1, kind="stable")
    sorted_probs = np.take_along_axis(probs, order, axis=1)
    assert (np.diff(sorted_probs, axis=1) >= -1e-6).all()


def test_a_class_never_seen_gets_almost_nothing_where_another_class_gets_something():
    logits, labels = draw(100, 3, 1)
    keep = labels != 2
    probs = gnncal_lab.IsotonicCalibration().fit(logits[keep], labels[keep]).predict_proba(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    # Where the curves of the seen classes are at 0 too, nothing is known and the model's p stays.
    unknown = np.abs(probs - gnncal.calibrators.softmax(logits)).max(axis=1) < 1e-9
    assert 0 < unknown.sum() < 20
    assert (probs[~unknown, 2] < 1e-6).all()
