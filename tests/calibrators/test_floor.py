"""No probability is more certain than the labels allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gnncal
from gnncal.math.formulas import floored
from gnncal.math.structural_fit import class_shares, floor_of, mixing_weight

FAMILY = ("structural", "structural-free", "structural-vector", "structural-temperature")
shares = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


def straight_line_weight(p, q, doubt=1.0):
    """The posterior mean of the weight on a fine grid, without any trick."""
    total = mean = 0.0
    n_steps = 20_000
    logs = []
    for step in range(n_steps):
        epsilon = (step + 0.5) / n_steps
        log_density = (doubt - 1.0) * np.log(1.0 - epsilon)
        for own, background in zip(p, q, strict=True):
            log_density += np.log(max((1.0 - epsilon) * own + epsilon * background, 1e-300))
        logs.append(log_density)
    largest = max(logs)
    for step, log_density in enumerate(logs):
        density = np.exp(log_density - largest)
        total += density
        mean += density * (step + 0.5) / n_steps
    return mean / total


@pytest.mark.parametrize(
    ("p", "q", "doubt"),
    [
        ([0.9, 0.5, 0.99, 0.01], [0.7, 0.3, 0.7, 0.3], 1.0),
        ([0.9] * 20 + [1e-9], [0.5] * 21, 1.0),
        ([0.2, 0.2, 0.3], [0.5, 0.5, 0.5], 1.0),
        ([1.0] * 8, [0.1] * 8, 12.0),
    ],
)
def test_the_weight_is_that_of_a_straight_line_reimplementation(p, q, doubt):
    found = mixing_weight(np.array(p), np.array(q), doubt=doubt)
    assert found == pytest.approx(straight_line_weight(p, q, doubt), rel=1e-3)


@pytest.mark.parametrize("n", [1, 10, 1000, 100_000])
def test_labels_that_never_contradict_leave_the_weight_of_laplaces_rule(n):
    """∫ ε (1 - ε)^n / ∫ (1 - ε)^n = 1 / (n + 2)."""
    assert mixing_weight(np.ones(n), np.zeros(n)) == pytest.approx(1 / (n + 2), rel=1e-9)


def test_weights_by_hand():
    one = np.ones(1)
    assert mixing_weight(0 * one, one) == pytest.approx(2 / 3)  # the density is 2 ε
    assert mixing_weight(0.3 * one, 0.3 * one) == pytest.approx(1 / 2)  # the labels say nothing
    assert mixing_weight(one, 0 * one, doubt=7.0) == pytest.approx(1 / 9)  # Beta(1, 8)


@given(shares, st.floats(0.01, 0.99), st.integers(0, 29))
def test_the_weight_is_at_least_that_of_laplaces_rule_and_rises_with_contradiction(p, q, at):
    p = np.array(p)
    background = np.full(len(p), q)
    weight = mixing_weight(p, background)
    assert 1 / (len(p) + 2) * (1 - 1e-9) <= weight < 1
    less = p.copy()
    less[at % len(p)] /= 2
    assert mixing_weight(less, background) >= weight - 1e-9


@given(shares, st.integers(1, 4))
def test_a_node_of_weight_k_counts_as_k_nodes(p, k):
    p, q = np.array(p), np.full(len(p), 0.4)
    repeated = mixing_weight(np.repeat(p, k), np.repeat(q, k))
    assert mixing_weight(p, q, np.full(len(p), float(k))) == pytest.approx(repeated)


@given(st.integers(2, 6), st.floats(0.0, 0.5), st.integers(0, 2**32 - 1))
def test_a_floor_raises_small_probabilities_and_keeps_order_and_sums(n_classes, weight, seed):
    probs = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.1), size=5)
    mixed = floored(probs, np.full(n_classes, weight / n_classes))
    assert (mixed >= weight / n_classes * (1 - 1e-12)).all()
    np.testing.assert_allclose(mixed.sum(axis=1), 1.0)
    by_class = np.argsort(probs, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(mixed, by_class, axis=1), axis=1) >= 0).all()


def test_no_class_is_without_a_share():
    """√4 = 2 nodes more of each."""
    np.testing.assert_allclose(class_shares(np.array([0, 0, 0, 1]), 3), [0.5, 0.3, 0.2])


@settings(max_examples=30)
@given(st.integers(2, 3000), st.floats(0.0, 1.0), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_a_floor_bounds_every_probability_by_the_number_of_labels(n, rate, n_classes, seed):
    """1 - 1/(10 n) is the most that anything can have, even if nearly all labels are alike."""
    generator = np.random.default_rng(seed)
    labels = np.where(generator.random(n) < rate, generator.integers(n_classes, size=n), 0)
    certain = np.eye(n_classes)[labels]
    for background in (class_shares(labels, n_classes), np.full(n_classes, 1 / n_classes)):
        floor = floor_of(certain, labels, background)
        assert floored(np.eye(n_classes), floor).max() <= 1 - 1 / (10 * n)


@pytest.fixture(scope="module")
def fraud():
    """Logits of ±30 that tell a rare class nearly perfectly, from a model that is too certain."""
    generator = np.random.default_rng(0)
    n = 600
    labels = (generator.random(n) < 0.06).astype(int)
    margin = 60.0 * (labels - 0.5) + generator.normal(size=n)
    margin[::97] *= -1  # and is wrong now and then
    edges = generator.integers(n, size=(2, 1500))
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    logits = np.stack([-margin / 2, margin / 2], axis=1)
    return logits, labels, gnncal.Graph(edges, n), np.arange(300)


@pytest.mark.parametrize("method", FAMILY)
def test_no_probability_of_the_family_is_more_certain_than_the_labels_allow(
    method, fraud, tmp_path
):
    logits, labels, graph, nodes = fraud
    fitted = gnncal.get_calibrator(method).fit(logits, labels, graph, calibration_nodes=nodes)
    probs = fitted.predict_proba(1000 * logits, graph)
    assert probs.max() <= 1 - 1 / (10 * len(nodes))
    assert fitted.floor_.sum() >= 1 / (300 + 300**0.5 + 1)
    if fitted.preserves_predictions:
        np.testing.assert_array_equal(probs.argmax(axis=1), logits.argmax(axis=1))
    fitted.save(tmp_path / "c.safetensors")
    again = gnncal.load(tmp_path / "c.safetensors").predict_proba(1000 * logits, graph)
    np.testing.assert_array_equal(again, probs)


@pytest.mark.parametrize("method", FAMILY)
def test_new_labels_that_agree_lower_the_floor(method, fraud):
    logits, labels, graph, nodes = fraud
    fitted = gnncal.get_calibrator(method).fit(logits, labels, graph, calibration_nodes=nodes)
    new = np.setdiff1d(np.arange(300, 600), np.flatnonzero(labels != logits.argmax(axis=1)))
    agreed = fitted.update(logits, labels, graph, calibration_nodes=new)
    assert agreed.floor_.sum() < fitted.floor_.sum()


def test_a_second_fit_does_not_remember_the_floor_of_the_first(fraud):
    logits, labels, graph, nodes = fraud
    calibrator = gnncal.calibrators.Structural().fit(logits, labels, graph, calibration_nodes=nodes)
    first = calibrator.floor_
    again = calibrator.fit(logits, labels, graph, calibration_nodes=nodes).floor_
    np.testing.assert_array_equal(again, first)
