"""Calibration by group of nodes and by degree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gnncal import metrics
from gnncal.data.errors import InputError
from gnncal.metrics.binning import check_groups

from .outcomes import degree_blocks, law, outcomes, simulate, softmax, top_label


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


def test_degree_ece_of_tied_nodes_by_hand():
    # Twenty nodes in ten blocks of two. Confidence 0.8, so a block with 2, 1, 0 hits has the gap
    # 0.4, 0.6, 1.6. The first five blocks have degree 0: no tie matters, since all ten are hits.
    # Degree 1: five of ten are hits; a pair has 2, 1, 0 of them with chance 2/9, 5/9, 2/9.
    labels, probs = top_label([0.8] * 20, [1] * 10 + [1, 0] * 5)
    expected = 5 * (0.4 + (2 * 0.4 + 5 * 0.6 + 2 * 1.6) / 9) / 20
    found = metrics.METRICS["degree_ece"](labels, probs, [0] * 10 + [1] * 10)
    assert found == pytest.approx(expected, abs=1e-9)


def test_degree_ece_of_one_node_per_block_by_hand():
    # Four nodes of one degree in four blocks: each block is any of them, with gap 0.2 or 0.8.
    labels, probs = top_label([0.8] * 4, [1, 0, 1, 1])
    found = metrics.METRICS["degree_ece"](labels, probs, [3] * 4)
    assert found == pytest.approx((3 * 0.2 + 0.8) / 4, abs=1e-9)


@pytest.mark.slow
@law
@given(outcomes(max_nodes=60), st.data())
def test_degree_ece_is_the_same_in_any_order_of_nodes(case, data):
    labels, probs = case
    degree = data.draw(arrays(np.int64, len(labels), elements=st.integers(0, 5)))
    order = np.array(data.draw(st.permutations(range(len(labels)))))
    metric = metrics.METRICS["degree_ece"]
    listed = metrics.Outcomes(labels, probs, degree)
    moved = metrics.Outcomes(labels[order], probs[order], degree[order])
    assert metric.of(moved) == pytest.approx(metric.of(listed), abs=1e-9)
    assert metric.floor(moved).mean == pytest.approx(metric.floor(listed).mean, abs=1e-9)


def drawn_orders(labels, probs, degree, n_orders=4000):
    """Mean and standard error of the error, each time with tied nodes in another order."""
    generator = np.random.default_rng(3)
    rest = (probs.argmax(axis=1) == labels) - probs.max(axis=1)
    errors = []
    for _ in range(n_orders):
        order = generator.permutation(len(labels))
        sums = np.bincount(degree_blocks(degree[order]), rest[order])
        errors.append(np.abs(sums).sum() / len(labels))
    return np.mean(errors), np.std(errors) / np.sqrt(n_orders)


@pytest.mark.parametrize("n_nodes", [20, 130, 1000])
@pytest.mark.parametrize("kind", ["few ties", "many ties", "one degree", "nearly sure"])
def test_degree_ece_is_the_mean_over_orders_of_tied_nodes(n_nodes, kind):
    labels, probs = simulate(n_nodes, sharpness=0.6, seed=4)
    if kind == "nearly sure":  # a block has few misses, so its sum is far from normal
        probs = softmax(8 * np.log(probs))
    generator = np.random.default_rng(5)
    degree = generator.poisson({"few ties": 30, "one degree": 0}.get(kind, 1), n_nodes)
    mean, error = drawn_orders(labels, probs, degree)
    found = metrics.METRICS["degree_ece"](labels, probs, degree)
    assert found == pytest.approx(mean, abs=0.02 * mean + 3 * error)


@pytest.mark.slow
def test_degree_floor_is_the_mean_error_of_calibrated_labels():
    probs = simulate(200)[1]
    degree = np.random.default_rng(6).poisson(1, 200)
    metric, edges = metrics.METRICS["degree_ece"], probs.cumsum(axis=1)[:, :-1]
    generator = np.random.default_rng(7)
    drawn = [(generator.random((200, 1)) >= edges).sum(axis=1) for _ in range(400)]
    errors = [metric(labels, probs, degree) for labels in drawn]
    floor = metric.floor(metrics.Outcomes(drawn[0], probs, degree))
    assert floor.mean == pytest.approx(np.mean(errors), rel=0.03)


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
