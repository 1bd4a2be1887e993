"""Exact intervals of a share, worked out by hand and by the binomial sums that define them."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics
from gnncal.data.errors import InputError

from .outcomes import law, top_label


def at_least(hits, n, p):
    """Chance of that many successes or more, summed term by term."""
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(hits, n + 1))


def test_no_success_and_nothing_but_successes_by_hand():
    # (1 - p)^5 = 0.025 at p = 1 - 0.025^(1/5), and the mirror image of it.
    low, high = metrics.clopper_pearson([0, 5], [5, 5])
    edge = 1 - 0.025 ** (1 / 5)
    np.testing.assert_allclose(low, [0.0, 1 - edge])
    np.testing.assert_allclose(high, [edge, 1.0])


@law
@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_each_end_leaves_its_tail_of_the_binomial(case):
    hits, n = case
    low, high = metrics.clopper_pearson(hits, n, level=0.9)
    if hits > 0:
        assert at_least(hits, n, float(low)) == pytest.approx(0.05, abs=1e-9)
    if hits < n:
        assert 1 - at_least(hits + 1, n, float(high)) == pytest.approx(0.05, abs=1e-9)
    assert 0 <= low <= hits / n <= high <= 1


def test_without_a_trial_there_is_no_interval():
    low, high = metrics.clopper_pearson([0, 1], [0, 2])
    np.testing.assert_array_equal(np.isnan(low), [True, False])
    np.testing.assert_array_equal(np.isnan(high), [True, False])


def test_bins_know_the_interval_of_their_accuracy():
    labels, probs = top_label([0.55, 0.65, 0.6, 0.9, 1.0], [1, 0, 0, 0, 1])
    bins = metrics.reliability_bins(labels, probs, n_bins=4)
    low, high = bins.accuracy_interval(0.9)
    expected = metrics.clopper_pearson([1, 1], [3, 2], level=0.9)
    np.testing.assert_array_equal(low, [np.nan, np.nan, *expected[0]])
    np.testing.assert_array_equal(high, [np.nan, np.nan, *expected[1]])


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_a_level_outside_zero_and_one_is_refused(level):
    with pytest.raises(InputError, match="level is"):
        metrics.clopper_pearson(1, 2, level=level)


def test_more_successes_than_trials_are_refused():
    with pytest.raises(InputError, match="above trials"):
        metrics.clopper_pearson(3, 2)
