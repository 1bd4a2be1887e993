"""What every calibrator returns: finite probabilities in the right form, and the right errors."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from sklearn.exceptions import NotFittedError

import gnncal
from tests.contract.cases import (
    divides_logits,
    every,
    keeps_predictions,
    needs_graph,
    needs_no_graph,
)
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@every()
@given(task=tasks())
def test_rows_are_probabilities_for_plain_extreme_tied_and_constant_logits(make, task):
    calibrator = task.fit(make())
    probs = calibrator.predict_proba(task.logits, task.graph)
    assert probs.shape == task.logits.shape
    assert np.isfinite(probs).all()
    assert (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)


@every(which=keeps_predictions)
@given(task=tasks())
def test_predictions_never_change_where_the_class_says_so(make, task):
    calibrator = task.fit(make())
    probs = calibrator.predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(probs.argmax(axis=1), task.logits.argmax(axis=1))
    np.testing.assert_array_equal(
        calibrator.predict(task.logits, task.graph), task.logits.argmax(axis=1)
    )


@every(which=divides_logits)
@given(task=tasks())
def test_temperatures_are_positive_and_are_what_divides_the_logits(make, task):
    calibrator = task.fit(make())
    temperature = calibrator.predict_temperature(task.logits, task.graph)
    assert (temperature > 0).all()
    np.testing.assert_array_equal(temperature, calibrator.temperature_)
    np.testing.assert_allclose(
        calibrator.predict_proba(task.logits, task.graph),
        gnncal.softmax(task.logits, temperature),
        rtol=1e-6,
    )


@every()
@given(task=tasks())
def test_precision_of_the_logits_is_kept(make, task):
    logits = task.logits.astype(np.float32)
    probs = task.fit(make(), logits=logits).predict_proba(logits, task.graph)
    assert probs.dtype == np.float32


@every()
def test_every_corner_of_a_calibration_set_gives_a_finite_answer(make):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(30, 3))
    edges = np.stack([np.arange(29), np.arange(1, 30)])
    features = generator.normal(size=(30, 4))
    train = np.arange(20, 30)
    labels = logits.argmax(axis=1)
    labels[train] = generator.integers(0, 3, size=10)
    corners = {
        "one node": [0],
        "all correct": np.arange(20),
        "a class missing": np.flatnonzero(labels[:20] != 2),
    }
    for graph in (
        gnncal.Graph(edges, 30, features),
        gnncal.Graph(np.concatenate([edges, edges[::-1]], axis=1), 30, features),
    ):
        for corner, nodes in corners.items():
            calibrator = make().fit(logits, labels, graph, nodes=nodes, train_nodes=train)
            assert np.isfinite(calibrator.predict_proba(logits, graph)).all(), corner
    isolated = gnncal.Graph(np.stack([train, train[::-1]]), 30, features)
    calibrator = make().fit(logits, labels, isolated, nodes=np.arange(20), train_nodes=train)
    assert np.isfinite(calibrator.predict_proba(logits, isolated)).all()


@every()
def test_unfitted_use_names_the_class(make):
    calibrator = make()
    with pytest.raises(NotFittedError, match=type(calibrator).__name__):
        calibrator.predict_proba(np.zeros((3, 2)), gnncal.Graph(np.zeros((2, 0), int), 3))


@every(which=needs_graph)
def test_a_graph_method_says_that_it_needs_a_graph(make):
    with pytest.raises(gnncal.InputError, match="needs a graph"):
        make().fit(np.eye(3), np.arange(3), nodes=[0], train_nodes=[1])


@every(which=needs_no_graph)
def test_any_other_method_works_without_a_graph(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = make().fit(np.eye(3), np.arange(3), nodes=[0], train_nodes=[1])
        assert calibrator.predict_proba(np.eye(3)).shape == (3, 3)
