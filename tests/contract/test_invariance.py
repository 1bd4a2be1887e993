"""What must not matter to a fit: hidden labels, order, a constant, fitting twice, the caller."""

import copy

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone

import gnncal
from tests.contract.cases import every
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
DISTINCT = ("plain", "sharp", "float32")  # no ties: the order of classes decides nothing
# Two or three nodes leave a valley of equally good parameters, in which rounding decides.
DETERMINED = {"kinds": DISTINCT, "smallest": 24, "fewest": 8}


@every()
@given(task=tasks())
def test_labels_outside_nodes_and_train_nodes_never_matter(make, task):
    others = np.ones(len(task.labels), dtype=bool)
    others[task.nodes] = others[task.train_nodes] = False
    garbage = task.labels.copy()
    garbage[others] = np.random.default_rng(0).integers(-5, 99, size=others.sum())
    expected = task.fit(make()).predict_proba(task.logits, task.graph)
    actual = task.fit(make(), labels=garbage).predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(actual, expected)


@every()
@given(task=tasks())
def test_refitting_gives_the_same_to_the_bit(make, task):
    calibrator = task.fit(make())
    first = calibrator.predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(
        task.fit(calibrator).predict_proba(task.logits, task.graph), first
    )
    np.testing.assert_array_equal(
        task.fit(clone(calibrator)).predict_proba(task.logits, task.graph), first
    )


@every()
@given(task=tasks())
def test_inputs_are_not_mutated(make, task):
    before = copy.deepcopy(task)
    calibrator = task.fit(make())
    calibrator.predict_proba(task.logits, task.graph)
    for name, value in vars(before).items():
        np.testing.assert_array_equal(getattr(task, name), value)


@every()
@given(task=tasks(kinds=DISTINCT))
def test_renumbering_nodes_commutes_with_prediction(make, task):
    calibrator = task.fit(make())
    # A graph it has not seen, in two numberings: clamped labels are given, not recalled.
    known = np.where(np.isin(np.arange(len(task.labels)), task.train_nodes), task.labels, -1)
    order = np.random.default_rng(1).permutation(len(task.labels))
    edges = np.concatenate([task.edges, [[0], [1]]], axis=1)
    graph = gnncal.Graph(edges, len(order), task.features)
    place = np.argsort(order)
    renumbered = gnncal.Graph(place[edges], len(order), task.features[order])
    expected = calibrator.predict_proba(task.logits, graph, known_labels=known)
    actual = calibrator.predict_proba(task.logits[order], renumbered, known_labels=known[order])
    np.testing.assert_allclose(actual, expected[order], atol=1e-5)


@every("the order of nodes and classes decides nothing")
@given(task=tasks(**DETERMINED))
def test_renumbering_nodes_commutes_with_fitting(make, task):
    order = np.random.default_rng(1).permutation(len(task.labels))
    place = np.argsort(order)
    graph = gnncal.Graph(place[task.edges], len(order), task.features[order])
    expected = task.fit(make()).predict_proba(task.logits, task.graph)
    renumbered = make().fit(
        task.logits[order],
        task.labels[order],
        graph,
        nodes=place[task.nodes],
        train_nodes=place[task.train_nodes],
    )
    actual = renumbered.predict_proba(task.logits[order], graph)
    np.testing.assert_allclose(actual, expected[order], atol=2e-3)


@every("the order of nodes and classes decides nothing")
@given(task=tasks(**DETERMINED))
def test_relabelling_classes_commutes(make, task):
    order = np.random.default_rng(2).permutation(task.logits.shape[1])
    expected = task.fit(make()).predict_proba(task.logits, task.graph)[:, order]
    logits, labels = np.ascontiguousarray(task.logits[:, order]), np.argsort(order)[task.labels]
    actual = task.fit(make(), logits=logits, labels=labels).predict_proba(logits, task.graph)
    np.testing.assert_allclose(actual, expected, atol=2e-3)


@every("a constant added to a row of logits changes nothing")
@given(task=tasks(kinds=("plain",)))
def test_a_constant_added_to_a_row_of_logits_changes_nothing(make, task):
    shifts = np.random.default_rng(3).integers(-8, 9, size=(len(task.logits), 1))
    expected = task.fit(make()).predict_proba(task.logits, task.graph)
    moved = task.logits + shifts
    actual = task.fit(make(), logits=moved).predict_proba(moved, task.graph)
    np.testing.assert_allclose(actual, expected, atol=2e-3)
