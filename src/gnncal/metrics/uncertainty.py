"""How much of a calibration error is noise: its floor under perfect calibration, its interval.

P-value and interval come from random draws; the floor of :mod:`gnncal.metrics.floor` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import integer, number
from gnncal.metrics.binning import DEFAULT_BINS, N_BINS, Strategy, bin_edges, bin_index
from gnncal.metrics.floor import floor_of_cells
from gnncal.metrics.outcomes import Outcomes, clopper_pearson

NUMBERS_PER_BLOCK = 1 << 22  # random numbers held at once
SMALLEST_ERROR = 1e-12  # anything below is rounding
MANY_NODES = 20_000  # from here on the sums of large cells are drawn instead of their nodes
LARGE_CELL = 2_000  # nodes
LEVEL = 0.95  # of the interval
MOST_DRAWS = 0.8  # the share of calibrated samples that `calibrated_high` is about
N_RESAMPLES = 1000
NORMAL_VARIANCE = 100.0  # of a sum of hits that counts as normal; below it misses or hits are rare


@dataclass(frozen=True)
class CalibrationEstimate:
    """A calibration error with its noise floor, p-value and interval.

    Attributes
    ----------
    value, floor, p_value : float
        The ECE, its noise floor (mean under perfect calibration) and the p-value of perfect
        calibration.
    low, high, level : float
        Bias-corrected confidence interval of the true ECE, and its confidence level.
    calibrated_high : float
        The upper end that four of five samples of this size do not exceed under perfect
        calibration.
    n_nodes : int
        Number of nodes.

    """

    value: float
    floor: float
    p_value: float
    low: float
    high: float
    level: float
    calibrated_high: float
    n_nodes: int


def estimate_calibration_error(
    labels: Any,
    probs: Any,
    *,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "uniform",
    level: float = LEVEL,
    n_resamples: int = N_RESAMPLES,
    random_state: int = 0,
) -> CalibrationEstimate:
    """Return the ECE with its noise floor, p-value and confidence interval.

    The ECE of a sample is biased upwards, and a bootstrap would add the same bias again. The
    interval instead holds the true errors that are compatible with the observed ECE. Its upper end
    stays high if the observed ECE is low by chance. Bins without a mistake, or without a correct
    prediction, enter it with a Clopper-Pearson interval. The p-value is the share of label vectors,
    drawn from the probabilities, whose ECE is at least the observed one.

    Parameters
    ----------
    level : float, default=0.95
        Confidence level of the interval.
    n_resamples : int, default=1000
        Number of random draws.

    Examples
    --------
    A model with confidence 0.9 and accuracy 0.5:

    >>> import numpy as np
    >>> from gnncal.metrics import estimate_calibration_error
    >>> probs = np.tile([0.9, 0.1], (200, 1))
    >>> estimate = estimate_calibration_error([0, 1] * 100, probs)
    >>> round(estimate.value, 2), round(estimate.floor, 2), estimate.p_value < 0.01
    (0.4, 0.02, True)

    """
    number(above=0, below=1).check("level", level)
    integer(at_least=1).check("n_resamples", n_resamples)
    N_BINS.check("n_bins", n_bins)
    outcomes = Outcomes(labels, probs)
    return estimate_of(outcomes, random_state, n_bins, strategy, level, n_resamples)


def estimate_of(
    outcomes: Outcomes,
    random_state: int = 0,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "uniform",
    level: float = LEVEL,
    n_resamples: int = N_RESAMPLES,
) -> CalibrationEstimate:
    """:func:`estimate_calibration_error` of checked outcomes."""
    sides = outcomes.confidence, outcomes.correct
    return _estimate(*sides, random_state, n_bins, strategy, level, n_resamples)


def positive_estimate_of(outcomes: Outcomes, random_state: int = 0) -> CalibrationEstimate:
    """:func:`estimate_of` for the probability of the positive class."""
    sides = outcomes.positive_probability, outcomes.is_positive
    return _estimate(*sides, random_state, DEFAULT_BINS, "quantile", LEVEL, N_RESAMPLES)


def _estimate(
    confidence: FloatArray,
    hit: FloatArray,
    random_state: int,
    n_bins: int,
    strategy: Strategy,
    level: float,
    n_resamples: int,
) -> CalibrationEstimate:
    cell = bin_index(confidence, bin_edges(confidence, n_bins, strategy))
    sums = _Sums(confidence, confidence - hit, cell)
    generator = np.random.default_rng(random_state)
    observed = sums.cells @ sums.residual[:, None]  # (n_cells, 1)
    value = float(sums.error(observed)[0])
    drawn = sums.draw_calibrated(n_resamples, generator)
    chance = sums.error(drawn)
    noise = sums.draw_noise(n_resamples, generator)
    low, high = _interval(sums, value, observed, noise, level)
    high = max(high, _largest_unseen(confidence, hit, cell, level))
    usual, spread = float(np.quantile(chance, MOST_DRAWS)), drawn.std(axis=1, keepdims=True)
    exceeding = (chance >= value - SMALLEST_ERROR).sum()
    return CalibrationEstimate(
        value=value,
        floor=floor_of_cells(confidence, cell).mean,
        p_value=float((1 + exceeding) / (1 + n_resamples)),
        low=low,
        high=high,
        level=level,
        calibrated_high=_interval(sums, usual, spread, drawn, level)[1],
        n_nodes=len(confidence),
    )


def _largest_unseen(confidence: FloatArray, hit: FloatArray, cell: IntArray, level: float) -> float:
    """Return the error that cells whose nodes are all hits, or all misses, may hide.

    Their outcomes are equal, so a bootstrap sees no spread in them.
    """
    n_nodes, n_hits = (np.bincount(cell, each)[cell] for each in (None, hit))
    largest = 0.0
    for stated, is_equal in ((confidence, n_hits == n_nodes), (1.0 - confidence, n_hits == 0)):
        if n_equal := int(is_equal.sum()):
            low, _ = clopper_pearson(n_equal, n_equal, level=level)
            largest = max(largest, float((stated[is_equal] - low).sum()) / len(hit))
    return largest


class _Sums:
    """Sums of residuals over cells, observed and drawn; an error is the mean size of their gaps."""

    def __init__(self, confidence: FloatArray, residual: FloatArray, cell: IntArray) -> None:
        self.confidence, self.residual, self.n_nodes = confidence, residual, len(confidence)
        membership = (np.ones(cell.size), (cell, np.arange(cell.size)))
        self.cells = sparse.csr_array(membership)  # (n_cells, n_nodes)

    def error(self, sums: FloatArray) -> FloatArray:
        """Return the error of each column of cell sums."""
        return np.abs(sums).sum(axis=0) / self.n_nodes

    def draw_calibrated(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        """Cell sums when every label is drawn from the node's own probabilities."""
        if self.n_nodes >= MANY_NODES:
            return self._draw_calibrated_sums(n_draws, generator)
        chance = self.confidence[:, None]
        return self._in_blocks(n_draws, lambda shape: chance - (generator.random(shape) < chance))

    def draw_noise(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        """Cell sums minus their expectation: a bootstrap with centred normal weights of nodes."""
        if self.n_nodes >= MANY_NODES:
            squares, sums = self.cells @ self.residual**2, self.cells @ self.residual
            covariance = np.diag(squares) - np.outer(sums, sums) / self.n_nodes
            zero = np.zeros(len(sums))
            return generator.multivariate_normal(zero, covariance, n_draws, method="eigh").T

        def weighted(shape: tuple[int, int]) -> FloatArray:
            weights = generator.standard_normal(shape)
            weights -= weights.mean(axis=0)  # in place: a block is the largest array of all
            weights *= self.residual[:, None]
            return weights

        return self._in_blocks(n_draws, weighted)

    def _in_blocks(self, n_draws: int, draw: Callable[[tuple[int, int]], FloatArray]) -> FloatArray:
        """Return the cell sums of drawn residuals, some columns at a time to bound the memory."""
        width = max(1, NUMBERS_PER_BLOCK // self.n_nodes)
        widths = [min(width, n_draws - start) for start in range(0, n_draws, width)]
        return np.concatenate([self.cells @ draw((self.n_nodes, each)) for each in widths], axis=1)

    def _draw_calibrated_sums(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        variance = self.cells @ (self.confidence * (1.0 - self.confidence))
        hits, misses = (self.cells @ each for each in (self.confidence, 1.0 - self.confidence))
        drawn = np.empty((len(misses), n_draws))
        for cell, (first, last) in enumerate(pairwise(self.cells.indptr)):
            if last - first < LARGE_CELL:
                chances = self.confidence[self.cells.indices[first:last], None]
                is_hit = generator.random((len(chances), n_draws)) < chances
                drawn[cell] = (chances - is_hit).sum(axis=0)
            elif variance[cell] >= NORMAL_VARIANCE:
                drawn[cell] = generator.normal(0.0, np.sqrt(variance[cell]), n_draws)
            elif misses[cell] <= hits[cell]:
                drawn[cell] = generator.poisson(misses[cell], n_draws) - misses[cell]
            else:
                drawn[cell] = hits[cell] - generator.poisson(hits[cell], n_draws)
        return drawn


def _interval(
    sums: _Sums, value: float, observed: FloatArray, noise: FloatArray, level: float
) -> tuple[float, float]:
    """Return the ends of the interval at this error, whose gaps are like those observed."""
    direction = observed if value > SMALLEST_ERROR else noise.std(axis=1, keepdims=True)
    if not direction.any():
        return 0.0, 0.0
    gaps = direction / sums.error(direction)  # of size one

    def true_error(quantile: float, plug_in: float) -> float:
        """Return the true error at which this quantile of the plug-in error is the one seen."""

        def excess(true: float) -> float:
            return float(np.quantile(sums.error(true * gaps + noise), quantile)) - plug_in

        if excess(0.0) >= 0:
            return 0.0
        return float(brentq(excess, 0.0, 1.0)) if excess(1.0) > 0 else 1.0

    tail = (1.0 - level) / 2.0
    typical = float(np.median(sums.error(noise)))
    return true_error(1.0 - tail, value), true_error(tail, max(value, typical))
