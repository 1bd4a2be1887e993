"""The class in view: what a report says about it."""

from __future__ import annotations

import numpy as np
import pytest

import gnncal
from gnncal import InputError
from gnncal.reporting.decisions import N_POINTS, rank
from gnncal.reporting.findings import find

from .tasks import subject_of, task


def test_a_ranking_by_hand():
    ranking = rank(np.array([0.1, 0.9, 0.5]), np.array([False, True, True]))
    assert ranking["n"].tolist() == [1, 2, 3]
    assert ranking["threshold"].tolist() == [0.9, 0.5, 0.1]
    assert ranking["found"].tolist() == [1, 2, 2]
    assert ranking["expected"] == pytest.approx([0.9, 1.4, 1.5])


def test_equal_probabilities_count_as_their_average():
    p = np.array([0.5, 0.5, 0.5, 0.1])
    for order in ([True, False, False, False], [False, False, True, False]):
        assert rank(p, np.array(order))["found"] == pytest.approx([1 / 3, 2 / 3, 1, 1])


def test_a_long_ranking_has_few_points_and_ends_with_the_last_node():
    generator = np.random.default_rng(0)
    p = generator.random(20_000)
    hits = generator.random(20_000) < p
    ranking = rank(p, hits)
    assert len(ranking["n"]) <= N_POINTS
    assert ranking["n"][-1] == 20_000
    assert ranking["found"][-1] == pytest.approx(hits.sum())
    order = np.argsort(-p)
    for i in (0, 400, 700, 850):
        n = ranking["n"][i]
        assert ranking["found"][i] == hits[order[:n]].sum()
        assert ranking["threshold"][i] == p[order[n - 1]]


@pytest.fixture(scope="module")
def findings():
    data, splits = task()
    subject = subject_of(*data, **splits, methods=["structural-free"], positive=2)
    return subject, find(subject).methods["structural-free"].one_class


def test_rate_and_mean_are_those_of_the_test_nodes(findings):
    subject, found = findings
    truth = subject.labels[subject.test_nodes] == 2
    assert (found.n_nodes, found.n_positive) == (truth.size, truth.sum())
    assert found.rate == truth.mean()
    assert found.ranking["expected"][-1] == pytest.approx(found.mean * found.n_nodes)


def test_a_guarantee_is_kept_or_broken_by_the_test_nodes_alone(findings):
    _, found = findings
    certified = [each for each in found.guarantees if each.is_certified]
    assert {each.name for each in certified} == {"act", "clear", "recall"}
    for each in certified:
        assert 0 <= each.n_right <= each.n_counted <= found.n_nodes
        assert each.name != "recall" or each.n_counted == found.n_positive


def test_without_a_class_in_view_there_is_no_section():
    data, splits = task()
    page = gnncal.report(*data, **splits, methods=["ts"])
    assert page.findings.methods["ts"].one_class is None
    assert 'id="one-class"' not in page.html


def test_a_class_that_does_not_exist_is_refused_before_any_work():
    data, splits = task()
    with pytest.raises(InputError, match="positive is 9"):
        gnncal.report(*data, **splits, methods=["ts"], positive=9)
