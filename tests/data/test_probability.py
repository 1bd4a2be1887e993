"""Softmax, entropy and the promise that predictions stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats

import gnncal
from gnncal.data.probability import (
    concentration,
    keep_predictions,
    normalised_entropy,
)

logits_of_any_size = arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=st.floats(-1e6, 1e6)
)


@given(logits_of_any_size, st.floats(0.01, 100))
def test_softmax_agrees_with_scipy(logits, temperature):
    expected = special.softmax(logits / temperature, axis=1)
    np.testing.assert_allclose(
        gnncal.calibrators.softmax(logits, temperature), expected, atol=1e-12
    )


@given(logits_of_any_size)
def test_entropy_agrees_with_scipy(logits):
    expected = stats.entropy(special.softmax(logits, axis=1), axis=1) / np.log(logits.shape[1])
    np.testing.assert_allclose(normalised_entropy(logits), expected, atol=1e-9)


def test_entropy_by_hand():
    # p = (3/4, 1/4): H = 3/4 ln(4/3) + 1/4 ln 4 = 0.562335; / ln 2 = 0.811278
    logits = np.log([[0.75, 0.25], [0.5, 0.5]])
    np.testing.assert_allclose(normalised_entropy(logits), [0.811278, 1.0], atol=1e-6)


def test_concentration_by_hand():
    # K = 2, e = 0: sqrt(4 ln 2) = 1.66511; the limit on 1 - e acts from below
    np.testing.assert_allclose(concentration(np.array([0.0, 1.0]), 2), [1.665109, 0.0], atol=1e-6)
    limited = concentration(np.array([1.0]), 2, minimum=0.25)
    np.testing.assert_allclose(limited, np.sqrt(4 * np.log(2) * 0.25))


@given(st.floats(1e-4, 0.05), st.integers(2, 6))
def test_concentration_is_the_norm_of_small_centred_logits(scale, n_classes):
    z = scale * np.random.default_rng(n_classes).normal(size=(1, n_classes))
    z -= z.mean()
    found = concentration(normalised_entropy(z), n_classes)
    np.testing.assert_allclose(found, np.linalg.norm(z), rtol=0.1, atol=1e-6)


@given(logits_of_any_size, st.floats(0.01, 100), st.sampled_from([np.float32, np.float64]))
def test_scaling_keeps_the_arg_max_to_the_last_bit(logits, temperature, dtype):
    logits = logits.astype(dtype)
    T = np.full(len(logits), temperature, dtype=dtype)
    probs = keep_predictions(gnncal.calibrators.softmax(logits, T), logits.argmax(axis=1))
    np.testing.assert_array_equal(probs.argmax(axis=1), logits.argmax(axis=1))


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan])
def test_a_temperature_that_is_not_positive_is_refused(temperature):
    with pytest.raises(gnncal.InputError, match="not positive"):
        gnncal.calibrators.softmax(np.eye(2), temperature)


def test_a_rounding_tie_is_broken_towards_the_prediction():
    logits = np.array([[1.0, np.nextafter(1.0, 2.0)]])
    probs = gnncal.calibrators.softmax(logits, 100.0)
    assert probs.argmax() == 0  # the tie that rounding makes
    assert keep_predictions(probs, np.array([1])).argmax() == 1


def test_real_changes_of_the_prediction_are_left_alone():
    probs = np.array([[0.9, 0.1]])
    np.testing.assert_array_equal(keep_predictions(probs.copy(), np.array([1])), probs)


def test_logits_from_probabilities_invert_softmax():
    probs = np.array([[0.2, 0.8], [1.0, 0.0]])
    found = gnncal.calibrators.softmax(gnncal.calibrators.logits_from_probabilities(probs))
    np.testing.assert_allclose(found, probs, atol=1e-300)


def test_the_largest_finite_logits_do_not_overflow():
    largest = np.finfo(np.float32).max
    logits = np.array([[largest, -largest, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(gnncal.calibrators.softmax(logits), [[1.0, 0.0, 0.0]])
    assert normalised_entropy(logits) == pytest.approx(0.0)
