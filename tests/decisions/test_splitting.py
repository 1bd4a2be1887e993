"""Nodes are held out at random, and a rare class is not short in one of the parts."""

import numpy as np
import pytest

import gnncal
from gnncal.decisions import hold_out

GENERATOR = np.random.default_rng(0)
LABELS = (GENERATOR.random(2000) < 0.04).astype(int)
LABELS[::50] = 2


@pytest.mark.parametrize("share", [0.5, 0.3, 0.77])
@pytest.mark.parametrize("seed", range(5))
def test_both_parts_have_their_share_of_every_class(share, seed):
    nodes = np.sort(np.random.default_rng(seed).choice(2000, size=900, replace=False))
    fitted, held = hold_out(nodes, labels=LABELS, share=share, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([fitted, held])), nodes)
    assert held.size == round(share * nodes.size)
    counts = np.bincount(LABELS[held], minlength=3)
    assert (np.abs(counts - share * np.bincount(LABELS[nodes])) <= 1).all()


def test_within_a_class_every_node_is_as_likely_to_be_held_out():
    labels = np.array([0] * 7 + [1] * 3)
    held = np.zeros(10)
    for seed in range(2000):
        held[hold_out(range(10), labels=labels, random_state=seed)[1]] += 1
    for c in (0, 1):
        share = held[labels == c] / 2000
        assert np.abs(share - share.mean()).max() < 4 * np.sqrt(0.25 / 2000)


def test_without_labels_the_draw_is_what_it_was():
    fitted, held = hold_out(range(10), random_state=3)
    order = np.random.default_rng(3).permutation(10)
    np.testing.assert_array_equal(held, np.sort(order[:5]))
    np.testing.assert_array_equal(fitted, np.sort(order[5:]))


@pytest.mark.parametrize(
    ("nodes", "labels", "message"),
    [
        (range(4), [0, 1, -1, 0], "1 of the nodes have the label -1"),
        ([5], [0, 1, 0], "names nodes 5..5 but there are only 0..2"),
        (np.ones(4, bool), [0, 1, 0], "mask of 4 entries but there are 3"),
    ],
)
def test_labels_that_do_not_fit_the_nodes_are_refused(nodes, labels, message):
    with pytest.raises(gnncal.InputError, match=message):
        hold_out(nodes, labels=labels)
