"""Nodes are held out at random, and a rare class is not short in one of the parts."""

import warnings

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
        (range(4), [0, 1, -1, 0], "some of the nodes have the label -1"),
        ([5], [0, 1, 0], "names nodes 5..5 but there are only 0..2"),
        (np.ones(4, bool), [0, 1, 0], "mask of 4 entries but there are 3"),
    ],
)
def test_labels_that_do_not_fit_the_nodes_are_refused(nodes, labels, message):
    with pytest.raises(gnncal.InputError, match=message):
        hold_out(nodes, labels=labels)


@pytest.mark.parametrize("share", [0.5, 0.25])
@pytest.mark.parametrize("named", [False, True])
def test_no_group_is_divided_and_both_parts_have_their_share_of_every_class(share, named):
    accounts = np.random.default_rng(1).geometric(0.01, size=2000)  # a few have very many items
    groups = np.char.add("account ", accounts.astype(str)) if named else accounts
    nodes = np.arange(0, 2000, 2)
    fitted, held = hold_out(nodes, labels=LABELS, groups=groups, share=share)
    assert not np.isin(groups[fitted], groups[held]).any()
    np.testing.assert_array_equal(np.sort(np.concatenate([fitted, held])), nodes)
    assert abs(held.size / nodes.size - share) < 0.02
    counts = np.bincount(LABELS[held], minlength=3) / np.bincount(LABELS[nodes])
    assert np.abs(counts - share).max() < 0.25
    assert hold_out(nodes, groups=groups, share=share)[1].size > 0


def test_one_group_cannot_be_split():
    with pytest.raises(gnncal.InputError, match="or one group"):
        hold_out(range(4), groups=[7, 7, 7, 7])
    with pytest.raises(gnncal.InputError, match="one group for each node"):
        hold_out(range(4), groups=[7, 7])


def test_where_items_of_an_account_are_alike_a_split_by_account_keeps_the_guarantee():
    """Isotonic-like scores learned on an account's own items certify them, and nothing else."""
    generator, missed = np.random.default_rng(0), {"items": 0, "accounts": 0}
    for draw in range(15):
        account = np.repeat(np.arange(150), 8)
        is_bad = generator.random(150) < 0.3
        labels = is_bad[account].astype(int)
        for name, groups in (("items", None), ("accounts", account)):
            fitted, held = hold_out(np.arange(1200), groups=groups, random_state=draw)
            # What a model learns about an account, it knows of all items of it.
            seen = np.isin(np.arange(150), account[fitted])
            p = np.where(seen[account], 0.05 + 0.9 * labels, generator.random(1200))
            policy = gnncal.decisions.Policy(positive=1, act=0.8)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                policy.fit(np.column_stack([1 - p, p]), labels, calibration_nodes=held)
            # New accounts, of which nothing is known.
            truth, new = generator.random(4000) < 0.3, generator.random(4000)
            acted = policy.decide(np.column_stack([1 - new, new])) == "act"
            missed[name] += acted.any() and truth[acted].mean() < 0.8
    assert missed["items"] > 8
    assert missed["accounts"] <= 5
