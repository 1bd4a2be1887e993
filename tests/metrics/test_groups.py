"""Calibration by group of nodes and by degree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gnncal import metrics
from gnncal.data.errors import InputError
from gnncal.metrics.binning import check_groups

from .outcomes import degree_blocks, law, outcomes, top_label


def test_grouped_error_by_hand():
    # a: confidence 0.7, accuracy 1, gap -0.3 on 2/5; b: confidence 0.8, accuracy 1/3 on 3/5.
    labels, probs = top_label([0.6, 0.7, 0.8, 0.8, 0.9], [1, 1, 1, 0, 0])
    groups = np.array(["a", "b", "a", "b", "b"])
    error = metrics.calibration_by_group(labels, probs, groups).error
    assert error == pytest.approx(0.4 * 0.3 + 0.6 * (0.8 - 1 / 3))  # 0.12 + 0.28
    cells = metrics.calibration_by_group(labels, probs, groups)
    assert cells.group.tolist() == ["a", "b"]
    np.testing.assert_array_equal(cells.count, [2, 3])
    np.testing.assert_allclose(cells.confidence, [0.7, 0.8])
    np.testing.assert_allclose(cells.accuracy, [1.0, 1 / 3])


def test_opposite_gaps_cancel_within_a_group_and_add_up_across_groups():
    labels, probs = top_label([0.8, 0.6], [0, 1])  # gaps +0.8 and -0.4
    assert metrics.calibration_by_group(labels, probs, [7, 7]).error == pytest.approx(0.2)
    assert metrics.calibration_by_group(labels, probs, [7, 8]).error == pytest.approx(0.6)


def test_eleven_nodes_make_six_degree_blocks():
    # Blocks of ceil(11 / 10) = 2 nodes: five pairs and one node alone.
    degree = np.arange(11)[::-1]
    expected = [5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    np.testing.assert_array_equal(degree_blocks(degree), expected)


def test_degree_ece_by_hand():
    # Confidence 0.8 everywhere; by rising degree the hits are 11 | 10 | 00 | 11 | 10 | 1,
    # so the gaps are 0.2, 0.3, 0.8, 0.2, 0.3 on two nodes each and 0.2 on one.
    hits = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1])
    degree = np.arange(11)[::-1]
    labels, probs = top_label([0.8] * 11, hits[degree])
    expected = (2 * (0.2 + 0.3 + 0.8 + 0.2 + 0.3) + 0.2) / 11
    assert metrics.METRICS["degree_ece"](labels, probs, degree) == pytest.approx(expected)


def test_equal_degrees_are_split_by_position():
    np.testing.assert_array_equal(degree_blocks([3, 3, 3, 3]), [0, 1, 2, 3])
    np.testing.assert_array_equal(degree_blocks([3, 1, 3, 1]), [2, 0, 3, 1])
    many_ties = np.tile([2, 1], 500)  # an unstable sort would mix these up
    blocks = degree_blocks(many_ties)
    assert (np.diff(blocks[::2]) >= 0).all()
    assert (np.diff(blocks[1::2]) >= 0).all()


@law
@given(arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 5)))
def test_degree_blocks_are_full_but_the_last_and_rise_with_degree(degree):
    blocks = degree_blocks(degree)
    sizes = np.bincount(blocks)
    assert len(sizes) <= 10
    assert (sizes[:-1] == -(-len(degree) // 10)).all()
    assert (np.diff(blocks[np.argsort(degree, kind="stable")]) >= 0).all()


@law
@given(outcomes(), st.data())
def test_refining_groups_never_lowers_the_error(case, data):
    labels, probs = case
    fine = data.draw(arrays(np.int64, len(labels), elements=st.integers(0, 5)))
    errors = [
        metrics.calibration_by_group(labels, probs, groups).error
        for groups in (np.zeros_like(fine), fine // 2, fine, np.arange(len(fine)))
    ]
    assert (np.diff(errors) >= -1e-12).all()
    assert errors[0] >= 0.0
    assert errors[-1] <= 1.0 + 1e-12


@law
@given(outcomes(), st.data())
def test_names_of_groups_and_order_of_nodes_do_not_matter(case, data):
    labels, probs = case
    groups = data.draw(arrays(np.int64, len(labels), elements=st.integers(0, 5)))
    order = np.array(data.draw(st.permutations(range(len(labels)))))
    error = metrics.calibration_by_group(labels, probs, groups).error
    renamed = np.array(["z", "y", "x", "w", "v", "u"])[groups]
    assert metrics.calibration_by_group(labels, probs, renamed).error == pytest.approx(error)
    moved = metrics.calibration_by_group(labels[order], probs[order], groups[order]).error
    assert moved == pytest.approx(error)


@law
@given(outcomes())
def test_groups_that_are_the_bins_give_the_ece(case):
    labels, probs = case
    bins = np.searchsorted(np.arange(1, 15) / 15, probs.max(axis=1))
    error = metrics.calibration_by_group(labels, probs, bins).error
    assert error == pytest.approx(metrics.expected_calibration_error(labels, probs))


def test_unusable_groups_or_degrees_are_named():
    labels, probs = top_label([0.8, 0.6], [0, 1])
    with pytest.raises(InputError, match=r"groups has shape \(3,\) but probs has 2 rows"):
        metrics.calibration_by_group(labels, probs, [0, 1, 2])
    with pytest.raises(InputError, match="degree"):
        metrics.METRICS["degree_ece"](labels, probs, [0, 1, 2])
    with pytest.raises(InputError, match=r"in_degree has shape \(0,\)"):
        metrics.METRICS["degree_ece"](labels, probs, [])
    with pytest.raises(InputError, match=r"in_degree has shape \(1, 2\)"):
        metrics.METRICS["degree_ece"].floor(metrics.Outcomes(labels, probs, [[1, 2]]))


@given(
    arrays(np.int16, st.integers(1, 20), elements=st.integers(-2, 25)),
    st.sampled_from([np.int16, np.int64, np.uint64]),
)
def test_groups_by_number_are_those_that_a_sort_finds(groups, dtype):
    groups = groups.astype(dtype)
    found, wanted = check_groups(groups, groups.size), np.unique(groups, return_inverse=True)
    assert found[0].dtype == groups.dtype
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
