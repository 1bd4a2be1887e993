"""Labelled nodes in two parts: one to fit a calibrator, one to fit what relies on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.core.arrays import IntArray, as_numpy
from gnncal.core.checks import check_nodes
from gnncal.core.constraints import SEED, number
from gnncal.core.errors import InputError


def hold_out(nodes: Any, *, share: float = 0.5, random_state: int = 0) -> tuple[IntArray, IntArray]:
    """Split labelled nodes at random: some to fit the calibrator, the rest for decisions.

    A threshold or a prediction set is guaranteed only if its calibration nodes were not used to
    fit the probabilities. The calibrator has seen its own nodes, so it looks better on them than
    it will look elsewhere.

    Parameters
    ----------
    nodes : array_like
        Labelled nodes, mask or indices, usually the validation split.
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
        If one of the two parts would be empty.

    Examples
    --------
    >>> from gnncal.decisions import hold_out
    >>> fit_nodes, held_out = hold_out([3, 5, 7, 9], share=0.5)
    >>> fit_nodes.size, held_out.size
    (2, 2)

    """
    number(above=0, below=1).check("share", share)
    SEED.check("random_state", random_state)
    array = as_numpy(nodes)
    n_nodes = array.size  # of a mask
    if array.dtype.kind in "iu":
        n_nodes = int(array.max(initial=-1)) + 1
    chosen = check_nodes(array, n_nodes)
    n_held = round(share * chosen.size)
    if not 0 < n_held < chosen.size:
        raise InputError(
            f"{chosen.size} labelled nodes cannot be split with share={share:g}; each of the two "
            "parts needs at least one node."
        )
    order = np.random.default_rng(random_state).permutation(chosen)
    return np.sort(order[n_held:]), np.sort(order[:n_held])
