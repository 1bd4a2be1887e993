"""What every metric does: one number that order cannot change, best where all is right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from gnncal.data.probability import softmax
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.table import Metric
from gnncal.testing.laws import DISTINCT, law
from gnncal.testing.tasks import Task, TaskFamily, small_task

N_DRAWS = 400  # of labels
POSITIVE = 1  # number of the class in view


@law(family=TaskFamily())
def it_is_one_finite_number(metric: Metric, task: Task) -> None:
    """A share, which is shown in per cent, lies between 0 and 1.

    There may be none on some nodes, such as the recall of a class that no node has.
    """
    value = metric.of(_outcomes(task))
    if value is None:
        value = metric.of(_outcomes(small_task()))
    assert isinstance(value, float), f"it is a {type(value).__name__}, not a float"
    assert np.isfinite(value), f"it is {value}"
    assert metric.unit != "%" or -1e-9 <= value <= 1 + 1e-9, f"it is {value}, which is no share"


@law(family=TaskFamily())
def inputs_are_not_mutated(metric: Metric, task: Task) -> None:
    """Labels and probabilities are as they were, and a second time gives the same."""
    outcomes = _outcomes(task)
    first = metric.of(outcomes)
    assert_array_equal(outcomes.probs, softmax(task.logits), "the probabilities were changed")
    assert_array_equal(outcomes.labels, task.labels, "the labels were changed")
    assert metric.of(_outcomes(task)) == first, "the second time gave another number"


@law(family=TaskFamily(DISTINCT))
def the_order_of_the_nodes_does_not_matter(metric: Metric, task: Task) -> None:
    """Each node counts by what it is, not by where it stands."""
    order = np.random.default_rng(1).permutation(len(task.labels))
    outcomes = _outcomes(task)
    shuffled = _again(outcomes, outcomes.labels[order], outcomes.probs[order], order)
    _assert_same(metric, shuffled, outcomes)


@law(family=TaskFamily(("plain", "float32")))
def the_order_of_the_classes_does_not_matter(metric: Metric, task: Task) -> None:
    """The same labels and probabilities, with classes numbered in another order."""
    outcomes = _outcomes(task)
    order = np.random.default_rng(2).permutation(outcomes.probs.shape[1])
    number = np.argsort(order)  # of each class, after
    renamed = _again(outcomes, number[outcomes.labels], outcomes.probs[:, order])
    renamed.positive = int(number[POSITIVE])
    _assert_same(metric, renamed, outcomes)


@law(family=TaskFamily(), applies=lambda metric: metric.better != "neither")
def nothing_is_better_than_certain_and_right(metric: Metric, task: Task) -> None:
    """``better`` says which direction that is."""
    outcomes = _outcomes(task)
    certain = np.eye(outcomes.probs.shape[1])[outcomes.labels]
    best = metric.of(_again(outcomes, outcomes.labels, certain))
    value = metric.of(outcomes)
    if best is None or value is None:
        return  # there is no mistake to find, or no node of the class
    sign = 1.0 if metric.better == "lower" else -1.0
    words = f"certain and right gives {best}, other probabilities {value}"
    assert sign * best <= sign * value + 1e-9, f"{words}, and {metric.better} is better"


@law(family=TaskFamily(), applies=lambda metric: metric.per_node is not None)
def it_is_the_mean_of_its_scores_of_single_nodes(metric: Metric, task: Task) -> None:
    """Paired comparisons rely on it."""
    outcomes = _outcomes(task)
    assert metric.per_node is not None
    each = metric.per_node(outcomes)
    assert np.shape(each) == task.labels.shape, f"the shape is {np.shape(each)}"
    assert_allclose(np.mean(each), _value(metric, outcomes), rtol=1e-6, atol=1e-9)


@law(family=TaskFamily())
def it_says_whether_it_needs_degrees(metric: Metric, task: Task) -> None:
    """With ``needs_degree`` there is no value without them; else they change nothing."""
    outcomes = _outcomes(task)
    without = metric.of(Outcomes(outcomes.labels, outcomes.probs, positive=POSITIVE))
    assert without == (None if metric.needs_degree else metric.of(outcomes))


@law(family=TaskFamily())
def it_says_whether_it_needs_a_class_in_view(metric: Metric, task: Task) -> None:
    """With ``needs_positive`` there is no value without one; else it changes nothing."""
    outcomes = _outcomes(task)
    without = metric.of(Outcomes(outcomes.labels, outcomes.probs, outcomes.in_degree))
    assert without == (None if metric.needs_positive else metric.of(outcomes))


@law(applies=lambda metric: metric.floor is not None)
def its_floor_is_what_calibrated_labels_show_on_average(metric: Metric) -> None:
    """Labels are drawn from the probabilities; the floor is computed without them."""
    task = small_task(150)
    outcomes = _outcomes(task)
    assert metric.floor is not None
    floor = metric.floor(outcomes)
    other = metric.floor(_again(outcomes, 1 - task.labels.clip(0, 1), outcomes.probs))
    assert other == floor, "the floor depends on the labels"
    values = []
    edges = np.cumsum(outcomes.probs, axis=1)[:, :-1]
    for seed in range(N_DRAWS):
        uniform = np.random.default_rng(seed).uniform(size=(len(edges), 1))
        drawn = (uniform > edges).sum(axis=1)
        values.append(_value(metric, _again(outcomes, drawn, outcomes.probs)))
    mean, error = np.mean(values), np.std(values) / np.sqrt(N_DRAWS)
    near = 4 * error + 0.02 * mean
    assert abs(floor.mean - mean) <= near, f"the floor is {floor.mean:.4f}, the mean {mean:.4f}"


@law()
def it_can_be_named_and_shown(metric: Metric) -> None:
    """The name is an attribute of an evaluation, the title a heading."""
    assert metric.name.isidentifier(), f"{metric.name!r} cannot be an attribute"
    assert metric.title.strip(), "there is no title"
    assert metric.better in ("lower", "higher", "neither"), f"better is {metric.better!r}"
    assert metric.unit in ("", "%"), f"the unit is {metric.unit!r}"
    assert float(metric.shown(0.125)) == round(metric.scale * 0.125, metric.decimals)


def _value(metric: Metric, outcomes: Outcomes) -> float:
    value = metric.of(outcomes)
    assert value is not None, "there is no value although degrees and a class are given"
    return value


def _assert_same(metric: Metric, outcomes: Outcomes, others: Outcomes) -> None:
    value, other = metric.of(outcomes), metric.of(others)
    assert (value is None) == (other is None), f"one is {value}, the other {other}"
    if value is not None and other is not None:
        assert_allclose(value, other, atol=1e-6)


def _outcomes(task: Task) -> Outcomes:
    return Outcomes(task.labels, softmax(task.logits), task.graph.in_degree, positive=POSITIVE)


def _again(outcomes: Outcomes, labels: Any, probs: Any, order: Any = slice(None)) -> Outcomes:
    """Return other labels and probabilities of the same nodes, perhaps in another order."""
    return Outcomes(labels, probs, outcomes.in_degree[order], positive=outcomes.positive)


METRICS = (
    it_is_one_finite_number,
    inputs_are_not_mutated,
    the_order_of_the_nodes_does_not_matter,
    the_order_of_the_classes_does_not_matter,
    nothing_is_better_than_certain_and_right,
    it_is_the_mean_of_its_scores_of_single_nodes,
    it_says_whether_it_needs_degrees,
    it_says_whether_it_needs_a_class_in_view,
    its_floor_is_what_calibrated_labels_show_on_average,
    it_can_be_named_and_shown,
)
