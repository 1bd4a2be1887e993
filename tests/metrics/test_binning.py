"""Where a confidence belongs, and what a bin says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics
from gnncal.data.errors import InputError
from gnncal.metrics.binning import bin_edges, bin_index

from .outcomes import law, outcomes, top_label


def test_reliability_bins_by_hand():
    labels, probs = top_label([0.55, 0.65, 0.9, 1.0], [1, 0, 0, 1])
    bins = metrics.reliability_bins(labels, probs, n_bins=4)
    np.testing.assert_array_equal(bins.lower, [0.0, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(bins.upper, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(bins.count, [0, 0, 2, 2])
    np.testing.assert_allclose(bins.confidence, [np.nan, np.nan, 0.6, 0.95])
    np.testing.assert_allclose(bins.accuracy, [np.nan, np.nan, 0.5, 0.5])
    np.testing.assert_allclose(bins.gap, [np.nan, np.nan, 0.1, 0.45])


def test_a_confidence_on_an_edge_belongs_to_the_bin_below():
    values = np.array([0.0, 0.25, np.nextafter(0.25, 1.0), 0.5, 0.75, 1.0])
    edges = bin_edges(values, 4, "uniform")
    np.testing.assert_array_equal(bin_index(values, edges), [0, 0, 1, 1, 2, 3])


def test_confidence_of_exactly_one_lies_in_the_last_bin():
    # Bin (0.9, 1]: confidence (1 + 0.95) / 2 = 0.975, accuracy 1/2. Torchmetrics 1.9 gives the 1.0
    # an eleventh bin and reports 1/2 * 1 + 1/2 * 0.05 = 0.525.
    labels, probs = top_label([1.0, 0.95], [0, 1])
    assert metrics.reliability_bins(labels, probs, n_bins=10).count[-1] == 2
    assert metrics.expected_calibration_error(labels, probs, n_bins=10) == pytest.approx(0.475)


@pytest.mark.parametrize("n_bins", [1, 3, 11, 15, 23])
@pytest.mark.parametrize("size", [1, 7, 13])
def test_quantile_bins_hold_equally_many_distinct_values(n_bins, size):
    # 11 * 7 is a case in which n * (k / n_bins) rounds up to the next value.
    values = np.random.default_rng(0).random(n_bins * size)
    cell = bin_index(values, bin_edges(values, n_bins, "quantile"))
    np.testing.assert_array_equal(np.bincount(cell), np.full(n_bins, size))


def test_tied_values_share_a_quantile_bin():
    # Of 4 values the 1st, 2nd and 3rd smallest end the first three of 4 bins: 0.6 each time.
    values = np.array([0.6, 0.6, 0.6, 0.9])
    np.testing.assert_array_equal(bin_edges(values, 4, "quantile"), [0.0, 0.6, 1.0])
    np.testing.assert_array_equal(bin_index(values, np.array([0.0, 0.6, 1.0])), [0, 0, 0, 1])


@law
@given(outcomes(), st.integers(1, 20), st.sampled_from(["uniform", "quantile"]))
def test_every_node_lies_within_its_bin(case, n_bins, strategy):
    labels, probs = case
    bins = metrics.reliability_bins(labels, probs, n_bins=n_bins, strategy=strategy)
    assert bins.count.sum() == len(labels)
    assert len(bins.count) <= n_bins
    full = bins.count > 0
    assert (bins.lower[full] - 1e-12 <= bins.confidence[full]).all()
    assert (bins.confidence[full] <= bins.upper[full] + 1e-12).all()
    assert np.isnan(bins.gap[~full]).all()


def test_float32_and_torch_probabilities_give_the_bins_of_their_numbers():
    torch = pytest.importorskip("torch")
    labels, probs = top_label([0.55, 0.65, 0.9], [1, 0, 0])
    single = torch.tensor(probs, dtype=torch.float32, requires_grad=True)
    expected = metrics.reliability_bins(labels, single.detach().numpy().astype(np.float64))
    bins = metrics.reliability_bins(torch.tensor(labels), single)
    np.testing.assert_array_equal(bins.confidence, expected.confidence)
    np.testing.assert_array_equal(bins.count, expected.count)


def test_inputs_are_not_changed():
    labels, probs = top_label([0.55, 0.65, 0.9], [1, 0, 0])
    labels_before, probs_before = labels.copy(), probs.copy()
    metrics.reliability_bins(labels, probs, strategy="quantile")
    metrics.METRICS["brier"](labels, probs)
    metrics.estimate_calibration_error(labels, probs, n_resamples=5)
    np.testing.assert_array_equal(labels, labels_before)
    np.testing.assert_array_equal(probs, probs_before)


METRICS_OF_LABELS_AND_PROBS = [
    metrics.METRICS["accuracy"],
    metrics.METRICS["aurc"],
    metrics.METRICS["brier"],
    metrics.METRICS["classwise_ece"],
    metrics.estimate_calibration_error,
    metrics.expected_calibration_error,
    metrics.METRICS["mce"],
    metrics.METRICS["nll"],
    metrics.reliability_bins,
    metrics.risk_coverage_curve,
    metrics.METRICS["smooth_ece"],
    lambda labels, probs: metrics.calibration_by_group(labels, probs, [0, 1]),
    lambda labels, probs: metrics.METRICS["degree_ece"](labels, probs, [0, 1]),
]
FINE = [[0.7, 0.3], [0.4, 0.6]]


@pytest.mark.parametrize("metric", METRICS_OF_LABELS_AND_PROBS)
@pytest.mark.parametrize(
    ("labels", "probs", "message"),
    [
        ([0, 1], [[1.2, -0.2], [0.5, 0.5]], "negative"),
        ([0, 1], [[0.7, 0.4], [0.5, 0.5]], "sum to one"),
        ([0, 1], [[np.nan, 0.4], [0.5, 0.5]], "NaN"),
        ([0, 1], [[np.inf, 0.0], [0.5, 0.5]], "infinity"),
        ([0, 0], [[1.0], [1.0]], "has 1 feature"),
        ([0, 1], [0.7, 0.3], "two dimensions"),
        ([], np.zeros((0, 2)), "no rows"),
        ([0, 2], FINE, "outside 0..1"),
        ([0, -1], FINE, "outside 0..1"),
        ([0, 1, 1], FINE, "labels has shape"),
        ([[0, 1], [1, 0]], FINE, "shape"),
        ([0.0, 0.5], FINE, "fractions"),
        ([0.0, np.nan], FINE, "NaN"),
        (["a", "b"], FINE, "dtype"),
        (None, FINE, "None"),
    ],
)
def test_unusable_labels_or_probabilities_are_named(metric, labels, probs, message):
    with pytest.raises(InputError, match=message):
        metric(labels, probs)


@pytest.mark.parametrize(
    "metric",
    [
        metrics.estimate_calibration_error,
        metrics.expected_calibration_error,
        metrics.reliability_bins,
    ],
)
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_bins": 0}, "n_bins is 0"),
        ({"n_bins": -3}, "n_bins is -3"),
        ({"n_bins": 2.5}, "n_bins is 2.5; expected a whole number"),
        ({"strategy": "equal"}, "strategy is 'equal'"),
    ],
)
def test_unusable_bins_are_named(metric, setting, message):
    with pytest.raises(InputError, match=message):
        metric([0, 1], FINE, **setting)


def test_an_unknown_norm_is_named():
    with pytest.raises(InputError, match="norm is 'l3'"):
        metrics.expected_calibration_error([0, 1], FINE, norm="l3")
