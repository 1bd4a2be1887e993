"""One class in view: is its probability honest?"""

import numpy as np
import pytest
from hypothesis import given

import gnncal
from gnncal import metrics
from gnncal.metrics import Outcomes
from gnncal.metrics.binning import error_of, positive_bins_of
from gnncal.metrics.floor import floor_of_bins
from gnncal_lab.bench.measure import measures_of

from .outcomes import draw_labels, law, outcomes


def rare(n_nodes=3000, *, seed=0):
    """P(class 1) of a model that gives it three nats too much, and labels."""
    generator = np.random.default_rng(seed)
    score = 2.0 * generator.normal(size=n_nodes) - 4.0
    honest, weighted = (two_columns(1 / (1 + np.exp(-z))) for z in (score, score + 3))
    return draw_labels(honest, generator), honest, weighted


def two_columns(p):
    return np.column_stack([1 - np.asarray(p), p])


def test_bins_have_equally_many_nodes_and_the_error_is_that_of_two_bins_by_hand():
    labels, probs = [0, 0, 0, 1], two_columns([0.01, 0.03, 0.3, 0.5])
    bins = positive_bins_of(Outcomes(labels, probs, positive=1), n_bins=2)
    np.testing.assert_allclose(bins.confidence, [0.02, 0.4])
    np.testing.assert_allclose(bins.accuracy, [0.0, 0.5])
    assert error_of(bins) == pytest.approx((0.02 + 0.1) / 2)


def test_an_honest_probability_shows_its_noise_floor_and_a_weighted_one_far_more():
    labels, honest, weighted = rare()
    fair, skewed = (
        measures_of(Outcomes(labels, probs, positive=1)) for probs in (honest, weighted)
    )
    near = 4 * fair["positive_ece_floor_spread"]
    assert abs(fair["positive_ece"] - fair["positive_ece_floor"]) < near
    assert skewed["positive_ece"] > 10 * skewed["positive_ece_floor"]
    assert skewed["positive_mean"] > 4 * skewed["positive_rate"]


def test_the_floor_is_exact_against_every_outcome_of_few_nodes():
    p = np.array([0.1, 0.2, 0.2, 0.6])
    probs, total = two_columns(p), 0.0
    for code in range(16):
        labels = np.array([code >> i & 1 for i in range(4)])
        chance = np.prod(np.where(labels == 1, p, 1 - p))
        error = error_of(positive_bins_of(Outcomes(labels, probs, positive=1), n_bins=2))
        total += chance * error
    assert floor_of_bins(p, 2, "quantile").mean == pytest.approx(total)


def test_the_brier_score_of_one_of_two_classes_is_half_of_both():
    labels, _, probs = rare(200)
    both = metrics.METRICS["brier"](labels, probs)
    assert metrics.METRICS["positive_brier"](labels, probs, positive=1) == pytest.approx(both / 2)


@law
@given(outcomes())
def test_the_rate_is_where_the_mean_of_labels_is_and_nothing_leaves_its_range(drawn):
    labels, probs = drawn
    found = measures_of(Outcomes(labels, probs, positive=1))
    assert found["positive_rate"] == pytest.approx((labels == 1).mean())
    assert found["positive_mean"] == pytest.approx(probs[:, 1].mean())
    for name, value in found.items():
        if name.startswith(("positive", "average", "precision", "recall")):
            assert -1e-12 <= value <= 1 + 1e-12, name


@law
@given(outcomes())
def test_the_order_of_the_nodes_changes_nothing_ties_or_not(drawn):
    labels, probs = drawn
    order = np.random.default_rng(len(labels)).permutation(len(labels))
    first, second = (
        Outcomes(labels[kept], probs[kept], positive=0) for kept in (slice(None), order)
    )
    for name, metric in metrics.METRICS.items():
        if metric.needs_positive or name.startswith("error"):
            a, b = metric.of(first), metric.of(second)
            assert (a is None) == (b is None), name
            assert a is None or a == pytest.approx(b, abs=1e-12), name


# --- evaluate and compare


def test_an_evaluation_shows_the_class_by_name_and_keeps_all_else():
    labels, _, probs = rare(500)
    names = ["fine", "fraud"]
    plain = gnncal.evaluate(labels, probs)
    found = gnncal.evaluate(labels, probs, positive="fraud", class_names=names)
    assert plain.values == {name: found.values[name] for name in plain.values}
    assert found.as_dict()["positive"] == {"class": 1, "name": "fraud"}
    assert found.positive == 1
    shown = str(found)
    assert f"\nfraud: {labels.sum()} of 500 test nodes\nmean P %" in shown
    assert shown.startswith(str(plain).rpartition("\n")[0])
    unnamed = gnncal.evaluate(labels, probs, positive=np.int64(1))
    assert "\nclass 1: " in str(unnamed)
    assert unnamed.as_dict()["positive"] == {"class": 1, "name": None}


def test_the_frame_of_an_evaluation_has_the_metrics_of_the_class():
    pytest.importorskip("pandas")
    labels, _, probs = rare(500)
    found = gnncal.evaluate(labels, probs, positive=1)
    frame = found.to_frame()
    assert frame.loc["positive_ece", "value"] == found.positive_ece
    assert frame.loc["positive_ece_floor", "value"] == found.floors["positive_ece"]
    assert "positive" not in frame.index  # the heading is no number


def test_long_names_keep_the_table_within_80_columns():
    labels, honest, probs = rare(200)
    names = ["fine", "a name that is far too long for the first column of any table " * 2]
    found = gnncal.evaluate(labels, probs, positive=1, class_names=names)
    compared = gnncal.compare(labels, probs, honest, positive=1, class_names=names)
    assert max(map(len, f"{found}\n{compared}".splitlines())) <= 80


def test_a_comparison_has_the_brier_score_of_the_class_too():
    labels, honest, probs = rare(500)
    found = gnncal.compare(labels, probs, honest, positive="fraud", class_names=["fine", "fraud"])
    before, after = (
        metrics.METRICS["positive_brier"](labels, p, positive=1) for p in (probs, honest)
    )
    assert found.positive_brier.mean == pytest.approx(after - before)
    assert found.positive_brier.high < 0
    assert "fraud: Brier score of P" in str(found)
    assert "positive_brier" not in gnncal.compare(labels, probs, honest).differences


def test_a_class_without_nodes_has_no_recall_and_that_is_no_error():
    probs = two_columns([0.1, 0.2, 0.3])
    found = gnncal.evaluate([0, 0, 0], probs, positive=1)
    for name in ("positive_auroc", "average_precision", "recall_among_top", "recall_at_precision"):
        assert found.values[name] is None
    assert found.precision_among_top == 0.0
    assert found.positive_rate == 0.0
    assert "average precision %                    -" in str(found)
