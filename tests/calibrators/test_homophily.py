"""Homophily estimates against one-edge-at-a-time reimplementations."""

import numpy as np
import pytest
from hypothesis import given

import gnncal
from gnncal.calibrators.homophily import Predictor, Support, make_estimator
from gnncal.graph import neighbours as share
from gnncal_lab.homophily import Agreement, ClampedAgreement, ClampedSupport, CrossFitted
from tests.strategies import tasks


def average_over_neighbours(task, side, value):
    """Mean of value(node, neighbour) over the edges of each node; None leaves an edge out."""
    found = [[] for _ in task.labels]
    for sender, receiver in task.edges.T:
        pairs = {"in": [(receiver, sender)], "out": [(sender, receiver)]}
        pairs["both"] = pairs["in"] + pairs["out"]
        for node, neighbour in pairs[side]:
            if node != neighbour and (v := value(node, neighbour)) is not None:
                found[node].append(v)
    return np.array([np.mean(values) if values else np.nan for values in found])


def known_labels(task):
    known = np.full(len(task.labels), -1)
    known[task.train_nodes] = task.labels[task.train_nodes]
    return known


@pytest.mark.parametrize("side", ["in", "out", "both"])
@given(task=tasks())
def test_support_is_the_mean_probability_of_the_predicted_class(side, task):
    probs, known = gnncal.calibrators.softmax(task.logits), known_labels(task)
    predicted = task.logits.argmax(axis=1)

    def value(node, neighbour):
        if known[neighbour] >= 0:
            return float(known[neighbour] == predicted[node])
        return probs[neighbour, predicted[node]]

    nodes = gnncal.Nodes(task.logits, task.graph, known_labels=known)
    found = ClampedSupport(side).estimate({}, nodes, is_fitted_graph=True)
    np.testing.assert_allclose(found, average_over_neighbours(task, side, value), atol=1e-6)


@pytest.mark.parametrize("side", ["in", "out", "both"])
@given(task=tasks())
def test_agreement_is_the_share_of_equal_predictions(side, task):
    known = known_labels(task)
    votes = np.where(known >= 0, known, task.logits.argmax(axis=1))
    predicted = task.logits.argmax(axis=1)
    expected = average_over_neighbours(task, side, lambda i, j: float(votes[j] == predicted[i]))
    nodes = gnncal.Nodes(task.logits, task.graph, known_labels=known)
    found = ClampedAgreement(side).estimate({}, nodes, is_fitted_graph=True)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("side", ["in", "out", "both"])
@given(task=tasks())
def test_targets_count_labelled_neighbours_only(side, task):
    known = known_labels(task)

    def value(node, neighbour):
        return float(known[node] == known[neighbour]) if known[neighbour] >= 0 else None

    expected = average_over_neighbours(task, side, value)
    expected[known < 0] = np.nan
    np.testing.assert_allclose(Predictor(side=side)._targets(task.graph, known), expected)


@given(task=tasks())
def test_blocks_of_edges_do_not_change_the_share(task):
    known = known_labels(task)
    whole = Predictor(side="in")._targets(task.graph, known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(share, "EDGES_AT_ONCE", 3)
        np.testing.assert_array_equal(Predictor(side="in")._targets(task.graph, known), whole)


def test_support_by_hand():
    # Node 2 hears 0 (p = .9, .1) and 1 (p = .4, .6) and predicts class 0: (.9 + .4) / 2.
    logits = np.log([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    graph = gnncal.Graph([[0, 1, 2], [2, 2, 2]])
    nodes = gnncal.Nodes(logits, graph)
    found = Support().estimate({}, nodes, is_fitted_graph=True)
    np.testing.assert_allclose(found, [np.nan, np.nan, 0.65])
    # The label of node 0 is known to be 1: it no longer supports class 0.
    nodes = gnncal.Nodes(logits, graph, known_labels=[1, -1, -1])
    found = ClampedSupport().estimate({}, nodes, is_fitted_graph=True)
    np.testing.assert_allclose(found[2], 0.2)


def test_both_sides_by_hand():
    # Node 0 hears 1 twice and sends to 2; its loop does not count: (.8 + .8 + .2) / 3.
    logits = np.log([[0.7, 0.3], [0.8, 0.2], [0.2, 0.8]])
    graph = gnncal.Graph([[1, 1, 0, 0], [0, 0, 2, 0]])
    nodes = gnncal.Nodes(logits, graph)
    support = Support("both").estimate({}, nodes, is_fitted_graph=True)
    np.testing.assert_allclose(support, [0.6, 0.7, 0.3])
    agreement = Agreement("both").estimate({}, nodes, is_fitted_graph=True)
    np.testing.assert_allclose(agreement, [2 / 3, 1.0, 0.0])


def test_names_are_shorthands_for_estimators_with_default_parameters():
    assert make_estimator("support") == Support(side="in")
    assert make_estimator("agreement") == Agreement(side="in")
    assert make_estimator("predictor") == Predictor(side="out", random_state=0)
    assert make_estimator("cross-fitted") == CrossFitted(side="out", n_folds=5)
    for name, kind in (("support", Support), ("predictor", Predictor)):
        assert make_estimator(name) == kind()
    own = CrossFitted(n_folds=3)
    assert make_estimator(own) is own
    with pytest.raises(gnncal.InputError, match="expected one of support, predictor, agreement"):
        make_estimator("oracle")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Support, {"side": "up"}, "side is 'up'; expected 'in', 'out' or 'both'"),
        (Predictor, {"checkpoint": "best"}, "checkpoint is 'best'; expected 'matched'"),
        (Predictor, {"random_state": 1.5}, "random_state is 1.5; expected a whole number"),
        (CrossFitted, {"n_folds": 1}, "n_folds is 1; expected a whole number of at least 2"),
        (CrossFitted, {"hidden": 0}, "hidden is 0"),
    ],
)
def test_a_bad_parameter_is_refused_where_the_estimator_is_made(kind, options, message):
    with pytest.raises(gnncal.InputError, match=message):
        kind(**options)
