"""Sets and decisions that are refreshed on the graph of today keep their promise as it grows."""

import warnings
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from sklearn.base import clone

from gnncal import GnncalWarning, Graph, InputError, load
from gnncal.decisions import ConformalClassifier, Costs, Policy
from tests.decisions.test_conformal import pool

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "growing.py"
HELD = np.arange(80)


def first(graph, n):
    edges = graph.edge_index
    return Graph(edges[:, (edges < n).all(axis=0)], n)


@pytest.mark.parametrize("name", ["neighbours help", "neighbours mislead"])
def test_refreshed_sets_cover_what_they_promise_where_old_thresholds_drift(name):
    growing = run_path(str(SCRIPT))
    shares = growing["covered_after_growth"](growing["WORLDS"][name], 150)
    error = shares.std(axis=0) / np.sqrt(len(shares))
    gap = shares.mean(axis=0) - growing["expected_coverage"]()
    assert abs(gap[1]) < 4 * error[1]
    assert abs(gap[0]) > 0.05
    assert (gap[0] > 0) == (name == "neighbours help")


@pytest.mark.parametrize("score", ["aps", "daps"])
@pytest.mark.parametrize("by_class", [False, True])
def test_refreshing_is_fitting_again_on_the_same_nodes(score, by_class):
    probs, labels, graph = pool()
    old = ConformalClassifier(0.8, score=score, by_class=by_class, random_state=0)
    old.fit(probs[:150], labels[:150], first(graph, 150), calibration_nodes=HELD)
    before = np.copy(old.threshold_)
    refreshed = old.refresh(probs, graph)
    fitted = ConformalClassifier(0.8, score=score, by_class=by_class, random_state=0)
    fitted.fit(probs, labels, graph, calibration_nodes=HELD)
    np.testing.assert_array_equal(refreshed.threshold_, fitted.threshold_)
    np.testing.assert_array_equal(
        refreshed.predict_set(probs, graph), fitted.predict_set(probs, graph)
    )
    np.testing.assert_array_equal(old.threshold_, before)
    assert refreshed.report_ == fitted.report_


def test_with_ids_rows_may_come_in_any_order():
    probs, labels, graph = pool()
    names = np.array([f"node {i}" for i in range(200)])
    old = ConformalClassifier(0.8, score="daps", random_state=0)
    old.fit(probs[:150], labels[:150], first(graph, 150), calibration_nodes=HELD, ids=names[:150])
    order = np.random.default_rng(0).permutation(200)
    moved = Graph(np.argsort(order)[graph.edge_index], 200)
    refreshed = old.refresh(probs[order], moved, ids=names[order])
    in_place = old.refresh(probs, graph, ids=names)
    assert refreshed.threshold_ == pytest.approx(in_place.threshold_)
    again = refreshed.refresh(probs, graph, ids=names)
    assert again.threshold_ == in_place.threshold_


def test_nodes_that_have_left_are_counted_and_the_others_carry_the_promise():
    probs, labels, _ = pool()
    old = ConformalClassifier(0.8, random_state=0).fit(
        probs, labels, calibration_nodes=HELD, ids=range(200)
    )
    stay = np.arange(4, 200)
    with pytest.warns(GnncalWarning, match="4 of 80 calibration nodes have left"):
        refreshed = old.refresh(probs[stay], ids=stay)
    fitted = ConformalClassifier(0.8, random_state=0).fit(
        probs, labels, calibration_nodes=range(4, 80), ids=range(200)
    )
    assert refreshed.threshold_ == fitted.threshold_
    assert refreshed.report_.n_calibration == 76
    with pytest.raises(InputError, match="ids has no calibration node"):
        old.refresh(probs[100:], ids=range(100, 200))


@pytest.mark.parametrize("kind", ["policy", "sets"])
def test_an_excerpt_of_the_graph_is_refused_because_it_is_no_random_sample(kind):
    probs, labels, _ = pool()
    unfitted = Policy(accuracy=0.5) if kind == "policy" else ConformalClassifier(0.8)
    old = unfitted.fit(probs, labels, calibration_nodes=HELD, ids=range(200))
    excerpt = np.arange(5, 200)
    with pytest.raises(InputError, match="5 of 80 calibration nodes are missing, more than one in"):
        old.refresh(probs[excerpt], ids=excerpt)


def test_rows_of_a_fit_that_saw_the_calibration_nodes_alone_come_first():
    probs, labels, _ = pool()
    alone = ConformalClassifier(0.8).fit(probs[:80], labels[:80], calibration_nodes=HELD)
    assert alone.refresh(probs).threshold_ == alone.threshold_
    assert alone.refresh(probs[:80]).threshold_ == alone.threshold_
    with pytest.raises(InputError, match="fit was given no ids"):
        alone.refresh(probs, ids=range(200))


def test_a_class_that_has_lost_too_many_nodes_is_said_again():
    probs, labels, _ = pool()
    few = np.flatnonzero(labels == 2)[:4]  # as few as the class needs, and of all nodes
    held = np.append(np.flatnonzero(labels != 2), few)
    old = ConformalClassifier(0.8, by_class=True, random_state=0).fit(
        probs, labels, calibration_nodes=held, ids=range(200)
    )
    assert np.isfinite(old.threshold_[2])
    stay = np.setdiff1d(np.arange(200), few)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        refreshed = old.refresh(probs[stay], ids=stay)
    assert any("class 2 (0)" in str(w.message) for w in said)
    assert np.isinf(refreshed.threshold_[2])


def test_what_cannot_be_refreshed_is_refused_with_one_sentence():
    probs, labels, graph = pool()
    daps = ConformalClassifier(0.8, score="daps", random_state=0)
    with pytest.raises(Exception, match="not fitted"):
        daps.refresh(probs, graph)
    daps.fit(probs, labels, graph, calibration_nodes=HELD)
    with pytest.raises(InputError, match=r"needs a graph; pass that of these nodes"):
        daps.refresh(probs)
    with pytest.raises(InputError, match="probs has 150 rows but fit had 200"):
        daps.refresh(probs[:150], first(graph, 150))
    with pytest.raises(InputError, match="has 2 columns"):
        daps.refresh(probs[:, :2] / probs[:, :2].sum(axis=1, keepdims=True), graph)
    daps.fit(probs, labels, graph, calibration_nodes=HELD, ids=range(200))
    with pytest.raises(InputError, match="fit was given ids"):
        daps.refresh(probs, graph)


SPLIT = np.arange(400)


def growing_probs(seed=0):
    """Probabilities of 900 nodes before 300 of them have joined, and after."""
    generator = np.random.default_rng(seed)
    after = generator.beta(0.4, 1.2, size=900)
    labels = (generator.random(900) < after).astype(int)
    before = np.clip(after[:600] + 0.05, 0, 1)  # newcomers change what the model thinks of others
    return *(np.column_stack([1 - p, p]) for p in (before, after)), labels


KINDS = {
    "accuracy": Policy(accuracy=0.7),
    "guarantees": Policy(positive=1, act=0.5, clear=0.85),
    "costs": Policy(positive=1, costs=Costs(missed=5, false_alarm=1, review=0.3)),
    "budget": Policy(positive=1, budget=50),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_refreshed_decisions_are_those_of_a_fit_on_the_same_nodes_today(tmp_path, kind, saved):
    before, after, labels = growing_probs()
    old = clone(KINDS[kind]).fit(before, labels[:600], calibration_nodes=SPLIT)
    if saved:
        old.save(tmp_path / "old")
        old = load(tmp_path / "old")
    decisions = old.decide(before)
    refreshed = old.refresh(after)
    fitted = clone(KINDS[kind]).fit(after, labels, calibration_nodes=SPLIT)
    assert repr(refreshed.report_) == repr(fitted.report_)
    np.testing.assert_array_equal(refreshed.decide(after), fitted.decide(after))
    np.testing.assert_array_equal(old.decide(before), decisions)
    assert not hasattr(refreshed, "forecast_")
    refreshed.save(tmp_path / "today")
    np.testing.assert_array_equal(load(tmp_path / "today").decide(after), fitted.decide(after))


@pytest.mark.parametrize("kind", ["accuracy", "guarantees"])
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_decisions_find_their_nodes_by_ids(kind):
    before, after, labels = growing_probs()
    names = np.array([f"node {i}" for i in range(900)])
    old = clone(KINDS[kind]).fit(before, labels[:600], calibration_nodes=SPLIT, ids=names[:600])
    order = np.random.default_rng(0).permutation(900)
    refreshed = old.refresh(after[order], ids=names[order])
    assert refreshed.report_ == old.refresh(after, ids=names).report_
    with pytest.raises(InputError, match="fit was given ids"):
        old.refresh(after)
    with pytest.raises(InputError, match="probs has 500 rows but fit had 600"):
        clone(KINDS[kind]).fit(before, labels[:600], calibration_nodes=SPLIT).refresh(after[:500])


def test_ids_cannot_find_the_nodes_of_a_fit_without_ids():
    """They would be taken for rows, and the labels of other nodes with them."""
    before, after, labels = growing_probs()
    old = Policy(accuracy=0.6).fit(before, labels[:600], calibration_nodes=SPLIT)
    with pytest.raises(InputError, match="fit was given no ids"):
        old.refresh(after, ids=np.arange(900)[::-1])
