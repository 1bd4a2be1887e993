"""Labelled nodes in two parts: one to fit a calibrator, one to fit what relies on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.core.arrays import IntArray, as_numpy
from gnncal.core.checks import UNKNOWN, check_labels, check_nodes
from gnncal.core.constraints import SEED, number
from gnncal.core.errors import InputError


def hold_out(
    nodes: Any, *, labels: Any = None, share: float = 0.5, random_state: int = 0
) -> tuple[IntArray, IntArray]:
    """Split labelled nodes at random: some to fit the calibrator, the rest for decisions.

    A threshold or a prediction set is guaranteed only if its calibration nodes were not used to
    fit the probabilities. The calibrator has seen its own nodes, so it looks better on them than
    it will look elsewhere.

    Parameters
    ----------
    nodes : array_like
        Labelled nodes, mask or indices, usually the validation split.
    labels : array_like of shape (n_nodes,), optional
        Classes of all nodes of the graph. With them both parts get their share of every class, so
        that a rare class is not short in one of them. The draw within a class stays random.
    share : float, default=0.5
        Share of the nodes that is held out for decisions, rounded.
    random_state : int, default=0
        Seed of the draw.

    Returns
    -------
    fit_nodes : ndarray of int
        Nodes to fit the calibrator on, sorted.
    held_out : ndarray of int
        Nodes held out for decisions, sorted.

    Raises
    ------
    InputError
        If one of the two parts would be empty, or a node has no label.

    Examples
    --------
    >>> from gnncal.decisions import hold_out
    >>> fit_nodes, held_out = hold_out([3, 5, 7, 9], share=0.5)
    >>> fit_nodes.size, held_out.size
    (2, 2)
    >>> labels = [0, 0, 0, 0, 0, 0, 1, 1]
    >>> _, held_out = hold_out(range(8), labels=labels)
    >>> [labels[node] for node in held_out]
    [0, 0, 0, 1]

    """
    number(above=0, below=1).check("share", share)
    SEED.check("random_state", random_state)
    known = None if labels is None else check_labels(labels, as_numpy(labels).shape[0])
    array = as_numpy(nodes)
    n_nodes = array.size  # of a mask
    if known is not None:
        n_nodes = known.size
    elif array.dtype.kind in "iu":
        n_nodes = int(array.max(initial=-1)) + 1
    chosen = check_nodes(array, n_nodes)
    n_held = round(share * chosen.size)
    if not 0 < n_held < chosen.size:
        raise InputError(
            f"{chosen.size} labelled nodes cannot be split with share={share:g}; each of the two "
            "parts needs at least one node."
        )
    order = np.random.default_rng(random_state).permutation(chosen)
    if known is not None:
        order = order[_spread_classes(_known_classes(known, order))]
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def _known_classes(labels: IntArray, nodes: IntArray) -> IntArray:
    classes = labels[nodes]
    if (classes == UNKNOWN).any():
        raise InputError(
            f"{int((classes == UNKNOWN).sum())} of the nodes have the label -1, so nobody knows "
            "their class; leave them out of nodes, or call hold_out without labels."
        )
    return classes


def _spread_classes(classes: IntArray) -> IntArray:
    """Return an order in which any beginning has about its share of every class.

    The i-th node of a class with n nodes comes at (i + 1/2) / n. So the first of n nodes hold the
    share of each class, up to one node.
    """
    by_class = np.argsort(classes, kind="stable")
    _, start, size = np.unique(classes[by_class], return_index=True, return_counts=True)
    rank = np.arange(classes.size) - np.repeat(start, size)
    place = np.empty(classes.size)
    place[by_class] = (rank + 0.5) / np.repeat(size, size)
    return np.argsort(place, kind="stable")
