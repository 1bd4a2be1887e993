"""Calibration by group of nodes: any grouping, and the degree blocks of the literature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import IntArray, as_numpy
from gnncal.data.errors import InputError, short_repr
from gnncal.data.tables import Cell
from gnncal.metrics.binning import N_BINS, Cells, fill_cells
from gnncal.metrics.outcomes import Outcomes

DEGREE_BLOCKS = 10  # as in the release of GETS


@dataclass(frozen=True, repr=False)
class GroupCells(Cells):
    """Cells that are groups of nodes.

    Attributes
    ----------
    count, confidence, accuracy : ndarray of shape (n_groups,)
        Number of nodes, their mean confidence, and the share of correct ones.
    group : ndarray of shape (n_groups,)
        Value of each group, sorted.

    Examples
    --------
    >>> from gnncal.metrics import calibration_by_group
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]
    >>> calibration_by_group([0, 1, 1], probs, ["old", "new", "new"]).group
    array(['new', 'old'], dtype='<U3')

    """

    group: npt.NDArray[Any]

    def _names(self) -> dict[str, list[Cell]]:
        return {"group": [Cell(value, str(value)) for value in self.group.tolist()]}


def calibration_by_group(labels: Any, probs: Any, groups: Any) -> GroupCells:
    """Compare confidence with accuracy within each group of nodes.

    Parameters
    ----------
    labels, probs : array_like
        Labels (n_nodes,) and probabilities (n_nodes, n_classes) of the nodes.
    groups : array_like of shape (n_nodes,)
        A value for each node; equal values form a group.

    Returns
    -------
    GroupCells
        Confidence and accuracy of each group.

    Examples
    --------
    >>> from gnncal.metrics import calibration_by_group
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]
    >>> calibration_by_group([0, 1, 1], probs, ["old", "new", "new"]).gap.round(2)
    array([ 0.25, -0.1 ])

    """
    return cells_of(Outcomes(labels, probs), groups)


def cells_of(outcomes: Outcomes, groups: Any) -> GroupCells:
    """:func:`calibration_by_group` of checked outcomes."""
    values, cell = check_groups(groups, len(outcomes.labels))
    cells = fill_cells(outcomes.confidence, outcomes.correct, cell, len(values))
    return GroupCells(cells.count, cells.confidence, cells.accuracy, values)


def degree_blocks(in_degree: Any, *, n_blocks: int = DEGREE_BLOCKS) -> IntArray:
    """Sort nodes into blocks of similar in-degree."""
    degree = as_numpy(in_degree)
    if degree.ndim != 1 or degree.size == 0:
        raise InputError(f"in_degree has shape {degree.shape}; expected one number for each node.")
    if degree.dtype.kind not in "iuf":
        raise InputError(f"in_degree has dtype {degree.dtype}; expected numbers, such as 3.")
    possible = (degree >= 0) & (degree < np.inf)  # NaN is neither
    if not possible.all():
        bad = degree[~possible]
        raise InputError(
            f"in_degree has {bad.size} entries that are negative or not finite, such as "
            f"{short_repr(bad[0])}; a degree is the number of edges that enter a node, 0 without "
            "any."
        )
    N_BINS.check("n_blocks", n_blocks)
    rank = np.empty(degree.size, dtype=np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(degree.size)
    return rank // -(-degree.size // n_blocks)


def blocks_of(outcomes: Outcomes) -> IntArray:
    """:func:`degree_blocks` of checked outcomes."""
    return degree_blocks(outcomes.in_degree)


def check_groups(groups: Any, n_nodes: int) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the groups' values, sorted, and the index of each node's group among them."""
    array = as_numpy(groups)
    if array.shape != (n_nodes,):
        raise InputError(
            f"groups has shape {array.shape} but probs has {n_nodes} rows; pass one value (a "
            "group, a degree) for each node."
        )
    if array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() < array.size:
        return _numbered(array)
    values, cell = np.unique(array, return_inverse=True)
    return values, cell


def _numbered(array: IntArray) -> tuple[IntArray, IntArray]:
    """Return what ``np.unique`` does for small numbers, which need no sort."""
    numbers = array.astype(np.int64)
    values = np.flatnonzero(np.bincount(numbers))
    place = np.zeros(int(values[-1]) + 1, dtype=np.int64)
    place[values] = np.arange(values.size)
    return values.astype(array.dtype), place[numbers]
