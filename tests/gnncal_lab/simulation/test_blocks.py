"""Independent edges by the gaps between successes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal_lab.simulation.blocks import _triangle, bernoulli_positions, sample_block_edges


@given(st.integers(0, 300), st.floats(0, 1), st.integers(0, 5))
def test_positions_are_sorted_distinct_and_in_range(size, p, seed):
    found = bernoulli_positions(size, p, np.random.default_rng(seed))
    assert (np.diff(found) > 0).all()
    assert found.size == 0 or (found[0] >= 0 and found[-1] < size)


def test_certain_trials_all_succeed_and_impossible_ones_never():
    generator = np.random.default_rng(0)
    np.testing.assert_array_equal(bernoulli_positions(50, 1.0, generator), np.arange(50))
    assert bernoulli_positions(50, 0.0, generator).size == 0
    assert bernoulli_positions(10**15, 1e-15, generator).size < 20  # gaps beyond the end


def test_every_position_succeeds_equally_often():
    generator = np.random.default_rng(0)
    hits = np.zeros(40)
    for _ in range(4000):
        hits[bernoulli_positions(40, 0.3, generator)] += 1
    assert np.abs(hits / 4000 - 0.3).max() < 4 * np.sqrt(0.3 * 0.7 / 4000)


def test_the_triangle_counts_rows_below_the_diagonal():
    row, column = _triangle(np.arange(45))
    expected = np.tril_indices(10, -1)
    np.testing.assert_array_equal(row, expected[0])
    np.testing.assert_array_equal(column, expected[1])
    far = np.array([3 * 10**15, 3 * 10**15 + 1])  # where the square root rounds
    row, column = _triangle(far)
    np.testing.assert_array_equal(row * (row - 1) // 2 + column, far)
    assert (column < row).all()


@pytest.mark.parametrize(("p_in", "p_out"), [(1.0, 0.0), (0.0, 1.0)])
def test_extreme_probabilities_give_cliques_or_all_pairs_between_classes(p_in, p_out):
    labels = np.array([2, 0, 1, 0, 2, 2, 1, 0])
    pairs = sample_block_edges(labels, p_in, p_out, np.random.default_rng(0))
    found = {frozenset(pair) for pair in pairs.T.tolist()}
    expected = {
        frozenset((i, j))
        for i in range(8)
        for j in range(i)
        if (labels[i] == labels[j]) == (p_in == 1.0)
    }
    assert found == expected
    assert pairs.shape[1] == len(expected)
