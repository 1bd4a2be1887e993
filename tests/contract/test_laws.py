"""The laws that every calibrator obeys. A new method is picked up from the catalogue."""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gnncal
from gnncal.calibrators import protocols
from tests.contract.cases import CASES, EPOCHS
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")

every_calibrator = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
every_deterministic_fit = pytest.mark.parametrize(
    "make",
    [m for m in CASES.values() if m().drawn_at_random is None],
    ids=[n for n, m in CASES.items() if m().drawn_at_random is None],
)


@pytest.fixture(autouse=True, scope="module")
def short_paper_loops():
    """The laws hold after any number of epochs; a few are as good as a thousand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "PAPER_EPOCHS", EPOCHS)
        yield


DISTINCT = ("plain", "sharp", "float32")  # no ties: the order of classes decides nothing


def exempt(calibrator, law):
    if law in calibrator.exempt_from:
        pytest.skip(calibrator.exempt_from[law])


@every_calibrator
@given(task=tasks())
def test_rows_are_probabilities_for_plain_extreme_tied_and_constant_logits(make, task):
    calibrator = task.fit(make())
    probs = calibrator.predict_proba(task.logits, task.graph)
    assert probs.shape == task.logits.shape
    assert np.isfinite(probs).all()
    assert (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)


@every_calibrator
@given(task=tasks())
def test_predictions_never_change_where_the_class_says_so(make, task):
    calibrator = task.fit(make())
    if not calibrator.preserves_predictions:
        return
    probs = calibrator.predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(probs.argmax(axis=1), task.logits.argmax(axis=1))
    np.testing.assert_array_equal(
        calibrator.predict(task.logits, task.graph), task.logits.argmax(axis=1)
    )


@every_calibrator
@given(task=tasks())
def test_temperatures_are_positive_and_are_what_divides_the_logits(make, task):
    calibrator = task.fit(make())
    if not isinstance(calibrator, gnncal.TemperatureCalibrator):
        return
    temperature = calibrator.predict_temperature(task.logits, task.graph)
    assert (temperature > 0).all()
    np.testing.assert_array_equal(temperature, calibrator.temperature_)
    np.testing.assert_allclose(
        calibrator.predict_proba(task.logits, task.graph),
        gnncal.softmax(task.logits, temperature),
        rtol=1e-6,
    )


@every_calibrator
@given(task=tasks())
def test_labels_outside_nodes_and_train_nodes_never_matter(make, task):
    others = np.ones(len(task.labels), dtype=bool)
    others[task.nodes] = others[task.train_nodes] = False
    garbage = task.labels.copy()
    garbage[others] = np.random.default_rng(0).integers(-5, 99, size=others.sum())
    expected = task.fit(make()).predict_proba(task.logits, task.graph)
    actual = task.fit(make(), labels=garbage).predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(actual, expected)


@every_calibrator
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


@every_calibrator
@given(task=tasks())
def test_inputs_are_not_mutated(make, task):
    before = copy.deepcopy(task)
    calibrator = task.fit(make())
    calibrator.predict_proba(task.logits, task.graph)
    for name, value in vars(before).items():
        np.testing.assert_array_equal(getattr(task, name), value)


@every_calibrator
@given(task=tasks())
def test_precision_of_the_logits_is_kept(make, task):
    logits = task.logits.astype(np.float32)
    probs = task.fit(make(), logits=logits).predict_proba(logits, task.graph)
    assert probs.dtype == np.float32


@every_calibrator
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


@every_deterministic_fit
@given(task=tasks(kinds=DISTINCT, smallest=24))
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


@every_deterministic_fit
@given(task=tasks(kinds=DISTINCT, smallest=24))
def test_relabelling_classes_commutes(make, task):
    order = np.random.default_rng(2).permutation(task.logits.shape[1])
    expected = task.fit(make()).predict_proba(task.logits, task.graph)[:, order]
    logits, labels = np.ascontiguousarray(task.logits[:, order]), np.argsort(order)[task.labels]
    actual = task.fit(make(), logits=logits, labels=labels).predict_proba(logits, task.graph)
    np.testing.assert_allclose(actual, expected, atol=2e-3)


@every_calibrator
@given(task=tasks(kinds=("plain",)))
def test_a_constant_added_to_a_row_of_logits_changes_nothing(make, task):
    calibrator = make()
    exempt(calibrator, "shift")
    shifts = np.random.default_rng(3).integers(-8, 9, size=(len(task.logits), 1))
    expected = task.fit(calibrator).predict_proba(task.logits, task.graph)
    moved = task.logits + shifts
    actual = task.fit(make(), logits=moved).predict_proba(moved, task.graph)
    np.testing.assert_allclose(actual, expected, atol=2e-3)


@every_calibrator
@given(task=tasks(kinds=("plain",)))
def test_calibration_loss_is_reported_and_never_rises_when_converged(make, task):
    calibrator = task.fit(make())
    report = calibrator.fit_report_
    probs = calibrator.predict_proba(task.logits, task.graph)[task.nodes]
    loss = gnncal.metrics.negative_log_likelihood(task.labels[task.nodes], probs)
    assert report.loss_after == pytest.approx(loss, abs=1e-6)
    assert sum(report.nodes_per_class) == len(task.nodes)
    exempt(calibrator, "falling loss")
    if getattr(calibrator, "protocol", "paper") == "converged" and not report.bounds_hit:
        assert report.loss_after <= report.loss_before + 1e-6


@every_calibrator
def test_unfitted_use_names_the_class(make):
    calibrator = make()
    with pytest.raises(NotFittedError, match=type(calibrator).__name__):
        calibrator.predict_proba(np.zeros((3, 2)), gnncal.Graph(np.zeros((2, 0), int), 3))


@every_calibrator
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


@every_calibrator
def test_a_planted_temperature_is_recovered(make):
    calibrator = make()
    exempt(calibrator, "planted")
    if calibrator.needs_torch:
        calibrator.set_params(max_epochs=200)
    generator = np.random.default_rng(4)
    n, planted = 6000, 2.5
    logits = 2 * generator.normal(size=(n, 4))
    truth = gnncal.softmax(logits / planted)
    labels = (generator.random((n, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    graph = gnncal.Graph(
        generator.integers(0, n, size=(2, 5 * n)), n, generator.normal(size=(n, 3))
    )
    nodes, train = np.arange(3000), np.arange(3000, 3500)
    calibrator.fit(logits, labels, graph, nodes=nodes, train_nodes=train)
    probs = calibrator.predict_proba(logits, graph)[3500:]
    best = gnncal.metrics.negative_log_likelihood(labels[3500:], truth[3500:])
    raw = gnncal.metrics.negative_log_likelihood(labels[3500:], gnncal.softmax(logits[3500:]))
    found = gnncal.metrics.negative_log_likelihood(labels[3500:], probs)
    if getattr(calibrator, "protocol", "") != "paper":  # which stops where it stops
        assert found - best < 0.02 * (raw - best)


@every_calibrator
def test_a_graph_method_says_that_it_needs_a_graph(make):
    calibrator = make()
    logits, labels = np.eye(3), np.arange(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if calibrator.needs_graph:
            with pytest.raises(gnncal.InputError, match="needs a graph"):
                calibrator.fit(logits, labels, nodes=[0], train_nodes=[1])
        else:
            calibrator.fit(logits, labels, nodes=[0], train_nodes=[1]).predict_proba(logits)
