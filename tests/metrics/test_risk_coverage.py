"""Selective classification, ties included."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics
from gnncal.metrics.ranking import Ranking
from gnncal_lab.bench.measure import selective_accuracy_of

from .outcomes import law, outcomes, simulate, top_label

# By falling confidence: hit, mistake, hit, mistake.
FOUR = top_label([0.7, 0.9, 0.6, 0.8], [1, 1, 0, 0])


def test_risk_coverage_curve_and_its_area_by_hand():
    curve = metrics.risk_coverage_curve(*FOUR)
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(curve.risk, [0, 1 / 2, 1 / 3, 1 / 2])
    assert metrics.METRICS["aurc"](*FOUR) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)


def test_selective_accuracy_by_hand_rounds_the_number_of_nodes_up():
    # 0.3 * 4 = 1.2 nodes are 2: one hit, one mistake.
    kept = selective_accuracy_of(metrics.Outcomes(*FOUR), [0.25, 0.3, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(kept, [1, 1 / 2, 1 / 2, 2 / 3, 1 / 2])


def test_selective_accuracy_of_whole_numbers_of_nodes_is_not_rounded_up():
    # 0.07 * 100 is 7.000000000000001 in floating point: the 7 hits, not the mistake after them.
    labels, probs = top_label(np.linspace(0.99, 0.51, 100), np.arange(100) < 7)
    np.testing.assert_allclose(
        selective_accuracy_of(metrics.Outcomes(labels, probs), [0.07]), [1.0]
    )


def test_the_smallest_coverage_keeps_one_node():
    np.testing.assert_allclose(selective_accuracy_of(metrics.Outcomes(*FOUR), [1e-12]), [1.0])


def test_tied_nodes_are_averaged_over_their_orders():
    confidence = np.array([0.9, 0.7, 0.7, 0.7, 0.6, 0.6])
    correct = np.array([1, 0, 1, 1, 0, 1])
    risks = []
    for order in permutations(range(6)):
        if (np.diff(confidence[list(order)]) <= 0).all():  # 3! * 2! orders fall in confidence
            risks.append(np.cumsum(1 - correct[list(order)]) / np.arange(1, 7))
    assert len(risks) == 12
    curve = metrics.risk_coverage_curve(*top_label(confidence, correct))
    np.testing.assert_allclose(curve.risk, np.mean(risks, axis=0))


def test_equal_confidence_makes_a_flat_curve():
    curve = metrics.risk_coverage_curve(*top_label([0.8] * 5, [1, 0, 0, 1, 1]))
    np.testing.assert_allclose(curve.risk, 2 / 5)


def test_hits_before_mistakes_give_the_smallest_area():
    # Risks 0, 0, 0, 1/4, 2/5.
    confidence = np.array([0.95, 0.9, 0.8, 0.7, 0.6])
    best = metrics.METRICS["aurc"](*top_label(confidence, [1, 1, 1, 0, 0]))
    worst = metrics.METRICS["aurc"](*top_label(confidence, [0, 0, 1, 1, 1]))
    areas = [
        metrics.METRICS["aurc"](*top_label(confidence, hits))
        for hits in permutations([1, 1, 1, 0, 0])
    ]
    assert best == pytest.approx((1 / 4 + 2 / 5) / 5)
    assert best == pytest.approx(min(areas))
    assert worst == pytest.approx(max(areas))


@law
@given(outcomes(), st.randoms(use_true_random=False))
def test_curves_do_not_depend_on_the_order_of_nodes(case, random):
    labels, probs = case
    order = random.sample(range(len(labels)), len(labels))
    curve = metrics.risk_coverage_curve(labels, probs)
    moved = metrics.risk_coverage_curve(labels[order], probs[order])
    np.testing.assert_allclose(moved.risk, curve.risk)


@law
@given(outcomes())
def test_full_coverage_has_the_risk_of_all_nodes(case):
    curve = metrics.risk_coverage_curve(*case)
    assert curve.coverage[-1] == 1.0
    assert curve.risk[-1] == pytest.approx(1.0 - metrics.METRICS["accuracy"](*case))
    assert ((curve.risk >= 0.0) & (curve.risk <= 1.0)).all()
    assert 0.0 <= metrics.METRICS["aurc"](*case) <= 1.0
    kept = selective_accuracy_of(metrics.Outcomes(*case), curve.coverage)
    np.testing.assert_allclose(kept, 1.0 - curve.risk)


def test_a_monotone_change_of_confidence_changes_no_curve():
    labels, probs = simulate(200, n_classes=2)
    sharper = probs**2 / (probs**2).sum(axis=1, keepdims=True)
    assert metrics.METRICS["aurc"](labels, sharper) == pytest.approx(
        metrics.METRICS["aurc"](labels, probs)
    )


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 1.0]), st.booleans()), min_size=1))
def test_a_ranking_counts_nodes_and_hits_of_each_score(nodes):
    score, hit = np.array(nodes, dtype=np.float64).T
    ranking = Ranking.of(score, hit)
    values = np.unique(score)[::-1]
    np.testing.assert_array_equal(ranking.size, [(score == value).sum() for value in values])
    np.testing.assert_array_equal(ranking.hits, [hit[score == value].sum() for value in values])
