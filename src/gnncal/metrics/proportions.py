"""Exact intervals of a share of successes, such as the accuracy within a bin."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaincinv

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import number
from gnncal.core.errors import InputError

LEVEL = number(above=0, below=1)


def clopper_pearson(
    successes: Any, trials: Any, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    r"""Return an interval of a probability of success, exact for independent trials.

    It holds every probability under which neither so many successes nor so few are rarer than
    :math:`(1 - \text{level}) / 2`. So it covers the true one at least as often as ``level`` says.

    Parameters
    ----------
    successes : array_like of int
        Numbers of successes, any shape.
    trials : array_like of int
        Numbers of trials, at least as many as successes.
    level : float, default=0.95
        Probability of the two-sided interval.

    Returns
    -------
    low : ndarray
        Lower ends, of the common shape; NaN where there was no trial.
    high : ndarray
        Upper ends.

    Raises
    ------
    InputError
        If there are more successes than trials, or ``level`` is not between 0 and 1.

    References
    ----------
    Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial" (Biometrika 1934).

    Examples
    --------
    >>> from gnncal.metrics import clopper_pearson
    >>> low, high = clopper_pearson([0, 8], [0, 10])
    >>> low.round(3), high.round(3)
    (array([  nan, 0.444]), array([  nan, 0.975]))

    """
    LEVEL.check("level", level)
    hits, n = np.broadcast_arrays(np.asarray(successes), np.asarray(trials))
    if (hits < 0).any() or (hits > n).any():
        raise InputError("successes has entries below 0 or above trials; expected 0 to trials.")
    tail = 0.5 * (1.0 - level)
    high = np.where(hits < n, betaincinv(hits + 1.0, np.maximum(n - hits, 1), 1.0 - tail), 1.0)
    return lower_limit(hits, n, tail), np.where(n == 0, np.nan, high)


def lower_limit(hits: IntArray, n: IntArray, tail: float) -> FloatArray:
    """Return the probability under which so many hits or more have the chance ``tail``."""
    limit = betaincinv(np.maximum(hits, 1), n - hits + 1.0, tail)
    return np.where(n == 0, np.nan, np.where(hits == 0, 0.0, limit))
