"""Does a probability find the nodes of a class, and low confidence the mistakes? With ties."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from gnncal import metrics
from gnncal.metrics import Outcomes
from gnncal.metrics.ranking import Ranking, precision_among_top_of, recall_among_top_of

from .outcomes import law, outcomes
from .test_positive import two_columns

P = [0.9, 0.7, 0.7, 0.7, 0.2, 0.2]
LABELS = np.array([1, 0, 1, 1, 0, 1])


@law
@given(outcomes())
def test_areas_are_those_of_scikit_learn(drawn):
    labels, probs = drawn
    score, hit = probs[:, 1], labels == 1
    area = metrics.METRICS["positive_auroc"](labels, probs, positive=1)
    precision = metrics.METRICS["average_precision"](labels, probs, positive=1)
    if hit.any():
        assert precision == pytest.approx(average_precision_score(hit, score))
    else:
        assert np.isnan(precision)
    if hit.any() and not hit.all():
        assert area == pytest.approx(roc_auc_score(hit, score))
    else:
        assert np.isnan(area)


@law
@given(outcomes())
def test_mistakes_are_found_as_scikit_learn_says(drawn):
    labels, probs = drawn
    wrong, doubt = probs.argmax(axis=1) != labels, -probs.max(axis=1)
    area, precision = (
        metrics.METRICS["error_auroc"](labels, probs),
        metrics.METRICS["error_aupr"](labels, probs),
    )
    if wrong.any():
        assert precision == pytest.approx(average_precision_score(wrong, doubt))
    else:
        assert np.isnan(precision)
    if wrong.any() and not wrong.all():
        assert area == pytest.approx(roc_auc_score(wrong, doubt))
    else:
        assert np.isnan(area)


@law
@given(outcomes())
def test_recall_at_a_precision_is_the_best_threshold_of_scikit_learns_curve(drawn):
    labels, probs = drawn
    hit = labels == 1
    found = Ranking.of(probs[:, 1], hit.astype(float)).recall_at(0.6)
    if not hit.any():
        assert found is None
        return
    precision, recall, _ = precision_recall_curve(hit, probs[:, 1])
    assert found == pytest.approx(recall[precision >= 0.6 - 1e-12].max())


@pytest.mark.parametrize("k", range(1, 7))
def test_the_top_k_is_the_average_over_the_orders_of_tied_nodes(k):
    orders = [
        list(order) for order in permutations(range(6)) if (np.diff(np.take(P, order)) <= 0).all()
    ]
    assert len(orders) == 12  # 3! * 2!
    hits = np.mean([LABELS[order[:k]].sum() for order in orders])
    probs = two_columns(P)
    found = precision_among_top_of(Outcomes(LABELS, probs, positive=1), k)
    assert found == pytest.approx(hits / k)
    found = recall_among_top_of(Outcomes(LABELS, probs, positive=1), k)
    assert found == pytest.approx(hits / LABELS.sum())


def test_more_than_all_nodes_are_all_nodes():
    probs = two_columns(P)
    assert precision_among_top_of(Outcomes(LABELS, probs, positive=1), 999) == pytest.approx(4 / 6)
    assert recall_among_top_of(Outcomes(LABELS, probs, positive=1), 999) == 1.0


def test_no_threshold_is_precise_enough_gives_no_recall():
    labels, probs = [0, 1, 1], two_columns([0.9, 0.5, 0.4])
    assert metrics.METRICS["recall_at_precision"](labels, probs, positive=1) == 0.0


def test_a_class_that_there_is_not_is_named():
    with pytest.raises(ValueError, match="positive is 2; expected the name of a class"):
        metrics.METRICS["average_precision"]([0, 1], two_columns([0.2, 0.8]), positive=2)
