"""Weights of calibration nodes: one of weight two counts as two nodes, one of zero as none."""

from dataclasses import fields

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.registry import every_calibrator
from gnncal.data.nodes import with_cached
from gnncal.graph.graph import Graph
from gnncal.math.formulas import Neighbourhood, describe_neighbourhoods

CALIBRATORS = every_calibrator()

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
WEIGHTED = [name for name, kind in CALIBRATORS.items() if kind.uses_sample_weight]
WITHOUT_GRAPH = [name for name in WEIGHTED if not CALIBRATORS[name]().needs_graph]
REFUSING = [name for name in CALIBRATORS if name not in WEIGHTED]
STRUCTURAL = ["structural", "structural-free", "structural-temperature"]
N = 240  # calibration nodes; as many others follow them


def rows(n_classes, seed=0):
    """Logits that are too sharp, labels, and weights 0, 1, 2 or 3 of the calibration nodes."""
    generator = np.random.default_rng(seed)
    logits = 3.0 * generator.normal(size=(2 * N, n_classes))
    chances = gnncal.calibrators.softmax(logits / 2 + np.arange(n_classes) / n_classes)
    labels = (generator.random((2 * N, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    weights = np.append(generator.integers(0, 4, size=N), np.full(N, 7))
    return logits, labels, weights


def test_the_families_whose_losses_are_sums_over_nodes_use_weights():
    assert {"ts", "hts", "hts-log", "hots", "vs", "svs", "sms", "dirichlet"} <= set(WEIGHTED)
    assert {"matrix", "platt", "beta"} <= set(WEIGHTED)
    assert "structural" in WEIGHTED
    assert {"isotonic", "histogram", "gats", "auto"} <= set(REFUSING)


@pytest.mark.parametrize("n_classes", [2, 3, 33])
@pytest.mark.parametrize("name", WITHOUT_GRAPH)
def test_a_weight_is_the_number_of_times_that_a_row_is_listed(name, n_classes):
    logits, labels, weights = rows(n_classes)
    listed = np.repeat(np.arange(N), weights[:N])
    assert 0 in weights
    twice = gnncal.get_calibrator(name).fit(logits[listed], labels[listed])
    weighted = gnncal.get_calibrator(name).fit(
        logits, labels, calibration_nodes=range(N), sample_weight=weights
    )
    np.testing.assert_allclose(
        weighted.predict_proba(logits), twice.predict_proba(logits), atol=2e-4
    )
    for side in ("loss_before", "loss_after"):
        first, second = (getattr(c.fit_report_, side) for c in (weighted, twice))
        assert first == pytest.approx(second, abs=1e-5)


def random_graph():
    edges = np.random.default_rng(1).integers(2 * N, size=(2, 1200))
    return Graph(np.hstack([edges, edges[::-1]]), 2 * N)


@pytest.mark.parametrize("name", STRUCTURAL)
def test_a_weight_is_the_number_of_times_that_a_neighbourhood_is_listed(name):
    logits, labels, weights = rows(3)
    whole = gnncal.Nodes(logits, random_graph())
    listed = np.repeat(np.arange(N), weights[:N])
    seen = whole.cached(describe_neighbourhoods)
    parts = {field.name: getattr(seen, field.name)[listed] for field in fields(seen)}
    copies = with_cached(
        gnncal.Nodes(logits[listed]), Neighbourhood(**parts), describe_neighbourhoods
    )
    twice = gnncal.get_calibrator(name).fit(copies, labels[listed])
    weighted = gnncal.get_calibrator(name).fit(
        whole, labels, calibration_nodes=range(N), sample_weight=weights
    )
    probs = (each.predict_proba(whole) for each in (weighted, twice))
    np.testing.assert_allclose(*probs, atol=2e-4)


def test_a_weight_of_two_is_a_node_that_is_there_twice():
    """The copy hears the same neighbours and says nothing."""
    logits, labels, weights = rows(3)
    graph = random_graph()
    doubled = np.flatnonzero(weights[:N] == 2)
    sender, receiver = graph.edge_index
    heard = [sender[receiver == i] for i in doubled]
    copies = np.repeat(2 * N + np.arange(len(doubled)), list(map(len, heard)))
    edges = np.hstack([graph.edge_index, [np.concatenate(heard), copies]])
    everyone = np.append(np.arange(2 * N), doubled)
    twice = gnncal.HoTS().fit(
        logits[everyone],
        labels[everyone],
        Graph(edges, len(everyone)),
        calibration_nodes=np.append(np.arange(N), 2 * N + np.arange(len(doubled))),
    )
    counts = np.where(weights == 2, 2, 1)
    weighted = gnncal.HoTS().fit(
        logits, labels, graph, calibration_nodes=range(N), sample_weight=counts
    )
    assert weighted.isolated_homophily_ == pytest.approx(twice.isolated_homophily_)
    probs = (each.predict_proba(logits, graph) for each in (weighted, twice))
    np.testing.assert_allclose(*probs, atol=2e-4)


@pytest.mark.parametrize("name", [*WEIGHTED, *STRUCTURAL[1:]])
def test_weights_of_one_change_nothing_to_the_bit_and_zero_leaves_a_node_out(name):
    logits, labels, _ = rows(3)
    graph = random_graph()
    kept = np.arange(N) % 3 > 0
    fits = [
        gnncal.get_calibrator(name).fit(
            logits,
            labels,
            graph,
            calibration_nodes=nodes,
            train_nodes=range(2 * N - 50, 2 * N),  # for the methods that stop on them
            sample_weight=weights,
        )
        for nodes, weights in (
            (np.flatnonzero(kept), None),
            (np.flatnonzero(kept), np.ones(2 * N)),
            (np.arange(N), np.append(kept, np.full(N, False))),
        )
    ]
    first, second, third = (each.predict_proba(logits, graph) for each in fits)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    assert fits[0].fit_report_ == fits[1].fit_report_ == fits[2].fit_report_


@pytest.mark.parametrize("name", REFUSING)
def test_what_cannot_weight_nodes_refuses_in_one_sentence(name):
    logits, labels, weights = rows(3)
    graph = random_graph()
    calibrator = gnncal.get_calibrator(name)
    message = f"{type(calibrator).__name__} cannot give calibration nodes different weights"
    with pytest.raises(gnncal.InputError, match=message):
        calibrator.fit(logits, labels, graph, calibration_nodes=range(N), sample_weight=weights)


def test_calibrate_hands_weights_on_to_the_fit():
    logits, labels, weights = rows(3)
    by_hand = gnncal.calibrators.TemperatureScaling().fit(
        logits, labels, calibration_nodes=range(N), sample_weight=weights
    )
    split = {"calibration_nodes": range(N), "test_nodes": range(N, 2 * N)}
    result = gnncal.calibrate(logits, labels, method="ts", sample_weight=weights, **split)
    assert result.calibrator.base_temperature_ == by_hand.base_temperature_
    plain = gnncal.calibrate(logits, labels, method="ts", **split)
    assert plain.calibrator.base_temperature_ != by_hand.base_temperature_
    assert result.before == plain.before  # test nodes count alike


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"shape \(3,\); expected one number for each node, shape \(480,\)"),
        (np.ones((2 * N, 1)), r"shape \(480, 1\); expected one number for each node"),
        (np.full(2 * N, "a"), "dtype <U1"),
        (np.where(np.arange(2 * N) == 5, -1.0, 1.0), "sample_weight is -1 at node 5"),
        (np.where(np.arange(2 * N) == 5, np.nan, 1.0), "sample_weight is nan at node 5"),
        (np.zeros(2 * N), "not zero everywhere"),
    ],
)
def test_weights_that_cannot_be_get_a_sentence(weights, message):
    logits, labels, _ = rows(3)
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.calibrators.TemperatureScaling().fit(
            logits, labels, calibration_nodes=range(N), sample_weight=weights
        )


def test_weights_of_other_nodes_are_not_looked_at():
    logits, labels, weights = rows(3)
    strange = np.where(np.arange(2 * N) < N, weights, np.nan)
    first, second = (
        gnncal.calibrators.TemperatureScaling().fit(
            logits, labels, calibration_nodes=range(N), sample_weight=each
        )
        for each in (weights, strange)
    )
    assert first.base_temperature_ == second.base_temperature_


@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e308])
def test_a_weight_of_no_use_is_refused_before_any_work(weight):
    weights = np.full(2 * N, 1.0)
    weights[3] = weight
    logits, labels, _ = rows(3)
    with pytest.raises(gnncal.InputError, match="at node 3; expected the number of nodes that it"):
        gnncal.calibrators.TemperatureScaling().fit(
            logits, labels, calibration_nodes=range(N), sample_weight=weights
        )
