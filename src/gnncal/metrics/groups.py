"""Calibration by group of nodes: any grouping, and the degree blocks of the literature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.core.arrays import IntArray, as_numpy
from gnncal.core.constraints import whole_number
from gnncal.core.errors import InputError
from gnncal.core.tabular import Cell
from gnncal.metrics.binning import Cells, combine, confidence_and_correctness, fill_cells

DEGREE_BLOCKS = 10  # as in the release of GETS


@dataclass(frozen=True, repr=False)
class GroupCells(Cells):
    """Cells that are groups of nodes."""

    group: npt.NDArray[Any]  # (n_groups,) the groups' values, sorted

    def _names(self) -> dict[str, list[Cell]]:
        return {"group": [Cell(value, str(value)) for value in self.group.tolist()]}


def calibration_by_group(labels: Any, probs: Any, groups: Any) -> GroupCells:
    """Confidence and accuracy within each group; ``groups`` has one value for each node."""
    confidence, correct = confidence_and_correctness(labels, probs)
    values, cell = check_groups(groups, len(confidence))
    cells = fill_cells(confidence, correct, cell, len(values))
    return GroupCells(cells.count, cells.confidence, cells.accuracy, values)


def grouped_calibration_error(labels: Any, probs: Any, groups: Any) -> float:
    """Sum over groups of (size / n) * |mean confidence - accuracy|."""
    cells = calibration_by_group(labels, probs, groups)
    return float(combine(cells.gap, cells.count / cells.count.sum(), "l1"))


def degree_blocks(in_degree: Any, *, n_blocks: int = DEGREE_BLOCKS) -> IntArray:
    """Blocks of ceil(n / n_blocks) nodes of neighbouring degree; ties are split by position."""
    degree = as_numpy(in_degree)
    if degree.ndim != 1 or degree.size == 0:
        raise InputError(f"in_degree has shape {degree.shape}; expected one number for each node.")
    whole_number(at_least=1).check("n_blocks", n_blocks)
    rank = np.empty(degree.size, dtype=np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(degree.size)
    return rank // -(-degree.size // n_blocks)


def degree_ece(labels: Any, probs: Any, in_degree: Any, *, n_blocks: int = DEGREE_BLOCKS) -> float:
    """The grouped error over degree blocks (what the GETS release reports as ECE)."""
    return grouped_calibration_error(labels, probs, degree_blocks(in_degree, n_blocks=n_blocks))


def check_groups(groups: Any, n_nodes: int) -> tuple[npt.NDArray[Any], IntArray]:
    """The groups' values, sorted, and the index of each node's group among them."""
    array = as_numpy(groups)
    if array.shape != (n_nodes,):
        raise InputError(
            f"groups has shape {array.shape} but probs has {n_nodes} rows; pass one value (a "
            "group, a degree) for each node."
        )
    values, cell = np.unique(array, return_inverse=True)
    return values, cell
