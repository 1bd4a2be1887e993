"""Statistics worked out by hand, or as SciPy has them."""

import numpy as np
import pytest
from scipy import stats

from gnncal.data.errors import InputError
from gnncal_lab.bench.summary import (
    average_present,
    compare_paired,
    critical_difference,
    holm,
    mean_ranks,
    mid_ranks,
    spread_of_seeds,
)

NAN = np.nan


def test_ties_share_their_ranks_and_missing_entries_have_none():
    table = np.array([[3.0, 1.0, 1.0, 7.0], [NAN, 2.0, 5.0, 4.0]])
    np.testing.assert_array_equal(mid_ranks(table), [[3, 1.5, 1.5, 4], [NAN, 1, 3, 2]])
    np.testing.assert_array_equal(mean_ranks(table), [3, 1.25, 2.25, 3])


def test_averages_are_over_the_entries_present():
    table = np.array([[1.0, NAN, NAN], [3.0, 5.0, NAN]])
    np.testing.assert_array_equal(average_present(table), [2.0, 5.0, NAN])


def test_spread_divides_by_one_less():
    assert spread_of_seeds(np.array([1.0, 3.0])) == 1
    assert np.isnan(spread_of_seeds(np.array([1.0])))


def test_holm_by_hand():
    # Sorted .01 .02 .03 .5 times 4 3 2 1, then never decreasing, at most one.
    found = holm(np.array([0.03, 0.01, 0.5, 0.02]))
    np.testing.assert_allclose(found, [0.06, 0.04, 0.5, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1.0, 1.0])


def test_holm_leaves_out_tests_that_were_not_made():
    np.testing.assert_allclose(holm(np.array([NAN, 0.01, 0.04])), [NAN, 0.02, 0.04])


def test_paired_comparison_by_hand_and_by_scipy():
    reference = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    method = np.array([0.5, 2.0, 2.0, 4.5, 3.5, 4.0])
    found = compare_paired(method, reference, ["a", "a", "b", "b", "c", "c"])
    # Graph means: a (-0.5 + 0) / 2, b (-1 + 0.5) / 2, c (-1.5 - 2) / 2.
    graphs = np.array([-0.25, -0.25, -1.75])
    assert found.n_graphs == 3
    assert found.mean_difference == pytest.approx(-0.75)
    assert found.win_rate == 1.0
    assert found.p_value == stats.wilcoxon(graphs).pvalue
    # The worst draw has only a and b, the best c three times.
    assert (found.low, found.high) == pytest.approx((-1.75, -0.25))


def test_two_backbones_of_one_graph_are_one_unit():
    once = compare_paired(np.arange(6.0), np.ones(6), list("abcdef"))
    twice = compare_paired(np.repeat(np.arange(6.0), 2), np.ones(12), list("aabbccddeeff"))
    assert once == twice


def test_texas_and_cornell_are_one_unit():
    found = compare_paired(np.array([1.0, 3.0, 0.0]), np.zeros(3), ["Texas", "Cornell", "Cora"])
    assert (found.n_graphs, found.mean_difference) == (2, 1.0)


def test_the_bootstrap_is_determined_by_its_seed():
    generator = np.random.default_rng(0)
    method, reference = generator.random((2, 40))
    graphs = [f"g{i // 2}" for i in range(40)]
    first = compare_paired(method, reference, graphs, seed=3)
    assert first == compare_paired(method, reference, graphs, seed=3)
    assert first.low < first.mean_difference < first.high


def test_equal_methods_tie_and_pairs_without_partner_are_left_out():
    values = np.array([1.0, 2.0, NAN])
    found = compare_paired(values, np.array([1.0, 2.0, 3.0]), ["a", "b", "c"])
    assert (found.n_graphs, found.p_value, found.win_rate) == (2, 1.0, 0.5)
    nothing = compare_paired(np.array([NAN]), np.array([1.0]), ["a"])
    assert nothing.n_graphs == 0
    assert np.isnan(nothing.p_value)
    with pytest.raises(InputError, match="pass pairs"):
        compare_paired(values, values, ["a"])


def test_critical_difference_as_published():
    # Demsar (2006), table 6 and its text: k = 4 classifiers, 14 data sets, q = 2.569, CD = 1.25.
    generator = np.random.default_rng(1)
    table = generator.random((14, 4))
    found = critical_difference(table)
    assert found.difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert found.p_value == stats.friedmanchisquare(*table.T).pvalue
    np.testing.assert_allclose(found.mean_rank, stats.rankdata(table, axis=1).mean(axis=0))


def test_critical_difference_needs_complete_rows():
    table = np.array([[1.0, 2.0, 3.0], [1.0, NAN, 3.0], [3.0, 2.0, 1.0]])
    assert critical_difference(table).n_rows == 2
    assert np.isnan(critical_difference(table[:2]).difference)
