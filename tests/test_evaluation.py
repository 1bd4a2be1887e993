"""All metrics in one record, and the paired comparison of two sets of probabilities."""

import json
import math

import numpy as np
import pytest

import gnncal
from gnncal import metrics
from gnncal.data.errors import InputError


def draw(n_nodes=300, sharpness=0.5):
    """Overconfident probabilities, the true ones, and labels that follow the latter."""
    generator = np.random.default_rng(0)
    weights = np.exp(2 * generator.normal(size=(n_nodes, 3)))
    probs = weights / weights.sum(axis=1, keepdims=True)
    true = weights**sharpness / (weights**sharpness).sum(axis=1, keepdims=True)
    labels = (generator.random((n_nodes, 1)) >= true.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return labels, probs, true


def test_evaluation_holds_the_metrics_of_the_library():
    labels, probs, _ = draw()
    degree = np.arange(300) % 7
    record = gnncal.evaluate(labels, probs, in_degree=degree, random_state=5)
    assert record.n_nodes == 300
    assert record.ece == metrics.estimate_calibration_error(labels, probs, random_state=5)
    assert record.ece.value == pytest.approx(metrics.expected_calibration_error(labels, probs))
    expected = {
        "accuracy": metrics.METRICS["accuracy"](labels, probs),
        "mce": metrics.METRICS["mce"](labels, probs),
        "classwise_ece": metrics.METRICS["classwise_ece"](labels, probs),
        "smooth_ece": metrics.METRICS["smooth_ece"](labels, probs),
        "degree_ece": metrics.METRICS["degree_ece"](labels, probs, degree),
        "nll": metrics.METRICS["nll"](labels, probs),
        "brier": metrics.METRICS["brier"](labels, probs),
        "aurc": metrics.METRICS["aurc"](labels, probs),
    }
    assert {name: getattr(record, name) for name in expected} == expected


def test_evaluation_by_hand():
    # Confidences 0.9 and 0.6 in bins of their own, the second node wrong.
    record = gnncal.evaluate([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    assert record.accuracy == 0.5
    assert record.ece.value == pytest.approx((0.1 + 0.6) / 2)
    assert record.mce == pytest.approx(0.6)
    assert record.nll == pytest.approx(-(math.log(0.9) + math.log(0.4)) / 2)
    assert record.brier == pytest.approx((2 * 0.01 + 2 * 0.36) / 2)
    assert record.aurc == pytest.approx((0 + 1 / 2) / 2)
    assert record.degree_ece is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("degree", [None, np.arange(300, dtype=np.int32)])
def test_evaluations_survive_json(dtype, degree):
    labels, probs, _ = draw()
    record = gnncal.evaluate(labels, probs.astype(dtype), in_degree=degree)
    as_dict = record.as_dict()
    assert json.loads(json.dumps(as_dict, allow_nan=False)) == as_dict
    assert as_dict["ece"]["value"] == record.ece.value


def test_the_same_random_state_gives_the_same_evaluation():
    labels, probs, _ = draw(80)
    first = gnncal.evaluate(labels, probs, random_state=1)
    assert first == gnncal.evaluate(labels, probs, random_state=1)
    assert first != gnncal.evaluate(labels, probs, random_state=2)


def test_paired_interval_by_hand():
    # Brier scores 2 (1 - p)^2 of the label's p: before 0.5, 0.5, 0.5; after 0.32, 0.18, 0.72.
    # Differences -0.18, -0.32, 0.22: mean -7/75, variance with n - 1 = 2
    # (0.0867^2 + 0.2267^2 + 0.3133^2) / 2 = 0.0785333, margin 1.96 sqrt(0.0785333 / 3) = 0.317113.
    before = np.full((3, 2), 0.5)
    after = np.array([[0.6, 0.4], [0.3, 0.7], [0.4, 0.6]])
    comparison = gnncal.compare([0, 1, 0], before, after)
    assert comparison.brier.mean == pytest.approx(-7 / 75)
    assert comparison.brier.low == pytest.approx(-7 / 75 - 0.317113, abs=1e-6)
    assert comparison.brier.high == pytest.approx(-7 / 75 + 0.317113, abs=1e-6)
    # ln(1/2) less ln p: means the log ratios of 0.6, 0.7, 0.4 to 1/2.
    assert comparison.nll.mean == pytest.approx(-math.log(0.6 * 0.7 * 0.4 / 0.125) / 3)
    # The tied rows of before predict class 0: nodes 1 and 2 change.
    assert comparison.prediction_change_rate == pytest.approx(2 / 3)


def test_the_mean_difference_is_the_difference_of_the_metrics():
    labels, probs, true = draw()
    comparison = gnncal.compare(labels, probs, true)
    before, after = gnncal.evaluate(labels, probs), gnncal.evaluate(labels, true)
    assert comparison.nll.mean == pytest.approx(after.nll - before.nll)
    assert comparison.brier.mean == pytest.approx(after.brier - before.brier)


def test_improvements_are_negative_and_swapping_sides_flips_the_sign():
    labels, probs, true = draw()
    better, worse = gnncal.compare(labels, probs, true), gnncal.compare(labels, true, probs)
    assert better.nll.high < 0 < worse.nll.low
    assert better.brier.high < 0 < worse.brier.low
    assert better.nll.low == pytest.approx(-worse.nll.high)
    assert better.prediction_change_rate == 0.0  # a temperature lies between the two


def test_nothing_changes_without_a_change():
    labels, probs, _ = draw()
    comparison = gnncal.compare(labels, probs, probs)
    assert comparison.nll == comparison.brier
    assert (comparison.nll.mean, comparison.nll.low, comparison.nll.high) == (0.0, 0.0, 0.0)
    assert comparison.prediction_change_rate == 0.0


def test_paired_intervals_cover_the_true_difference():
    # Labels of two classes with chance 0.7: forecast 0.8 costs 2 (0.8 - 0.7)^2 = 0.02 Brier more.
    generator = np.random.default_rng(0)
    before, after = np.tile([0.7, 0.3], (100, 1)), np.tile([0.8, 0.2], (100, 1))
    covered = []
    for _ in range(300):
        labels = (generator.random(100) >= 0.7).astype(int)
        difference = gnncal.compare(labels, before, after).brier
        covered.append(difference.low <= 0.02 <= difference.high)
    assert np.mean(covered) > 0.91  # 95% less three standard errors


def test_one_node_says_nothing_about_the_difference():
    difference = gnncal.compare([0], [[0.5, 0.5]], [[0.6, 0.4]]).nll
    assert difference.mean == pytest.approx(-math.log(0.6 / 0.5))
    assert (difference.low, difference.high) == (-math.inf, math.inf)


def test_unusable_input_is_named():
    labels, probs, _ = draw(4)
    with pytest.raises(InputError, match="sum to one"):
        gnncal.evaluate(labels, 2 * probs)
    with pytest.raises(InputError, match="degree"):
        gnncal.evaluate(labels, probs, in_degree=[1, 2])
    with pytest.raises(InputError, match="negative"):
        gnncal.compare(labels, np.log(probs), probs)
    with pytest.raises(InputError, match="labels has shape"):
        gnncal.compare(labels, probs, probs[:3])
    with pytest.raises(InputError, match="same columns"):
        gnncal.compare(labels, probs, np.hstack([probs, np.zeros((4, 1))]))


@pytest.mark.parametrize(
    "in_degree",
    [[1.0, np.nan, 2.0, 3.0], [1, -1, 2, 3], [1.0, np.inf, 2.0, 3.0], list("abcd"), [True] * 4],
)
def test_degrees_that_are_no_numbers_of_edges_are_refused(in_degree):
    probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    with pytest.raises(InputError, match=r"in_degree is .* expected the number of edges"):
        gnncal.evaluate([0, 1, 1, 1], probs, in_degree=in_degree)
