"""The conformal quantile: a limit that a new score stays below with a chosen probability."""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy.special import betaincinv

from gnncal.core.arrays import FloatArray

INTERVAL_LEVEL = 0.95
ROUNDING = 1e-9  # 0.9 * 10 is 9, not 10


def conformal_rank(n: int, coverage: float) -> int:
    """Return the rank, among n scores, that a new score does not exceed with this probability."""
    return ceil((n + 1) * coverage - ROUNDING)


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ceil((n + 1) * coverage)-th smallest of n scores; infinite if there is none."""
    rank = conformal_rank(len(scores), coverage)
    if rank > len(scores):
        return np.inf
    return float(np.partition(scores, rank - 1)[rank - 1])


def fewest_calibration(coverage: float) -> int:
    """Return the smallest number of calibration nodes with which sets can leave a class out."""
    n = max(int(coverage / (1 - coverage)) - 1, 1)
    while conformal_rank(n, coverage) > n:
        n += 1
    return n


def coverage_limits(n: int, coverage: float) -> tuple[float, float]:
    """Return limits of what the quantile of n scores covers, in 95 % of the draws of them.

    Given the calibration nodes, the coverage of continuous scores has a beta law. Too few nodes
    leave no class out of a set, which covers everything.
    """
    rank = conformal_rank(n, coverage)
    if rank > n:
        return 1.0, 1.0
    tails = 0.5 * (1 - INTERVAL_LEVEL), 0.5 * (1 + INTERVAL_LEVEL)
    low, high = betaincinv(rank, n + 1 - rank, tails)
    return float(low), float(high)
