"""What every conformal score does: one number for each class, whatever the order, no labels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.data.probability import softmax
from gnncal.decisions.scores import Score
from gnncal.decisions.sets import ConformalClassifier
from gnncal.graph.graph import Graph
from gnncal.testing.laws import DISTINCT, law
from gnncal.testing.tasks import Task, TaskFamily

N_POPULATION = 1500
N_CALIBRATION = 150
N_DRAWS = 30


@law(family=TaskFamily())
def it_is_one_finite_number_for_each_node_and_class(score: Score, task: Task) -> None:
    """Certain, tied and constant probabilities included."""
    probs = softmax(task.logits)
    scores = score(probs, _uniform(task), task.graph)
    assert np.shape(scores) == probs.shape, f"the shape is {np.shape(scores)}, not {probs.shape}"
    assert np.isfinite(scores).all(), "some scores are not finite"


@law(family=TaskFamily())
def scoring_twice_gives_the_same_to_the_bit(score: Score, task: Task) -> None:
    """All chance is in the random number that each node is given."""
    probs, uniform = softmax(task.logits), _uniform(task)
    first = np.array(score(probs, uniform, task.graph))
    assert_array_equal(score(probs, uniform, task.graph), first)


@law(family=TaskFamily())
def inputs_are_not_mutated(score: Score, task: Task) -> None:
    """Probabilities, random numbers and the graph are as they were."""
    probs, uniform, graph = softmax(task.logits), _uniform(task), task.graph
    score(probs, uniform, graph)
    assert_array_equal(probs, softmax(task.logits), "the probabilities were changed")
    assert_array_equal(uniform, _uniform(task), "the random numbers were changed")
    assert_array_equal(graph.edge_index, task.graph.edge_index, "the graph was changed")


@law(family=TaskFamily(DISTINCT))
def renumbering_nodes_commutes_with_scoring(score: Score, task: Task) -> None:
    """Calibration nodes and others are treated alike only if a node's place says nothing."""
    probs, uniform = softmax(task.logits), _uniform(task)
    order = np.random.default_rng(1).permutation(len(probs))
    renumbered = Graph(np.argsort(order)[task.edges], len(order), task.features[order])
    expected = score(probs, uniform, task.graph)[order]
    assert_allclose(score(probs[order], uniform[order], renumbered), expected, atol=1e-5)


@law(family=TaskFamily(("plain", "float32")))
def relabelling_classes_commutes_with_scoring(score: Score, task: Task) -> None:
    """Another order of the classes gives the same scores in that order."""
    probs, uniform = softmax(task.logits), _uniform(task)
    order = np.random.default_rng(2).permutation(probs.shape[1])
    expected = score(probs, uniform, task.graph)[:, order]
    permuted = np.ascontiguousarray(probs[:, order])
    assert_allclose(score(permuted, uniform, task.graph), expected, atol=1e-5)


@law(family=TaskFamily(DISTINCT))
def a_more_probable_class_of_a_node_alone_never_scores_worse(score: Score, task: Task) -> None:
    """Small is likely; here no node has a neighbour that could know better."""
    probs = softmax(task.logits)
    graph = Graph(np.zeros((2, 0), dtype=int), len(probs), task.features)
    scores = np.asarray(score(probs, _uniform(task), graph), dtype=np.float64)
    ordered = np.take_along_axis(scores, np.argsort(-probs, axis=1, kind="stable"), axis=1)
    assert (np.diff(ordered, axis=1) >= -1e-6).all(), "a less probable class has a lower score"


@law(family=TaskFamily(("plain",)))
def it_refuses_a_missing_graph_or_needs_none(score: Score, task: Task) -> None:
    """Where a missing graph is not refused, the graph changes nothing."""
    probs, uniform = softmax(task.logits), _uniform(task)
    try:
        without = score(probs, uniform, None)
    except InputError:
        return
    assert_array_equal(score(probs, uniform, task.graph), without)


@law()
def sets_have_the_true_class_as_often_as_asked(score: Score) -> None:
    """On average over draws of the calibration nodes, also where the model is overconfident."""
    probs, labels, _ = _population()
    generator = np.random.default_rng(5)
    for coverage in (0.6, 0.9):
        shares = []
        for draw in range(N_DRAWS):
            nodes = generator.permutation(len(probs))
            calibration, others = nodes[:N_CALIBRATION], nodes[N_CALIBRATION:]
            sets = _sets(score, coverage, calibration, draw)
            shares.append(sets[others, labels[others]].mean())
        spread = np.sqrt(coverage * (1 - coverage) / (N_CALIBRATION + 2) / N_DRAWS)
        share = float(np.mean(shares))
        assert share >= coverage - 4 * spread, f"{share:.3f} of the sets have it, not {coverage}"


@law()
def a_larger_coverage_never_takes_a_class_out_of_a_set(score: Score) -> None:
    """Sets grow with the share that is asked for."""
    calibration = np.arange(N_CALIBRATION)
    small, large = (_sets(score, coverage, calibration, 0) for coverage in (0.6, 0.9))
    assert not (small & ~large).any(), "a class is in the smaller set only"


def _uniform(task: Task) -> FloatArray:
    return np.random.default_rng(4).uniform(size=len(task.logits))


def _population() -> tuple[FloatArray, Any, Graph]:
    """The same population each time; what a score may write to is a copy."""
    probs, labels, graph = _drawn_population()
    return probs.copy(), labels.copy(), graph


@cache
def _drawn_population() -> tuple[FloatArray, Any, Graph]:
    """Overconfident probabilities, labels, and a graph whose edges and features tell of them."""
    generator = np.random.default_rng(3)
    labels = generator.integers(4, size=N_POPULATION)
    logits = generator.normal(size=(N_POPULATION, 4))
    logits[np.arange(N_POPULATION), labels] += 1.0
    senders = generator.integers(N_POPULATION, size=4 * N_POPULATION)
    places = np.argsort(labels, kind="stable")
    near = (np.argsort(places)[senders] + generator.integers(1, 200, senders.size)) % N_POPULATION
    features = np.eye(4)[labels] + generator.normal(size=(N_POPULATION, 4))
    graph = Graph(np.stack([senders, places[near]]), N_POPULATION, features)
    return softmax(3 * logits), labels, graph


def _sets(score: Score, coverage: float, calibration: Any, seed: int) -> Any:
    probs, labels, graph = _population()
    conformal = ConformalClassifier(
        coverage=coverage, score=score, nonempty=False, random_state=seed
    )
    return conformal.fit(probs, labels, graph, calibration_nodes=calibration).predict_set(
        probs, graph
    )


SCORES = (
    it_is_one_finite_number_for_each_node_and_class,
    scoring_twice_gives_the_same_to_the_bit,
    inputs_are_not_mutated,
    renumbering_nodes_commutes_with_scoring,
    relabelling_classes_commutes_with_scoring,
    a_more_probable_class_of_a_node_alone_never_scores_worse,
    it_refuses_a_missing_graph_or_needs_none,
    sets_have_the_true_class_as_often_as_asked,
    a_larger_coverage_never_takes_a_class_out_of_a_set,
)
