"""The paper's random splits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnncal_lab.datasets import random_split


@given(st.integers(0, 500), st.integers(0, 2**32 - 1))
def test_a_split_is_a_partition_of_the_nodes(n_nodes, seed):
    split = random_split(n_nodes, seed)
    assert sorted(np.concatenate(split).tolist()) == list(range(n_nodes))


def test_shares_are_20_10_70_and_fresh_for_each_seed():
    split, other = random_split(183, 0), random_split(183, 1)
    assert [len(part) for part in split] == [36, 18, 129]
    assert set(split.train_nodes) != set(other.train_nodes)
    np.testing.assert_array_equal(split.train_nodes, random_split(183, 0).train_nodes)


def test_splits_are_numpys_legacy_shuffle_and_leave_its_global_state_alone():
    np.random.seed(7)  # noqa: NPY002
    expected = np.arange(50)
    np.random.shuffle(expected)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    np.testing.assert_array_equal(np.concatenate(random_split(50, 7)), expected)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
