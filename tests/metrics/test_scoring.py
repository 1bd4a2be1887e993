"""Proper scores and predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics

from .outcomes import law, outcomes

PROBS = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.25, 0.25, 0.5]])


def test_nll_by_hand():
    # -(ln 0.7 + ln 0.2 + ln 0.5) / 3 = (0.356675 + 1.609438 + 0.693147) / 3
    expected = pytest.approx(0.886420, abs=1e-6)
    assert metrics.METRICS["nll"]([0, 1, 2], PROBS) == expected


def test_a_certain_mistake_costs_twelve_decades():
    # p is clipped at 1e-12: -ln p = 12 ln 10 = 27.631021; the certain hit beside it costs nothing.
    loss = metrics.METRICS["nll"]([0, 0], [[0.0, 1.0], [1.0, 0.0]])
    assert loss == pytest.approx(6 * np.log(10))


def test_brier_score_by_hand():
    # Label 0: 0.09 + 0.04 + 0.01 = 0.14; label 1: 0.49 + 0.64 + 0.01 = 1.14;
    # label 2: 0.0625 + 0.0625 + 0.25 = 0.375.
    assert metrics.METRICS["brier"]([0, 1, 2], PROBS) == pytest.approx((0.14 + 1.14 + 0.375) / 3)


def test_the_worst_brier_score_is_two():
    assert metrics.METRICS["brier"]([0], [[0.0, 1.0]]) == 2.0


def test_accuracy_by_hand_gives_ties_to_the_first_class():
    assert metrics.METRICS["accuracy"]([0, 1, 2], PROBS) == pytest.approx(2 / 3)
    assert metrics.METRICS["accuracy"]([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5


@law
@given(outcomes(), st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_nodes(case, random):
    labels, probs = case
    order = random.sample(range(len(labels)), len(labels))
    for score in (metrics.METRICS["nll"], metrics.METRICS["brier"], metrics.METRICS["accuracy"]):
        assert score(labels[order], probs[order]) == pytest.approx(score(labels, probs))


@law
@given(outcomes())
def test_scores_lie_in_their_ranges_and_the_labels_themselves_score_best(case):
    labels, probs = case
    assert metrics.METRICS["nll"](labels, probs) >= 0.0
    assert 0.0 <= metrics.METRICS["brier"](labels, probs) <= 2.0
    perfect = np.eye(probs.shape[1])[labels]
    assert metrics.METRICS["nll"](labels, perfect) == 0.0
    assert metrics.METRICS["brier"](labels, perfect) == 0.0
    assert metrics.METRICS["accuracy"](labels, perfect) == 1.0


@pytest.mark.parametrize("score", [metrics.METRICS["nll"], metrics.METRICS["brier"]])
def test_no_forecast_beats_the_distribution_of_the_labels(score):
    # Labels in the very proportions of p: every other constant forecast scores worse.
    labels = np.repeat([0, 1, 2], [5, 3, 2])
    best = score(labels, np.tile([0.5, 0.3, 0.2], (10, 1)))
    for forecast in ([0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.5, 0.2, 0.3], [0.34, 0.33, 0.33]):
        assert score(labels, np.tile(forecast, (10, 1))) > best
