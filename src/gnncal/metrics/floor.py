"""The calibration error that perfect calibration would still show, computed without sampling.

Within a bin whose number of hits has a variance below 16 the result is exact up to rounding: it
sums over the distribution of that number. In larger bins the number of hits is taken as normal,
which changes the bin's mean deviation by less than 1%.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_probs
from gnncal.metrics.binning import DEFAULT_BINS, N_BINS, Strategy, bin_edges, bin_index

LARGE_VARIANCE = 16.0  # from here on a sum of hits is normal enough: its deviation is off by < 1%
N_FREQUENCIES = 128  # a sum of smaller variance stays within ±64 of its mean: sixteen deviations
NODES_PER_BLOCK = 1 << 14
PHASES = np.exp(-2j * np.pi * np.arange(N_FREQUENCIES // 2 + 1) / N_FREQUENCIES) - 1.0  # (65,)
ROUNDING = 1e-12  # of a probability
FINE_CELLS = 1024  # of a bin: nodes that share one may take their mean confidence, see HitCount


@dataclass(frozen=True)
class NoiseFloor:
    """The noise floor: mean and spread of a calibration error under perfect calibration.

    Attributes
    ----------
    mean, spread : float
        Mean and standard deviation of the error of a perfectly calibrated model.

    """

    mean: float
    spread: float


def calibration_floor(
    probs: Any, *, n_bins: int = DEFAULT_BINS, strategy: Strategy = "uniform"
) -> NoiseFloor:
    r"""Return the noise floor: the mean ECE if these probabilities were perfectly calibrated.

    The prediction of node i is then correct (:math:`B_i = 1`) with probability :math:`c_i`, its
    confidence. For n nodes in bins b,

    .. math:: \mathbb E\,\mathrm{ECE}
        = \tfrac1n \sum_b \mathbb E \Big|\sum_{i \in b} B_i - \sum_{i \in b} c_i\Big|

    The bins are independent, which gives the standard deviation too. Nothing is sampled.

    Examples
    --------
    For four nodes with confidence 0.5, the mean deviation of the correct ones from 2 is 0.75:

    >>> from gnncal.metrics import calibration_floor
    >>> floor = calibration_floor([[0.5, 0.5]] * 4)
    >>> round(floor.mean, 4), round(floor.spread, 4)
    (0.1875, 0.1654)

    """
    N_BINS.check("n_bins", n_bins)
    confidence = check_probs(probs).max(axis=1).astype(np.float64)
    return floor_of_bins(confidence, n_bins, strategy)


def floor_of_bins(confidence: FloatArray, n_bins: int, strategy: Strategy) -> NoiseFloor:
    """Return the noise floor of the error over bins of these confidences."""
    confidence = np.minimum(confidence, 1.0)
    edges = bin_edges(confidence, n_bins, strategy)
    return floor_of_cells(confidence, bin_index(confidence, edges))


def floor_of_cells(confidence: FloatArray, cell: IntArray) -> NoiseFloor:
    """Return the noise floor of an error over these cells."""
    parts = np.split(confidence[np.argsort(cell, kind="stable")], np.cumsum(np.bincount(cell))[:-1])
    return floor_of_hits([HitCount.of(np.minimum(part, 1.0)) for part in parts], len(cell))


def calibrated_range(
    confidence: FloatArray, edges: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the range of each bin's share of hits under perfect calibration."""
    cell = bin_index(confidence, edges)
    ends = np.full((len(edges) - 1, 2), np.nan)
    for i in np.unique(cell):
        part = confidence[cell == i]
        ends[i] = np.clip(np.divide(HitCount.of(part).interval(level), len(part)), 0.0, 1.0)
    return ends[:, 0], ends[:, 1]


@dataclass(frozen=True, eq=False)
class HitCount:
    """The number of hits in a cell whose nodes are right with these chances."""

    variance: float  # of the number of hits
    chance: FloatArray  # (m,)
    count: FloatArray | None = None  # (m,); None: one node for each chance

    @classmethod
    def of(cls, chance: FloatArray, count: FloatArray | None = None) -> HitCount:
        """Return the hits of nodes with these chances."""
        variance = chance * (1.0 - chance)
        return cls(float((variance if count is None else count * variance).sum()), chance, count)

    @property
    def deviation(self) -> float:
        """Mean absolute deviation of the number of hits from its mean."""
        if self.variance >= LARGE_VARIANCE:
            return float(np.sqrt(2.0 * self.variance / np.pi))
        sums, chance = self._distribution()
        return float(np.abs(sums - self.mean) @ chance)

    @property
    def mean(self) -> float:
        """Expected number of hits."""
        return float(self.chance.sum() if self.count is None else self.count @ self.chance)

    def interval(self, level: float) -> tuple[float, float]:
        """Return numbers of hits that hold the true one with this probability, both tails alike."""
        tail = 0.5 * (1.0 - level)
        if self.variance >= LARGE_VARIANCE:
            half = float(ndtri(1.0 - tail)) * np.sqrt(self.variance)
            return self.mean - half, self.mean + half
        sums, chance = self._distribution()
        below = np.cumsum(chance)
        low, high = np.searchsorted(below, [tail + ROUNDING, 1.0 - tail - ROUNDING])
        return float(sums[low]), float(sums[high])

    def _distribution(self) -> tuple[FloatArray, FloatArray]:
        """Return possible numbers of hits, rising, and the probability of each."""
        if self.variance == 0.0:
            return np.array([self.mean]), np.ones(1)
        transform = np.ones(len(PHASES), dtype=np.complex128)  # of the distribution of the sum
        for start in range(0, len(self.chance), NODES_PER_BLOCK):
            block = slice(start, start + NODES_PER_BLOCK)
            factor = 1.0 + self.chance[block, None] * PHASES
            if self.count is not None:
                factor = factor ** self.count[block, None]
            transform *= np.prod(factor, axis=0)
        distribution = np.fft.irfft(transform, N_FREQUENCIES)  # of the sum, modulo N_FREQUENCIES
        sums = round(self.mean) + np.arange(N_FREQUENCIES) - N_FREQUENCIES // 2
        return sums.astype(np.float64), distribution[sums % N_FREQUENCIES]


def floor_of_hits(cells: Sequence[HitCount], n_nodes: float) -> NoiseFloor:
    """Return the noise floor of an error over cells that hold so many nodes together."""
    deviation = np.array([hits.deviation for hits in cells])
    variance = np.array([hits.variance for hits in cells])
    spread = np.sqrt(np.maximum(variance - deviation**2, 0.0).sum())
    return NoiseFloor(float(deviation.sum() / n_nodes), float(spread / n_nodes))
