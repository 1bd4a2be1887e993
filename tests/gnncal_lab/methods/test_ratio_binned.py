"""Ratio-binned scaling against its definition, written out node by node."""

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize_scalar

import gnncal
import gnncal_lab
from gnncal_lab.methods.ratio_binned import same_class_ratio
from tests.calibrators.planted import draw, mean_log_loss
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def ratio_by_hand(logits, edges):
    probs = gnncal.calibrators.softmax(logits).astype(float)
    both = [*zip(*edges, strict=True), *zip(*edges[::-1], strict=True)]
    ratio = np.ones(len(logits))
    for i in range(len(logits)):
        senders = [j for j, receiver in both if receiver == i]
        if senders:
            ratio[i] = np.mean([probs[j, logits[i].argmax()] for j in senders])
    return ratio


@given(task=tasks())
def test_the_ratio_is_the_mean_over_symmetrised_edges_self_loops_included(task):
    np.testing.assert_allclose(
        same_class_ratio(gnncal.Nodes(task.logits, task.graph)),
        ratio_by_hand(task.logits, task.edges),
        atol=1e-6,
    )


def test_ratios_of_four_nodes_by_hand():
    # 0 -> 1, a loop at 1, node 3 alone. Everybody predicts class 0 with p, or class 1.
    logits = np.log([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.9, 0.1]])
    graph = gnncal.Graph([[0, 1, 2], [1, 1, 0]], 4)
    expected = [(0.6 + 0.3) / 2, (0.8 + 2 * 0.6) / 3, 0.2, 1.0]
    np.testing.assert_allclose(same_class_ratio(gnncal.Nodes(logits, graph)), expected, rtol=1e-12)


@pytest.fixture
def planted():
    """Nodes whose logits are overconfident where neighbours disagree."""
    generator = np.random.default_rng(0)
    n = 1200
    logits, labels = draw(n, 3, 0, temperature=1.0)
    graph = gnncal.Graph(generator.integers(0, n, size=(2, 2 * n)), n)
    ratio = same_class_ratio(gnncal.Nodes(logits, graph))
    truth = gnncal.calibrators.softmax(logits, np.where(ratio > 0.5, 0.7, 3.0))
    labels = (generator.random((n, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    return logits, labels, graph, ratio


def test_each_bin_has_the_temperature_that_a_scalar_search_finds(planted):
    logits, labels, graph, ratio = planted
    calibrator = gnncal_lab.RatioBinnedScaling(n_bins=3).fit(
        logits, labels, graph, calibration_nodes=np.arange(len(labels))
    )
    for b in range(3):
        inside = (ratio > b / 3) & (ratio <= (b + 1) / 3)
        best = minimize_scalar(
            lambda u, rows=inside: mean_log_loss(
                labels[rows], gnncal.calibrators.softmax(logits[rows], np.exp(u))
            ),
            bounds=(-3, 3),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert np.log(calibrator.bin_temperatures_[b]) == pytest.approx(best.x, abs=1e-4)
        assert (calibrator.temperature_[inside] == calibrator.bin_temperatures_[b]).all()


def test_planted_bins_are_found_and_beat_one_temperature(planted):
    logits, labels, graph, _ = planted
    calibrator = gnncal_lab.RatioBinnedScaling().fit(
        logits, labels, graph, calibration_nodes=np.arange(len(labels))
    )
    single = gnncal.calibrators.TemperatureScaling().fit(logits, labels)
    assert len(calibrator.bin_temperatures_) in (2, 4)  # both have an edge at 1/2
    np.testing.assert_allclose(calibrator.bin_temperatures_[[0, -1]], [3.0, 0.7], rtol=0.3)
    assert calibrator.fit_report_.loss_after < single.fit_report_.loss_after - 0.02


def test_an_empty_bin_keeps_the_logits_and_a_certain_one_stops_at_the_bound():
    # Isolated nodes: r = 1, so of two bins the first is empty; all correct, so T = 0.05.
    logits = np.tile([1.0, 0.0], (6, 1))
    with pytest.warns(gnncal.GnncalWarning, match="RatioBinnedScaling is not determined.* all 6"):
        calibrator = gnncal_lab.RatioBinnedScaling(n_bins=2).fit(
            logits,
            np.zeros(6, int),
            gnncal.Graph(np.zeros((2, 0), int), 6),
            calibration_nodes=range(6),
        )
    np.testing.assert_array_equal(calibrator.bin_temperatures_, [1.0, 0.05])
    assert calibrator.fit_report_.bounds_hit == ("bin_temperatures[1]",)


def test_bins_are_closed_on_the_right():
    from gnncal_lab.methods.ratio_binned import _bins

    ratio = np.array([0.0, 0.1, 1 / 3, 0.34, 2 / 3, 0.67, 1.0])
    np.testing.assert_array_equal(_bins(ratio, 3), [0, 0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(_bins(np.array([0.5, 0.5 + 1e-6]), 2), [0, 1])


def test_the_number_of_bins_must_be_positive():
    with pytest.raises(
        gnncal.InputError, match="n_bins is 0; expected a whole number of at least 1"
    ):
        gnncal_lab.RatioBinnedScaling(n_bins=0).fit(
            np.eye(3), np.arange(3), gnncal.Graph([[0], [1]], 3), calibration_nodes=range(3)
        )


def test_the_number_of_bins_has_the_lowest_loss_on_held_out_folds(planted):
    logits, labels, graph, ratio = planted
    nodes = np.arange(0, 1200, 4)
    z, y, r = logits[nodes], labels[nodes], ratio[nodes]
    fold = np.argsort(np.lexsort((gnncal.calibrators.softmax(z).max(axis=1), r))) % 5
    losses = {}
    for n_bins in (2, 3, 4):
        bins = np.maximum(np.ceil(r * n_bins) - 1, 0)
        temperature = np.ones(len(y))
        for f in range(5):
            for b in range(n_bins):
                rest = (fold != f) & (bins == b)
                if rest.any():
                    fitted = (
                        gnncal.calibrators.TemperatureScaling()
                        .fit(z[rest], y[rest])
                        .base_temperature_
                    )
                    temperature[(fold == f) & (bins == b)] = min(max(fitted, 0.05), 20)
        losses[n_bins] = mean_log_loss(y, gnncal.calibrators.softmax(z, temperature))
    calibrator = gnncal_lab.RatioBinnedScaling().fit(logits, labels, graph, calibration_nodes=nodes)
    assert len(calibrator.bin_temperatures_) == min(losses, key=losses.get)


def test_duplicate_edges_count_each_or_once():
    # Node 0 hears from node 1 three times and from node 2 once; 0 -> 1 goes the other way.
    edges = np.array([[1, 1, 1, 2, 0], [0, 0, 0, 0, 1]])
    probs = np.array([[0.6, 0.4], [0.9, 0.1], [0.3, 0.7]])
    graph, logits = gnncal.Graph(edges, 3), np.log(probs)
    each = gnncal_lab.RatioBinnedScaling()._ratio(gnncal.Nodes(logits, graph))
    once = gnncal_lab.RatioBinnedScaling(merge_duplicate_edges=True)._ratio(
        gnncal.Nodes(logits, graph)
    )
    assert each[0] == pytest.approx((4 * 0.9 + 0.3) / 5)
    assert once[0] == pytest.approx((2 * 0.9 + 0.3) / 3)


def test_merging_edges_is_the_ratio_of_the_release_on_a_dense_matrix():
    generator = np.random.default_rng(0)
    n = 40
    edges = generator.integers(0, n - 1, size=(2, 300))  # many duplicates, some loops, 39 isolated
    logits = generator.normal(size=(n, 3))
    once = np.zeros((n, n))
    once[tuple(edges)] = 1.0  # assigned, not added
    both = once + once.T
    probs, predictions = gnncal.calibrators.softmax(logits), logits.argmax(axis=1)
    degree = both.sum(axis=1)
    sums = (both @ probs)[np.arange(n), predictions]
    expected = np.where(degree > 0, sums / np.maximum(degree, 1), 1.0)
    calibrator = gnncal_lab.RatioBinnedScaling(merge_duplicate_edges=True)
    found = calibrator._ratio(gnncal.Nodes(logits, gnncal.Graph(edges, n)))
    np.testing.assert_allclose(found, expected)
    labels = generator.integers(0, 3, n)
    graph = gnncal.Graph(edges, n)
    calibrator.fit(logits, labels, graph, calibration_nodes=np.arange(n))
    merged = gnncal.Graph(np.stack(np.nonzero(once)), n)
    plain = gnncal_lab.RatioBinnedScaling().fit(
        logits, labels, merged, calibration_nodes=np.arange(n)
    )
    np.testing.assert_array_equal(
        calibrator.predict_proba(logits, gnncal.Graph(edges, n)),
        plain.predict_proba(logits, merged),
    )
