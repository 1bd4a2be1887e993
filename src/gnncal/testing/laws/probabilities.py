"""What every calibrator returns: finite probabilities in the right form, and the right errors."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gnncal.calibrators.base import Calibrator, TemperatureCalibrator
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.probability import softmax
from gnncal.testing.law import law, refused
from gnncal.testing.tasks import Family, Task


def _keeps_predictions(calibrator: Calibrator) -> bool:
    return calibrator.preserves_predictions


def _divides_logits(calibrator: Calibrator) -> bool:
    return isinstance(calibrator, TemperatureCalibrator)


def _needs_graph(calibrator: Calibrator) -> bool:
    return calibrator.needs_graph


def _needs_no_graph(calibrator: Calibrator) -> bool:
    return not calibrator.needs_graph


@law(family=Family())
def rows_are_probabilities(calibrator: Calibrator, task: Task) -> None:
    """Rows sum to one, for extreme, tied and constant logits, too."""
    probs = task.fit(clone(calibrator)).predict_proba(task.logits, task.graph)
    assert probs.shape == task.logits.shape, f"the shape is {probs.shape}"
    assert np.isfinite(probs).all(), "a probability is not finite"
    assert (probs >= 0).all(), "a probability is negative"
    assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)


@law(family=Family(), applies=_keeps_predictions)
def predictions_never_change_where_the_class_says_so(calibrator: Calibrator, task: Task) -> None:
    """The class says so by ``preserves_predictions = True``."""
    fitted = task.fit(clone(calibrator))
    probs = fitted.predict_proba(task.logits, task.graph)
    assert_array_equal(probs.argmax(axis=1), task.logits.argmax(axis=1))
    assert_array_equal(fitted.predict(task.logits, task.graph), task.logits.argmax(axis=1))


@law(family=Family(), applies=_divides_logits)
def temperatures_are_positive_and_are_what_divides_the_logits(
    calibrator: TemperatureCalibrator, task: Task
) -> None:
    """``temperature_`` has the temperatures of the fitted graph."""
    fitted = task.fit(clone(calibrator))
    temperature = fitted.predict_temperature(task.logits, task.graph)
    assert (temperature > 0).all(), "a temperature is not positive"
    assert_array_equal(temperature, fitted.temperature_)
    assert_allclose(
        fitted.predict_proba(task.logits, task.graph),
        softmax(task.logits, temperature),
        rtol=1e-6,
    )


@law(family=Family())
def the_precision_of_the_logits_is_kept(calibrator: Calibrator, task: Task) -> None:
    """Logits in float32 give probabilities in float32."""
    logits = task.logits.astype(np.float32)
    probs = task.fit(clone(calibrator), logits=logits).predict_proba(logits, task.graph)
    assert probs.dtype == np.float32, f"float32 became {probs.dtype}"


@law()
def every_corner_of_a_calibration_set_gives_a_finite_answer(calibrator: Calibrator) -> None:
    """One node, no mistakes, a class missing, edges in one direction, nodes without edges."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(30, 3))
    edges = np.stack([np.arange(29), np.arange(1, 30)])
    features = generator.normal(size=(30, 4))
    train = np.arange(20, 30)
    labels = logits.argmax(axis=1)
    labels[train] = generator.integers(0, 3, size=10)
    corners = {
        "one node": np.array([0]),
        "all correct": np.arange(20),
        "a class missing": np.flatnonzero(labels[:20] != 2),
    }
    one_way, both_ways = edges, np.concatenate([edges, edges[::-1]], axis=1)
    tasks = [
        (corner, edges, nodes)
        for edges in (one_way, both_ways)
        for corner, nodes in corners.items()
    ]
    tasks.append(("isolated nodes", np.stack([train, train[::-1]]), np.arange(20)))
    for corner, some_edges, nodes in tasks:
        graph = Graph(some_edges, 30, features)
        fitted = clone(calibrator).fit(logits, labels, graph, nodes=nodes, train_nodes=train)
        assert np.isfinite(fitted.predict_proba(logits, graph)).all(), corner


@law()
def unfitted_use_names_the_class(calibrator: Calibrator) -> None:
    """A NotFittedError of scikit-learn says which class was not fitted."""
    graph = Graph(np.zeros((2, 0), dtype=int), 3)
    with refused(NotFittedError, type(calibrator).__name__):
        clone(calibrator).predict_proba(np.zeros((3, 2)), graph)


@law(applies=_needs_graph)
def a_graph_method_says_that_it_needs_a_graph(calibrator: Calibrator) -> None:
    """The class says so by ``needs_graph = True``."""
    with refused(InputError, "needs a graph"):
        clone(calibrator).fit(np.eye(3), np.arange(3), nodes=[0], train_nodes=[1])


@law(applies=_needs_no_graph)
def any_other_method_works_without_a_graph(calibrator: Calibrator) -> None:
    """``fit`` and ``predict_proba`` need no graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(calibrator).fit(np.eye(3), np.arange(3), nodes=[0], train_nodes=[1])
        shape = fitted.predict_proba(np.eye(3)).shape
    assert shape == (3, 3), f"the shape is {shape}"


PROBABILITIES = (
    rows_are_probabilities,
    predictions_never_change_where_the_class_says_so,
    temperatures_are_positive_and_are_what_divides_the_logits,
    the_precision_of_the_logits_is_kept,
    every_corner_of_a_calibration_set_gives_a_finite_answer,
    unfitted_use_names_the_class,
    a_graph_method_says_that_it_needs_a_graph,
    any_other_method_works_without_a_graph,
)
