"""Proper scores and predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics
from gnncal.core.errors import InputError

from .outcomes import law, outcomes, simulate

PROBS = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.25, 0.25, 0.5]])


def test_nll_by_hand():
    # -(ln 0.7 + ln 0.2 + ln 0.5) / 3 = (0.356675 + 1.609438 + 0.693147) / 3
    expected = pytest.approx(0.886420, abs=1e-6)
    assert metrics.negative_log_likelihood([0, 1, 2], PROBS) == expected


def test_a_certain_mistake_costs_twelve_decades():
    # p is clipped at 1e-12: -ln p = 12 ln 10 = 27.631021; the certain hit beside it costs nothing.
    loss = metrics.negative_log_likelihood([0, 0], [[0.0, 1.0], [1.0, 0.0]])
    assert loss == pytest.approx(6 * np.log(10))


def test_brier_score_by_hand():
    # Label 0: 0.09 + 0.04 + 0.01 = 0.14; label 1: 0.49 + 0.64 + 0.01 = 1.14;
    # label 2: 0.0625 + 0.0625 + 0.25 = 0.375.
    assert metrics.brier_score([0, 1, 2], PROBS) == pytest.approx((0.14 + 1.14 + 0.375) / 3)


def test_the_worst_brier_score_is_two():
    assert metrics.brier_score([0], [[0.0, 1.0]]) == 2.0


def test_accuracy_by_hand_gives_ties_to_the_first_class():
    assert metrics.accuracy([0, 1, 2], PROBS) == pytest.approx(2 / 3)
    assert metrics.accuracy([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5


def test_prediction_change_rate_by_hand():
    before = [[2.0, 1.0], [0.0, 1.0], [3.0, -1.0], [0.0, 0.5]]
    after = [[0.6, 0.4], [0.7, 0.3], [0.9, 0.1], [0.2, 0.8]]  # only the second node changes
    assert metrics.prediction_change_rate(before, after) == 0.25


def test_scores_agree_with_scikit_learn():
    oracle = pytest.importorskip("sklearn.metrics")
    labels, probs = simulate(300, sharpness=0.7)
    expected = oracle.log_loss(labels, probs, labels=np.arange(4))
    assert metrics.negative_log_likelihood(labels, probs) == pytest.approx(expected)
    labels, probs = simulate(300, n_classes=2)
    # Both classes miss by the same amount, so the sum over classes is twice the binary score.
    expected = 2 * oracle.brier_score_loss(labels, probs[:, 1])
    assert metrics.brier_score(labels, probs) == pytest.approx(expected)


@law
@given(outcomes(), st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_nodes(case, random):
    labels, probs = case
    order = random.sample(range(len(labels)), len(labels))
    for score in (metrics.negative_log_likelihood, metrics.brier_score, metrics.accuracy):
        assert score(labels[order], probs[order]) == pytest.approx(score(labels, probs))


@law
@given(outcomes())
def test_scores_lie_in_their_ranges_and_the_labels_themselves_score_best(case):
    labels, probs = case
    assert metrics.negative_log_likelihood(labels, probs) >= 0.0
    assert 0.0 <= metrics.brier_score(labels, probs) <= 2.0
    perfect = np.eye(probs.shape[1])[labels]
    assert metrics.negative_log_likelihood(labels, perfect) == 0.0
    assert metrics.brier_score(labels, perfect) == 0.0
    assert metrics.accuracy(labels, perfect) == 1.0


@pytest.mark.parametrize("score", [metrics.negative_log_likelihood, metrics.brier_score])
def test_no_forecast_beats_the_distribution_of_the_labels(score):
    # Labels in the very proportions of p: every other constant forecast scores worse.
    labels = np.repeat([0, 1, 2], [5, 3, 2])
    best = score(labels, np.tile([0.5, 0.3, 0.2], (10, 1)))
    for forecast in ([0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.5, 0.2, 0.3], [0.34, 0.33, 0.33]):
        assert score(labels, np.tile(forecast, (10, 1))) > best


@law
@given(outcomes(), st.floats(0.1, 10))
def test_temperature_changes_no_prediction(case, temperature):
    logits = np.log(case[1])
    assert metrics.prediction_change_rate(logits, logits / temperature) == 0.0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), "before has shape"),
        (np.ones((2, 3)), np.ones((3, 3)), "before has shape"),
        (np.ones((0, 3)), np.ones((0, 3)), "at least one"),
        (np.ones(3), np.ones(3), "before has shape"),
        (np.ones((2, 1)), np.ones((2, 1)), "before has one column"),
        (np.ones((1, 2)), [[np.nan, 1.0]], "after contains NaN"),
    ],
)
def test_predictions_that_cannot_be_compared_are_named(before, after, message):
    with pytest.raises(InputError, match=message):
        metrics.prediction_change_rate(before, after)
