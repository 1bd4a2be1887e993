"""What must not matter to a fit: hidden labels, order, a constant, fitting twice, the caller."""

from __future__ import annotations

import copy

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from gnncal.calibrators.base import Calibrator
from gnncal.core.graph import Graph
from gnncal.testing.law import law
from gnncal.testing.tasks import Family, Kind, Task

DISTINCT: tuple[Kind, ...] = ("plain", "sharp", "float32")  # no ties: order decides nothing
# Two or three nodes leave a valley of equally good parameters, in which rounding decides.
DETERMINED = Family(DISTINCT, smallest=24, fewest=8)


@law(family=Family())
def labels_outside_nodes_and_train_nodes_never_matter(calibrator: Calibrator, task: Task) -> None:
    """Whatever is written there, the probabilities are the same to the bit."""
    others = np.ones(len(task.labels), dtype=bool)
    others[task.nodes] = others[task.train_nodes] = False
    garbage = task.labels.copy()
    garbage[others] = np.random.default_rng(0).integers(-5, 99, size=others.sum())
    expected = task.fit(clone(calibrator)).predict_proba(task.logits, task.graph)
    fitted = task.fit(clone(calibrator), labels=garbage)
    assert_array_equal(fitted.predict_proba(task.logits, task.graph), expected)


@law(family=Family())
def refitting_gives_the_same_to_the_bit(calibrator: Calibrator, task: Task) -> None:
    """The same object fitted again, and a clone of it."""
    fitted = task.fit(clone(calibrator))
    first = fitted.predict_proba(task.logits, task.graph)
    assert_array_equal(task.fit(fitted).predict_proba(task.logits, task.graph), first)
    assert_array_equal(task.fit(clone(fitted)).predict_proba(task.logits, task.graph), first)


@law(family=Family())
def inputs_are_not_mutated(calibrator: Calibrator, task: Task) -> None:
    """Logits, labels, edges, features and nodes are as they were."""
    before = copy.deepcopy(task)
    task.fit(clone(calibrator)).predict_proba(task.logits, task.graph)
    for name, value in vars(before).items():
        assert_array_equal(getattr(task, name), value, f"{name} was changed")


@law(family=Family(DISTINCT))
def renumbering_nodes_commutes_with_prediction(calibrator: Calibrator, task: Task) -> None:
    """On a graph it has not seen, in two numberings: clamped labels are given, not recalled."""
    fitted = task.fit(clone(calibrator))
    known = np.where(np.isin(np.arange(len(task.labels)), task.train_nodes), task.labels, -1)
    order = np.random.default_rng(1).permutation(len(task.labels))
    edges = np.concatenate([task.edges, [[0], [1]]], axis=1)
    graph = Graph(edges, len(order), task.features)
    place = np.argsort(order)
    renumbered = Graph(place[edges], len(order), task.features[order])
    expected = fitted.predict_proba(task.logits, graph, known_labels=known)
    actual = fitted.predict_proba(task.logits[order], renumbered, known_labels=known[order])
    assert_allclose(actual, expected[order], atol=1e-5)


@law(family=DETERMINED)
def renumbering_nodes_commutes_with_fitting(calibrator: Calibrator, task: Task) -> None:
    """A fit on the same graph in another numbering gives each node the same probabilities."""
    order = np.random.default_rng(1).permutation(len(task.labels))
    place = np.argsort(order)
    graph = Graph(place[task.edges], len(order), task.features[order])
    expected = task.fit(clone(calibrator)).predict_proba(task.logits, task.graph)
    renumbered = clone(calibrator).fit(
        task.logits[order],
        task.labels[order],
        graph,
        nodes=place[task.nodes],
        train_nodes=place[task.train_nodes],
    )
    actual = renumbered.predict_proba(task.logits[order], graph)
    assert_allclose(actual, expected[order], atol=2e-3)


@law(family=DETERMINED)
def relabelling_classes_commutes_with_fitting(calibrator: Calibrator, task: Task) -> None:
    """Another order of the classes gives the same probabilities in that order."""
    order = np.random.default_rng(2).permutation(task.logits.shape[1])
    expected = task.fit(clone(calibrator)).predict_proba(task.logits, task.graph)[:, order]
    logits, labels = np.ascontiguousarray(task.logits[:, order]), np.argsort(order)[task.labels]
    fitted = task.fit(clone(calibrator), logits=logits, labels=labels)
    assert_allclose(fitted.predict_proba(logits, task.graph), expected, atol=2e-3)


@law(family=Family(("plain",)))
def a_constant_added_to_a_row_of_logits_changes_nothing(calibrator: Calibrator, task: Task) -> None:
    """Softmax ignores such a constant, so a calibrator must, too."""
    shifts = np.random.default_rng(3).integers(-8, 9, size=(len(task.logits), 1))
    expected = task.fit(clone(calibrator)).predict_proba(task.logits, task.graph)
    moved = task.logits + shifts
    fitted = task.fit(clone(calibrator), logits=moved)
    assert_allclose(fitted.predict_proba(moved, task.graph), expected, atol=2e-3)


INVARIANCE = (
    labels_outside_nodes_and_train_nodes_never_matter,
    refitting_gives_the_same_to_the_bit,
    inputs_are_not_mutated,
    renumbering_nodes_commutes_with_prediction,
    renumbering_nodes_commutes_with_fitting,
    relabelling_classes_commutes_with_fitting,
    a_constant_added_to_a_row_of_logits_changes_nothing,
)
