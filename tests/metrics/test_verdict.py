"""The verdict follows from the two intervals it names."""

import re

import numpy as np
import pytest

import gnncal
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
    assert (found.grade, found.label) == ("warn", "Calibration not shown yet")


N_FIT = 20  # calibration nodes, which the raw model does not need


def judged_model(n, error, seed, stated=None, **more):
    """The result on a model whose confidence is too high by ``error``."""
    generator = np.random.default_rng([n, seed])
    p = generator.uniform(0.7, 1.0, N_FIT + n) if stated is None else np.full(N_FIT + n, stated)
    labels = (generator.random(p.size) >= p - error).astype(int)
    return judged(p, labels, n, **more)


def judged(p, labels, n, **more):
    splits = {"calibration_nodes": range(N_FIT), "test_nodes": range(N_FIT, N_FIT + n)}
    logits = np.log(np.column_stack([p, 1.0 - p]))
    return gnncal.calibrate(logits, labels, **splits, method="uncalibrated", **more)


@pytest.mark.slow
def test_an_error_of_five_points_is_seldom_called_calibrated_on_300_test_nodes():
    good = [judged_model(300, 0.05, seed).verdict.grade == "good" for seed in range(30)]
    assert np.mean(good) <= 0.25  # the default tolerance is 6 points here


@pytest.mark.slow
def test_calibrated_confidence_is_mostly_called_so_on_1000_test_nodes():
    good = [judged_model(1000, 0.0, seed).verdict.grade == "good" for seed in range(20)]
    assert np.mean(good) >= 0.75


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("error", [0.0, 0.05])
def test_a_good_verdict_means_that_the_interval_ends_below_six_points(n, error):
    for seed in range(10):
        found = judged_model(n, error, seed)
        assert found.verdict.grade != "good" or found.after.ece.high < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("stated", [None, 0.8, 0.99])
def test_so_many_test_nodes_as_the_verdict_names_show_calibration_in_most_draws(stated):
    first = (judged_model(60, 0.0, seed, stated).verdict for seed in range(16))
    needed = [each.n_needed for each in first if each.n_needed is not None]
    assert len(needed) > 3
    good = [judged_model(n, 0.0, s, stated).verdict.grade == "good" for s, n in enumerate(needed)]
    assert np.mean(good) > 0.6


def test_the_tolerance_decides_and_is_stated():
    for tolerance, grade in ((0.4, "good"), (0.001, "warn")):
        found = judged_model(300, 0.0, 0, tolerance=tolerance).verdict
        assert (found.grade, found.n_needed is None) == (grade, grade == "good")
        assert f"tolerance {100 * tolerance:g}%" in found.text
    seen = judged_model(3000, 0.05, 0)
    assert seen.verdict.label == "The model is not calibrated"
    assert judged_model(3000, 0.05, 0, tolerance=0.08).verdict.grade == "good"


@pytest.mark.parametrize("tolerance", [0, 1, -0.1, float("nan"), "3%", True])
def test_a_tolerance_that_is_no_share_is_refused(tolerance):
    with pytest.raises(gnncal.InputError, match=r"tolerance is .*; expected a number in"):
        judged_model(30, 0.0, 0, tolerance=tolerance)


@pytest.mark.parametrize("n", [1, 20])
def test_a_few_right_predictions_do_not_show_that_all_are(n):
    p = np.full(N_FIT + n, 0.999)
    found = judged(p, np.zeros(p.size, dtype=int), n)
    assert found.verdict.label == "Calibration not shown yet"
    assert found.after.ece.high > 0.1


def test_a_class_that_no_test_node_has_is_never_shown():
    n = 400
    p = np.full(N_FIT + n, 0.999)
    labels = np.zeros(p.size, dtype=int)
    labels[0] = 1  # of a calibration node
    found = judged(p, labels, n, positive=1).verdict
    assert (found.grade, found.label) == ("warn", "Calibration not shown yet")
    assert "The interval of P(class 1) exceeds its tolerance." in found.text
    assert found.n_needed > 1000


@pytest.mark.slow
def test_p_of_a_rare_class_that_is_half_as_large_as_its_rate_is_never_called_good():
    for seed in range(15):
        generator = np.random.default_rng(seed)
        p = np.full(N_FIT + 600, 0.99)
        labels = (generator.random(p.size) < 0.02).astype(int)
        assert judged(p, labels, 600, positive=1).verdict.grade != "good"


def test_one_test_node_has_no_interval_of_the_difference():
    found = judged_model(1, 0.0, 0)
    assert "inf" not in repr(found)
    task = gnncal.example()
    splits = task.splits | {"test_nodes": task.test_nodes[:1]}
    arrays = task.logits, task.labels, task.graph
    shown = repr(gnncal.calibrate(*arrays, **splits, method="ts"))
    assert "(no interval: only one node)" in " ".join(shown.split())
    assert "inf" not in shown
    page = gnncal.report(*arrays, **splits, methods="ts").html
    assert not re.search(r"[+-]inf\b", page)
