"""Splits into training, calibration (validation) and test nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gnncal.data.arrays import IntArray
from gnncal.data.errors import InputError


class Split(NamedTuple):
    """Three disjoint sets of nodes.

    Attributes
    ----------
    train_nodes, calibration_nodes, test_nodes : ndarray of int
        Indices of the nodes.

    Examples
    --------
    >>> from gnncal_lab.datasets import random_split
    >>> [len(nodes) for nodes in random_split(100, seed=0)]
    [20, 10, 70]

    """

    train_nodes: IntArray
    calibration_nodes: IntArray
    test_nodes: IntArray


def random_split(n_nodes: int, seed: int) -> Split:
    """Return the paper's random split: 20% training, 10% validation and 70% test nodes.

    The split is not stratified by class. It uses NumPy's legacy generator, as the published runs
    did.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    seed : int
        Seed of the shuffle.

    Examples
    --------
    >>> from gnncal_lab.datasets import random_split
    >>> random_split(10, seed=0).train_nodes
    array([2, 8])

    """
    order = np.arange(n_nodes)
    np.random.RandomState(seed).shuffle(order)
    return Split(*np.split(order, [int(0.2 * n_nodes), int(0.3 * n_nodes)]))


def check_split(split: Split, n_nodes: int) -> Split:
    """Return the split with node numbers in int64; raise if they are invalid or overlap."""
    for name, nodes in zip(split._fields, map(np.asarray, split), strict=True):
        in_range = nodes.ndim == 1 and nodes.dtype.kind in "iu" and nodes.size > 0
        if not in_range or nodes.min() < 0 or nodes.max() >= n_nodes:
            raise InputError(f"split.{name} must hold node numbers from 0 to {n_nodes - 1}.")
    whole = np.concatenate(split)
    if len(np.unique(whole)) < len(whole):
        raise InputError("a node is in the split twice; its three parts must be disjoint.")
    return Split(*(np.asarray(nodes, dtype=np.int64) for nodes in split))
