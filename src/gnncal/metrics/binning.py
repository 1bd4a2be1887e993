"""The only place where bins are made.

Bins are (lower, upper], the first closed at its lower end, so a confidence of exactly 1.0 lies in
the last bin. Empty bins have count 0 and NaN averages; they are never drawn as calibrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize.elementwise import find_root

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import integer
from gnncal.data.errors import InputError
from gnncal.data.tables import Cell, Table, Tabular, count, number
from gnncal.metrics.outcomes import Outcomes, clopper_pearson

Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2", "max"]
DEFAULT_BINS = 15  # of confidence, as in the paper
N_BINS = integer(at_least=1)  # what n_bins may be


@dataclass(frozen=True, repr=False)
class Cells(Tabular):
    """Nodes sorted into cells, from which every binned calibration error is computed.

    It prints as a table.

    Attributes
    ----------
    count, confidence, accuracy : ndarray of shape (n_cells,)
        Number of nodes, their mean confidence, and the share of correct ones; NaN in empty cells.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.metrics.binning import Cells
    >>> cells = Cells(np.array([10]), np.array([0.9]), np.array([0.6]))
    >>> cells.gap.round(2), cells.correct
    (array([0.3]), array([6]))

    """

    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray

    @property
    def gap(self) -> FloatArray:
        """Confidence minus accuracy: positive where the model is overconfident."""
        return self.confidence - self.accuracy

    @property
    def error(self) -> float:
        """Mean of |confidence - accuracy| over the nodes."""
        return error_of(self)

    @property
    def correct(self) -> IntArray:
        """How many nodes of each cell are predicted correctly, shape (n_cells,)."""
        return np.rint(np.where(self.count > 0, self.accuracy, 0.0) * self.count).astype(np.int64)

    def accuracy_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the Clopper-Pearson interval of the accuracy of each cell.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the interval.

        Returns
        -------
        tuple of ndarray of shape (n_cells,)
            Lower and upper ends, NaN where a cell is empty.

        """
        return clopper_pearson(self.correct, self.count, level=level)

    def gap_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return an interval of the gap of each cell, its mean confidence taken as known.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the interval.

        Returns
        -------
        tuple of ndarray of shape (n_cells,)
            Lower and upper ends, NaN where a cell is empty.

        """
        low, high = self.accuracy_interval(level)
        return self.confidence - high, self.confidence - low

    def _names(self) -> dict[str, list[Cell]]:
        """Return the columns of the table that say what each cell is."""
        return {"cell": [count(i) for i in range(1, len(self.count) + 1)]}

    def _tables(self) -> Sequence[Table]:
        columns = {
            **self._names(),
            "nodes": [count(nodes) for nodes in self.count],
            "confidence": [number(float(value), 4) for value in self.confidence],
            "accuracy": [number(float(value), 4) for value in self.accuracy],
            "gap": [number(float(value), 4) for value in self.gap],
        }
        title = f"{self.count.sum():,} nodes"
        return [Table(title, tuple(columns), list(zip(*columns.values(), strict=True)))]


@dataclass(frozen=True, repr=False)
class ReliabilityBins(Cells):
    """Cells that are intervals of confidence: the data of a reliability diagram.

    Attributes
    ----------
    count, confidence, accuracy : ndarray of shape (n_bins,)
        Number of nodes, their mean confidence, and the share of correct ones; NaN in empty bins.
    lower, upper : ndarray of shape (n_bins,)
        Ends of each bin, which is (lower, upper].

    Examples
    --------
    >>> from gnncal.metrics import reliability_bins
    >>> bins = reliability_bins([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], n_bins=2)
    >>> bins.upper, bins.accuracy.round(2)
    (array([0.5, 1. ]), array([ nan, 0.67]))

    """

    lower: FloatArray
    upper: FloatArray

    def _names(self) -> dict[str, list[Cell]]:
        return {
            "bin": [count(i) for i in range(1, len(self.count) + 1)],
            "lower": [number(float(edge), 4) for edge in self.lower],
            "upper": [number(float(edge), 4) for edge in self.upper],
        }


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
    gap = cells.confidence - cells.accuracy
    return float(combine(gap, cells.count / cells.count.sum(), norm))


def reliability_bins(
    labels: Any, probs: Any, *, n_bins: int = DEFAULT_BINS, strategy: Strategy = "uniform"
) -> ReliabilityBins:
    """Sort nodes into bins of confidence: the data of a reliability diagram.

    Parameters
    ----------
    labels, probs : array_like
        Labels (n_nodes,) and probabilities (n_nodes, n_classes) of the nodes.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or with equally many nodes.

    Returns
    -------
    ReliabilityBins
        Confidence and accuracy of each bin.

    Examples
    --------
    >>> from gnncal.metrics import reliability_bins
    >>> bins = reliability_bins([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], n_bins=2)
    >>> bins.count, bins.confidence.round(2)
    (array([0, 3]), array([nan, 0.8]))

    """
    N_BINS.check("n_bins", n_bins)
    return bins_of(Outcomes(labels, probs), n_bins, strategy)


def bins_of(
    outcomes: Outcomes, n_bins: int = DEFAULT_BINS, strategy: Strategy = "uniform"
) -> ReliabilityBins:
    """Sort outcomes into bins of confidence."""
    return reliability_of(outcomes.confidence, outcomes.correct, n_bins, strategy)


def positive_bins_of(
    outcomes: Outcomes, n_bins: int = DEFAULT_BINS, strategy: Strategy = "quantile"
) -> ReliabilityBins:
    """Return bins of the probability of the class, with the share of nodes that have it."""
    return reliability_of(outcomes.positive_probability, outcomes.is_positive, n_bins, strategy)


def reliability_of(
    confidence: FloatArray, correct: FloatArray, n_bins: int, strategy: Strategy
) -> ReliabilityBins:
    """Sort nodes into bins of a probability (n,), with its outcome (n,), 1.0 or 0.0."""
    edges = bin_edges(confidence, n_bins, strategy)
    cells = fill_cells(confidence, correct, bin_index(confidence, edges), len(edges) - 1)
    return ReliabilityBins(
        cells.count, cells.confidence, cells.accuracy, lower=edges[:-1], upper=edges[1:]
    )


def combine(gap: FloatArray, share: FloatArray, norm: Norm) -> FloatArray:
    """Return one error from the gaps of the cells (last axis) and the share of nodes in each."""
    size = np.abs(np.where(share > 0, gap, 0.0))
    if norm == "l1":
        return (share * size).sum(axis=-1)
    if norm == "l2":
        return np.sqrt((share * size**2).sum(axis=-1))
    if norm == "max":
        return size.max(axis=-1)
    raise InputError(f"norm is {norm!r}; expected 'l1', 'l2' or 'max'.")


N_CELLS = 1000  # resolution, far finer than the bandwidths that are picked


def smoothing_cell(confidence: FloatArray) -> IntArray:
    """Return the cell of the confidence axis that each residual falls into."""
    return np.minimum((confidence * N_CELLS).astype(np.int64), N_CELLS - 1)


def spectrum_of(mass: FloatArray) -> FloatArray:
    """Cosine transform of residuals summed by cell, each column of (N_CELLS, n_draws)."""
    return dct(mass, type=2, norm="ortho", axis=0)


def smoothed(spectrum: FloatArray, bandwidth: FloatArray | float) -> FloatArray:
    """Return the residuals by cell after smoothing with a Gaussian reflected at 0 and 1."""
    frequency = np.pi * np.arange(N_CELLS)[:, None]
    damping = np.exp(-0.5 * (bandwidth * frequency) ** 2)
    return idct(spectrum * damping, type=2, norm="ortho", axis=0)


def smooth_error(mass: FloatArray) -> FloatArray:
    """The bandwidth that equals the size of the smoothed residuals, for each column of mass."""
    spectrum = spectrum_of(mass)

    def excess(bandwidth: FloatArray, column: IntArray) -> FloatArray:
        return np.abs(smoothed(spectrum[:, column], bandwidth)).sum(axis=0) - bandwidth

    columns = np.arange(mass.shape[1])
    saturated = excess(np.ones(len(columns)), columns) >= 0
    roots = find_root(excess, (0.0, 1.0), args=(columns,), tolerances={"xatol": 1e-9}).x
    return np.where(saturated, 1.0, roots)
