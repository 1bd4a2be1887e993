"""Which nodes train the classifier, which validate and calibrate, which test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gnncal.core.arrays import IntArray


class Split(NamedTuple):
    """Three disjoint sets of nodes."""

    train: IntArray
    validation: IntArray
    test: IntArray


def random_split(n_nodes: int, seed: int) -> Split:
    """The paper's split: a fresh shuffle for each seed, 20 / 10 / 70 %, not stratified.

    NumPy's legacy generator, because that is the one whose shuffles the published runs drew.
    """
    order = np.arange(n_nodes)
    np.random.RandomState(seed).shuffle(order)
    train, validation, test = np.split(order, [int(0.2 * n_nodes), int(0.3 * n_nodes)])
    return Split(train, validation, test)
