"""The verdict follows from the two intervals it names."""

import numpy as np
import pytest

from gnncal.metrics.evaluation import compare, evaluate
from gnncal.metrics.verdict import judge_method


def outcomes(stated, true, n=4000, seed=0):
    """Labels right with probability ``true``, and two-class probabilities that say ``stated``."""
    labels = (np.random.default_rng(seed).random(n) > true).astype(int)
    return labels, np.tile([stated, 1 - stated], (n, 1))


def verdict(stated_before, stated_after, true):
    labels, before = outcomes(stated_before, true)
    _, after = outcomes(stated_after, true)
    sides = evaluate(labels, before), evaluate(labels, after)
    return judge_method("ts", *sides, compare(labels, before, after))


@pytest.mark.parametrize(
    ("before", "after", "true", "grade", "label"),
    [
        (0.95, 0.7, 0.7, "good", "You can act on this confidence"),
        (0.95, 0.8, 0.7, "warn", "Better, not perfect"),
        (0.7, 0.95, 0.7, "bad", "Worse than before"),
        (0.7, 0.7, 0.7, "good", "Calibrated, but not clearly better than before"),
        (0.9, 0.9, 0.7, "bad", "Not trustworthy yet"),
    ],
)
def test_verdicts_by_example(before, after, true, grade, label):
    found = verdict(before, after, true)
    assert (found.grade, found.label) == (grade, label)
    assert "No prediction changed." in found.text


def test_the_model_itself_is_judged_alone():
    labels, probs = outcomes(0.95, 0.7)
    before = evaluate(labels, probs)
    found = judge_method("uncalibrated", before, before, compare(labels, probs, probs))
    assert (found.grade, found.label) == ("bad", "The model is not calibrated")


PRICE = "Keeping predictions costs 0.20 nats here. Use structural-free."


@pytest.mark.parametrize("name", ["structural", "uncalibrated"])
def test_where_keeping_predictions_favours_a_class_the_verdict_is_not_to_use_it(name):
    labels, probs = outcomes(0.7, 0.7)  # an honest confidence is no excuse
    side, gain = evaluate(labels, probs), compare(labels, probs, probs)
    found = judge_method(name, side, side, gain, price=PRICE, favours_a_class=True)
    assert (found.grade, found.label) == ("bad", "Do not use these probabilities")
    assert found.sentence.startswith(f"Do not use these probabilities. {PRICE} ")


@pytest.mark.parametrize(
    ("stated", "label"),
    [
        (0.7, "You can act on this confidence"),  # honest: the price is only said
        (0.8, "Do not use these probabilities"),  # would be "Better, not perfect"
    ],
)
def test_a_price_without_a_favoured_class_spoils_the_verdict_only_of_a_dishonest_method(
    stated, label
):
    labels, before = outcomes(0.95, 0.7)
    _, after = outcomes(stated, 0.7)
    sides = evaluate(labels, before), evaluate(labels, after)
    found = judge_method("structural", *sides, compare(labels, before, after), price=PRICE)
    assert found.label == label
    assert PRICE in found.text


def test_changed_predictions_are_said():
    labels, before = outcomes(0.95, 0.7)
    after = before.copy()
    after[:400] = after[:400, ::-1]
    sides = evaluate(labels, before), evaluate(labels, after)
    found = judge_method("vs", *sides, compare(labels, before, after))
    assert "It changed 10.0% of the predictions" in found.text


@pytest.mark.parametrize("name", ["ts", "uncalibrated"])
def test_few_test_nodes_show_no_honesty(name):
    labels, probs = outcomes(0.7, 0.7, n=20)
    side = evaluate(labels, probs)
    found = judge_method(name, side, side, compare(labels, probs, probs))
    assert (found.grade, found.label) == ("warn", "Too few test nodes to tell")
