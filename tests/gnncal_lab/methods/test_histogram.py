"""Histogram binning against its definition, written out bin by bin."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal
import gnncal_lab
from tests.calibrators.planted import draw

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_frequencies_of_quantile_bins_then_normalised(seed, n_bins):
    logits, labels = draw(160, 3, seed)
    nodes = np.arange(80)
    calibrator = gnncal_lab.HistogramBinning(n_bins=n_bins).fit(
        logits, labels, calibration_nodes=nodes
    )
    p = gnncal.calibrators.softmax(logits)
    expected = np.empty_like(p)
    for c in range(3):
        places = np.ceil(79 * np.arange(n_bins + 1) / n_bins).astype(int)  # 79 is prime
        edges = np.sort(p[nodes, c])[places]
        edges[0], edges[-1] = -np.inf, np.inf
        for low, high in itertools.pairwise(edges):
            members = (p[nodes, c] >= low) & (p[nodes, c] < high)
            inside = (p[:, c] >= low) & (p[:, c] < high)
            if members.any():
                expected[inside, c] = np.mean(labels[nodes][members] == c)
            else:
                expected[inside, c] = p[inside, c]
    total = expected.sum(axis=1, keepdims=True)
    expected = np.where(total > 0, expected / np.where(total > 0, total, 1), p)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-12)


def test_two_bins_of_four_nodes_by_hand():
    p = np.array([0.2, 0.4, 0.6, 0.8])
    logits = np.log(np.stack([1 - p, p], axis=1))
    labels = np.array([0, 1, 1, 1])
    probs = gnncal_lab.HistogramBinning(n_bins=2).fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(probs[:, 1], [0.5, 0.5, 1.0, 1.0])


def test_empty_bins_and_empty_rows_keep_the_models_probability():
    # Every node has the same p: all quantiles coincide and only the last bin is filled.
    logits = np.zeros((5, 2))
    calibrator = gnncal_lab.HistogramBinning(n_bins=4).fit(logits, np.array([0, 0, 0, 1, 1]))
    np.testing.assert_array_equal(np.isnan(calibrator.frequencies_), [[1, 1, 1, 0]] * 2)
    np.testing.assert_allclose(calibrator.predict_proba(logits), [[0.6, 0.4]] * 5)
    # Below the only filled bin of class 0 and above that of class 1.
    p = calibrator.predict_proba(np.array([[-1.0, 0.0]]))
    raw = gnncal.calibrators.softmax(np.array([[-1.0, 0.0]]))
    np.testing.assert_allclose(p, [np.array([raw[0, 0], 0.4]) / (raw[0, 0] + 0.4)])


def test_a_frequency_of_zero_stays_zero():
    logits, labels = draw(200, 3, 0)
    probs = gnncal_lab.HistogramBinning().fit(logits, labels).predict_proba(logits)
    assert (probs == 0).any()
    # A label of probability 0 costs 27.6 nats, the clip of the metric; nothing is smoothed.
    other, other_labels = draw(200, 3, 1)
    held_out = gnncal_lab.HistogramBinning().fit(logits, labels).predict_proba(other)
    missed = held_out[np.arange(200), other_labels] == 0
    assert missed.any()
    found = gnncal.metrics.METRICS["nll"](other_labels[missed], held_out[missed])
    assert found == pytest.approx(-np.log(1e-12))


def test_the_number_of_bins_must_be_positive():
    with pytest.raises(
        gnncal.InputError, match="n_bins is 0; expected a whole number of at least 1"
    ):
        gnncal_lab.HistogramBinning(n_bins=0).fit(np.eye(3), np.arange(3))
