"""The noise floor against every outcome counted, and against drawn labels."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from gnncal.metrics import calibration_floor, expected_calibration_error
from gnncal.metrics.floor import (
    HitCount,
    calibrated_range,
    floor_of_cells,
    floor_of_hits,
)


def two_classes(confidence):
    confidence = np.asarray(confidence, dtype=np.float64)
    return np.stack([confidence, 1 - confidence], axis=1)


def by_enumeration(confidence, cell):
    """Mean and deviation of the error over all outcomes, each with its probability."""
    confidence, errors, weights = np.asarray(confidence), [], []
    for hits in product([0, 1], repeat=len(confidence)):
        gap = np.bincount(cell, weights=confidence - np.array(hits))
        errors.append(np.abs(gap).sum() / len(confidence))
        weights.append(np.prod(np.where(hits, confidence, 1 - confidence)))
    mean = np.dot(weights, errors)
    return mean, np.sqrt(np.dot(weights, (np.array(errors) - mean) ** 2))


def test_one_node_misses_by_twice_its_variance():
    # |c - hit| is 1 - c with probability c and c with probability 1 - c.
    floor = calibration_floor(two_classes([0.8]))
    assert floor.mean == pytest.approx(2 * 0.8 * 0.2, abs=1e-12)
    assert floor.spread == pytest.approx(np.sqrt(0.8 * 0.2 - 0.32**2), abs=1e-12)


def test_floor_is_the_mean_over_all_outcomes():
    confidence = [0.55, 0.57, 0.59, 0.81, 0.83, 0.85, 0.97, 0.99, 1.0]
    cell = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    mean, spread = by_enumeration(confidence, cell)
    floor = floor_of_cells(np.array(confidence), np.array(cell))
    assert (floor.mean, floor.spread) == pytest.approx((mean, spread), abs=1e-10)
    in_bins = by_enumeration(confidence, np.ceil(np.array(confidence) * 5).astype(int) - 1)
    floor = calibration_floor(two_classes(confidence), n_bins=5)
    assert (floor.mean, floor.spread) == pytest.approx(in_bins, abs=1e-10)


@pytest.mark.parametrize("n_nodes", [40, 3000, 40_000])
def test_floor_agrees_with_drawn_labels(n_nodes):
    generator = np.random.default_rng(n_nodes)
    confidence = 1 - 0.5 * generator.beta(0.3, 2.0, n_nodes)
    probs = two_classes(confidence)
    drawn = np.mean(
        [
            expected_calibration_error(generator.random(n_nodes) >= confidence, probs)
            for _ in range(400)
        ]
    )
    floor = calibration_floor(probs)
    assert floor.mean == pytest.approx(drawn, abs=4 * floor.spread / np.sqrt(400) + 0.01 * drawn)


@pytest.mark.parametrize("count", [[3, 0, 5, 30], [70, 1, 0, 2]])
def test_a_chance_counted_often_is_so_many_nodes(count):
    chance = np.array([0.5, 0.7, 0.31, 0.999])
    together, apart = (
        HitCount.of(chance, np.array(count, float)),
        HitCount.of(np.repeat(chance, count)),
    )
    assert together.variance == pytest.approx(apart.variance)
    assert together.deviation == pytest.approx(apart.deviation, rel=1e-12)


def test_certain_nodes_have_no_floor():
    floor = calibration_floor(two_classes(np.ones(50)))
    assert (floor.mean, floor.spread) == pytest.approx((0, 0), abs=1e-9)


def test_floor_of_one_large_and_one_tiny_cell_by_hand():
    tiny = HitCount.of(np.array([0.5 + np.sqrt(0.24)]))  # a variance of 0.01
    floor = floor_of_hits([HitCount(100.0, np.empty(0)), tiny], 1000.0)
    assert floor.mean == pytest.approx((np.sqrt(200 / np.pi) + 0.02) / 1000)


@pytest.mark.parametrize(("n_nodes", "chance"), [(5, 0.3), (60, 0.02), (40, 0.5), (400, 0.5)])
def test_the_range_of_hits_is_that_of_the_binomial_distribution(n_nodes, chance):
    edges = np.array([0.0, 1.0])
    low, high = calibrated_range(np.full(n_nodes, chance), edges, 0.9)
    hits = n_nodes * np.append(low, high)
    expected = binom.ppf([0.05, 0.95], n_nodes, chance)
    # Large bins count as normal: their ends lie between whole numbers.
    np.testing.assert_allclose(hits, expected, atol=1e-9 if n_nodes < 100 else 1.0)


def test_bins_without_nodes_have_no_range_and_certain_ones_a_point():
    low, high = calibrated_range(np.zeros(3), np.array([0.0, 0.5, 1.0]), 0.95)
    np.testing.assert_array_equal(low, [0.0, np.nan])
    np.testing.assert_array_equal(high, [0.0, np.nan])
