"""The only place where nodes are sorted into cells: bins of confidence, or groups.

Bins are (lower, upper], the first closed at its lower end, so a confidence of exactly 1.0 lies in
the last bin. Empty bins have count 0 and NaN averages; they are never drawn as calibrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.constraints import integer
from gnncal.data.errors import InputError
from gnncal.data.tables import Table, Tabular, value_cell
from gnncal.metrics.outcomes import Outcomes, clopper_pearson

Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2", "max"]
DEFAULT_BINS = 15  # of confidence, as in the paper
N_BINS = integer(at_least=1)  # what n_bins may be


@dataclass(frozen=True, repr=False)
class Cells(Tabular):
    """Number of nodes, mean confidence and accuracy of each cell; NaN in empty cells."""

    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray

    @property
    def gap(self) -> FloatArray:
        """Confidence minus accuracy: positive where the model is overconfident."""
        return self.confidence - self.accuracy

    @property
    def error(self) -> float:
        """Mean absolute gap of the cells, weighted by their numbers of nodes."""
        return error_of(self)

    def accuracy_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the Clopper-Pearson interval of each cell's accuracy; NaN where it is empty."""
        share = np.where(self.count > 0, self.accuracy, 0.0)
        correct = np.rint(share * self.count).astype(np.int64)
        return clopper_pearson(correct, self.count, level=level)

    def _tables(self) -> Sequence[Table]:
        own = [field.name for field in fields(self)[3:]]  # what each cell is: its ends, its group
        names = (*own, "count", "confidence", "accuracy", "gap")
        columns = [[value_cell(v) for v in getattr(self, name).tolist()] for name in names]
        return [Table(f"{self.count.sum():,} nodes", names, list(zip(*columns, strict=True)))]


@dataclass(frozen=True, repr=False)
class ReliabilityBins(Cells):
    """Mean confidence and accuracy of each bin of confidence, the data of a reliability diagram.

    Attributes
    ----------
    count, confidence, accuracy : ndarray of shape (n_bins,)
        Number of nodes in each bin, their mean confidence and accuracy; NaN in empty bins.
    lower, upper : ndarray of shape (n_bins,)
        Limits of each bin; a bin includes its upper limit only, the first bin includes both.

    """

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, repr=False)
class GroupCells(Cells):
    """Mean confidence and accuracy of groups of nodes.

    Attributes
    ----------
    count, confidence, accuracy, group : ndarray of shape (n_groups,)
        Number of nodes in each group, their mean confidence and accuracy, and the group's value.

    """

    group: npt.NDArray[Any]


def bin_edges(values: FloatArray, n_bins: int, strategy: Strategy) -> FloatArray:
    """Return bin edges over [0, 1]: equally wide, or with equally many values in each bin."""
    if strategy == "uniform":
        return np.arange(n_bins + 1) / n_bins
    if strategy == "quantile":
        last = -(-np.arange(1, n_bins) * len(values) // n_bins) - 1  # ceil(k n / n_bins) values
        return np.unique(np.concatenate([[0.0], np.sort(values)[last], [1.0]]))
    raise InputError(f"strategy is {strategy!r}; expected 'uniform' or 'quantile'.")


def bin_index(values: FloatArray, edges: FloatArray) -> IntArray:
    """Return the bin of each value; a value on an edge belongs below it."""
    return np.searchsorted(edges[1:-1], values, side="left")


def fill_cells(confidence: FloatArray, correct: FloatArray, cell: IntArray, n_cells: int) -> Cells:
    """Average confidence and correctness by cell."""
    nodes = np.bincount(cell, minlength=n_cells)
    sums = np.stack([np.bincount(cell, each, n_cells) for each in (confidence, correct)])
    means = np.divide(sums, nodes, out=np.full(sums.shape, np.nan), where=nodes > 0)
    return Cells(nodes.astype(np.int64, copy=False), *means)


def error_of(cells: Cells, norm: Norm = "l1") -> float:
    """Return the error of cells: a norm of their gaps, each weighted by its share of the nodes."""
    share = cells.count / cells.count.sum()
    size = np.abs(np.where(share > 0, cells.gap, 0.0))
    if norm == "l1":
        return float((share * size).sum())
    if norm == "l2":
        return float(np.sqrt((share * size**2).sum()))
    if norm == "max":
        return float(size.max())
    raise InputError(f"norm is {norm!r}; expected 'l1', 'l2' or 'max'.")


def reliability_bins(
    labels: Any, probs: Any, *, n_bins: int = DEFAULT_BINS, strategy: Strategy = "uniform"
) -> ReliabilityBins:
    """Return mean confidence and accuracy by bin of confidence, as in a reliability diagram.

    Examples
    --------
    >>> from gnncal.metrics import reliability_bins
    >>> bins = reliability_bins([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], n_bins=2)
    >>> bins.count, bins.confidence.round(2), bins.accuracy.round(2)
    (array([0, 3]), array([nan, 0.8]), array([ nan, 0.67]))

    """
    N_BINS.check("n_bins", n_bins)
    return bins_of(Outcomes(labels, probs), n_bins, strategy)


def bins_of(
    outcomes: Outcomes, n_bins: int = DEFAULT_BINS, strategy: Strategy = "uniform"
) -> ReliabilityBins:
    """Sort outcomes into bins of confidence."""
    return reliability_of(outcomes.confidence, outcomes.correct, n_bins, strategy)


def positive_bins_of(outcomes: Outcomes, n_bins: int = DEFAULT_BINS) -> ReliabilityBins:
    """Return bins of the probability of the positive class, with the class's frequency."""
    return reliability_of(outcomes.positive_probability, outcomes.is_positive, n_bins, "quantile")


def reliability_of(
    confidence: FloatArray, correct: FloatArray, n_bins: int, strategy: Strategy
) -> ReliabilityBins:
    """Sort nodes into bins of a probability (n,), with its outcome (n,), 1.0 or 0.0."""
    edges = bin_edges(confidence, n_bins, strategy)
    cells = fill_cells(confidence, correct, bin_index(confidence, edges), len(edges) - 1)
    return ReliabilityBins(**vars(cells), lower=edges[:-1], upper=edges[1:])


def calibration_by_group(labels: Any, probs: Any, groups: Any) -> GroupCells:
    """Return mean confidence and accuracy by group; ``error`` is the mean absolute gap.

    Examples
    --------
    >>> from gnncal.metrics import calibration_by_group
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]
    >>> cells = calibration_by_group([0, 1, 1], probs, ["old", "new", "new"])
    >>> cells.group, cells.gap.round(2)
    (array(['new', 'old'], dtype='<U3'), array([ 0.25, -0.1 ]))

    """
    return cells_of(Outcomes(labels, probs), groups)


def cells_of(outcomes: Outcomes, groups: Any) -> GroupCells:
    """:func:`calibration_by_group` of checked outcomes."""
    values, cell = check_groups(groups, len(outcomes.labels))
    cells = fill_cells(outcomes.confidence, outcomes.correct, cell, len(values))
    return GroupCells(**vars(cells), group=values)


def check_groups(groups: Any, n_nodes: int) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the groups' values, sorted, and the index of each node's group among them."""
    array = as_numpy(groups)
    if array.shape != (n_nodes,):
        raise InputError(
            f"groups has shape {array.shape} but probs has {n_nodes} rows; pass one value (a "
            "group, a degree) for each node."
        )
    try:
        values, cell = np.unique(array, return_inverse=True)
    except TypeError as error:  # None, NaN or NA among texts
        raise InputError(
            f"groups has values that cannot be sorted ({error}); pass texts or numbers, all of one "
            "type, and fill in missing values."
        ) from error
    return values, cell
