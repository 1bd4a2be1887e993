"""The calibration error that perfect calibration would still show, computed without sampling.

Within a bin whose number of hits has a variance below 16 the result is exact up to rounding: it
sums over the distribution of that number. In larger bins the number of hits is taken as normal,
which changes the bin's mean deviation by less than 1 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.checks import check_probs
from gnncal.metrics.binning import DEFAULT_BINS, N_BINS, Strategy, bin_edges, bin_index
from gnncal.metrics.groups import DEGREE_BLOCKS, blocks_of, check_groups, degree_blocks
from gnncal.metrics.outcomes import Outcomes

LARGE_VARIANCE = 16.0  # from here on a sum of hits is normal enough: its deviation is off by < 1 %
N_FREQUENCIES = 128  # a sum of smaller variance stays within ±64 of its mean: sixteen deviations
NODES_PER_BLOCK = 1 << 14
TURN = np.exp(-2j * np.pi * np.arange(N_FREQUENCIES // 2 + 1) / N_FREQUENCIES) - 1.0  # (65,)
ComplexArray = npt.NDArray[np.complexfloating[Any]]


@dataclass(frozen=True)
class NoiseFloor:
    """Mean and standard deviation of an error when every label follows its node's confidence.

    Attributes
    ----------
    mean : float
        Expected error of a perfectly calibrated model.
    spread : float
        Its standard deviation.

    Examples
    --------
    >>> from gnncal.metrics import calibration_floor
    >>> floor = calibration_floor([[0.5, 0.5]] * 4)
    >>> round(floor.mean, 4), round(floor.spread, 4)
    (0.1875, 0.1654)

    """

    mean: float
    spread: float


def calibration_floor(
    probs: Any, *, n_bins: int = DEFAULT_BINS, strategy: Strategy = "uniform", groups: Any = None
) -> NoiseFloor:
    r"""Return the ECE that these very probabilities would show if they were perfectly calibrated.

    With hits :math:`B_i \sim \mathrm{Bernoulli}(c_i)` of the confidences,

    .. math:: \mathbb E\,\mathrm{ECE}
        = \tfrac1n \sum_b \mathbb E \Big|\sum_{i \in b} B_i - \sum_{i \in b} c_i\Big|

    whose terms are independent, so its variance is the sum of theirs. Terms of variance below 16
    are exact up to rounding; larger ones use the normal approximation, which is off by less than
    1 %. Nothing is sampled.

    Parameters
    ----------
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or with equally many nodes.
    groups : array_like of shape (n_nodes,), optional
        A value for each node; groups then take the place of the bins.

    Returns
    -------
    NoiseFloor
        Mean and standard deviation of the error.

    Examples
    --------
    Of four nodes with confidence one half, 2 are right on average, give or take 3/4:

    >>> from gnncal.metrics import calibration_floor
    >>> round(calibration_floor([[0.5, 0.5]] * 4).mean, 4)
    0.1875

    """
    N_BINS.check("n_bins", n_bins)
    confidence = check_probs(probs).max(axis=1).astype(np.float64)
    if groups is not None:
        return _floor_of_cells(confidence, check_groups(groups, len(confidence))[1])
    return _floor_of_bins(confidence, n_bins, strategy)


def floor_of(outcomes: Outcomes) -> NoiseFloor:
    """:func:`calibration_floor` of checked outcomes."""
    return _floor_of_bins(outcomes.confidence, DEFAULT_BINS, "uniform")


def degree_floor_of(outcomes: Outcomes) -> NoiseFloor:
    """:func:`degree_floor` of checked outcomes."""
    blocks = check_groups(outcomes.once(blocks_of), len(outcomes.labels))[1]
    return _floor_of_cells(outcomes.confidence, blocks)


def _floor_of_bins(confidence: FloatArray, n_bins: int, strategy: Strategy) -> NoiseFloor:
    confidence = np.minimum(confidence, 1.0)
    edges = bin_edges(confidence, n_bins, strategy)
    return _floor_of_cells(confidence, bin_index(confidence, edges))


def _floor_of_cells(confidence: FloatArray, cell: IntArray) -> NoiseFloor:
    confidence = np.minimum(confidence, 1.0)
    parts = np.split(confidence[np.argsort(cell, kind="stable")], np.cumsum(np.bincount(cell))[:-1])
    deviation = np.array([_deviation_of(part) for part in parts])
    variance = np.array([(part * (1.0 - part)).sum() for part in parts])
    spread = np.sqrt(np.maximum(variance - deviation**2, 0.0).sum())
    return NoiseFloor(float(deviation.sum() / len(cell)), float(spread / len(cell)))


def degree_floor(probs: Any, in_degree: Any, *, n_blocks: int = DEGREE_BLOCKS) -> NoiseFloor:
    """Return the degree-stratified ECE that perfect calibration would show.

    Parameters
    ----------
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    in_degree : array_like of shape (n_nodes,)
        In-degree of each node.
    n_blocks : int, default=10
        Number of blocks of nodes of similar degree.

    Returns
    -------
    NoiseFloor
        Mean and standard deviation of the error.

    Examples
    --------
    >>> from gnncal.metrics import degree_floor
    >>> round(degree_floor([[0.5, 0.5]] * 4, [5, 1, 9, 2], n_blocks=1).mean, 4)
    0.1875

    """
    return calibration_floor(probs, groups=degree_blocks(in_degree, n_blocks=n_blocks))


def _deviation_of(chances: FloatArray) -> float:
    """E|sum of Bernoulli(chances) - its mean|."""
    variance = float((chances * (1.0 - chances)).sum())
    transform = np.ones(len(TURN), dtype=np.complex128)
    if variance < LARGE_VARIANCE:
        for start in range(0, len(chances), NODES_PER_BLOCK):
            block = chances[start : start + NODES_PER_BLOCK, None]
            transform *= np.prod(1.0 + block * TURN, axis=0)
    return mean_absolute_deviation(float(chances.sum()), variance, transform)


def mean_absolute_deviation(mean: float, variance: float, transform: ComplexArray) -> float:
    """E|S - mean| of a sum S of independent hits.

    ``transform`` (65,) is the product of 1 + c TURN over their chances c, the Fourier transform of
    the distribution of S; it is not looked at where the variance is large.
    """
    if variance >= LARGE_VARIANCE:
        return float(np.sqrt(2.0 * variance / np.pi))
    distribution = np.fft.irfft(transform, N_FREQUENCIES)  # of the sum, modulo N_FREQUENCIES
    sums = round(mean) + np.arange(N_FREQUENCIES) - N_FREQUENCIES // 2
    return float(np.abs(sums - mean) @ distribution[sums % N_FREQUENCIES])
