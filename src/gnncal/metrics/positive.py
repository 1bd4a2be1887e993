"""One class that matters: is its probability honest?

Bins hold equally many nodes, because the probabilities of a rare class crowd near zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.checks import check_positive, check_probs
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    N_BINS,
    ReliabilityBins,
    Strategy,
    error_of,
    reliability_of,
)
from gnncal.metrics.floor import NoiseFloor, floor_of_bins
from gnncal.metrics.outcomes import Outcomes


def positive_bins(
    labels: Any,
    probs: Any,
    *,
    positive: int,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "quantile",
) -> ReliabilityBins:
    """Sort nodes into bins of the probability of one class.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width, or with equally many nodes.

    Returns
    -------
    ReliabilityBins
        ``confidence`` is the mean probability of the class in each bin, and ``accuracy`` the share
        of nodes that have it.

    Examples
    --------
    >>> from gnncal.metrics import positive_bins
    >>> probs = [[0.99, 0.01], [0.98, 0.02], [0.7, 0.3], [0.5, 0.5]]
    >>> bins = positive_bins([0, 0, 0, 1], probs, positive=1, n_bins=2)
    >>> bins.confidence, bins.accuracy
    (array([0.015, 0.4  ]), array([0. , 0.5]))

    """
    N_BINS.check("n_bins", n_bins)
    return positive_bins_of(Outcomes(labels, probs, positive=positive), n_bins, strategy)


def positive_bins_of(
    outcomes: Outcomes, n_bins: int = DEFAULT_BINS, strategy: Strategy = "quantile"
) -> ReliabilityBins:
    """:func:`positive_bins` of checked outcomes."""
    hits = outcomes.is_positive
    return reliability_of(outcomes.positive_probability, hits, n_bins, strategy)


def positive_calibration_error(
    labels: Any,
    probs: Any,
    *,
    positive: int,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "quantile",
) -> float:
    """Return the mean gap between the probability of one class and how often nodes have it.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width, or with equally many nodes.

    Returns
    -------
    float
        The error, between 0 and 1.

    Examples
    --------
    A model that gives everyone 0.3, where one of four has the class:

    >>> from gnncal.metrics import positive_calibration_error
    >>> round(positive_calibration_error([0, 0, 0, 1], [[0.7, 0.3]] * 4, positive=1), 2)
    0.05

    """
    bins = positive_bins(labels, probs, positive=positive, n_bins=n_bins, strategy=strategy)
    return error_of(bins)


def positive_error_of(outcomes: Outcomes) -> float:
    """:func:`positive_calibration_error` of checked outcomes."""
    return error_of(positive_bins_of(outcomes))


def positive_floor(
    probs: Any,
    *,
    positive: int,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "quantile",
) -> NoiseFloor:
    """Return the error of P(positive) that these very probabilities would show if they were honest.

    Parameters
    ----------
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width, or with equally many nodes.

    Returns
    -------
    NoiseFloor
        Mean and standard deviation of the error; :func:`calibration_floor` says how.

    Examples
    --------
    Of four nodes with probability one half, 2 have the class on average, give or take 3/4:

    >>> from gnncal.metrics import positive_floor
    >>> round(positive_floor([[0.5, 0.5]] * 4, positive=1).mean, 4)
    0.1875

    """
    N_BINS.check("n_bins", n_bins)
    checked = check_probs(probs)
    column = checked[:, check_positive(positive, checked.shape[1], None)].astype(np.float64)
    return floor_of_bins(column, n_bins, strategy)


def positive_floor_of(outcomes: Outcomes) -> NoiseFloor:
    """:func:`positive_floor` of checked outcomes."""
    return floor_of_bins(outcomes.positive_probability, DEFAULT_BINS, "quantile")


def positive_rate_of(outcomes: Outcomes) -> float:
    """Share of the nodes that have the class."""
    return float(outcomes.is_positive.mean())


def positive_mean_of(outcomes: Outcomes) -> float:
    """Mean probability of the class."""
    return float(outcomes.positive_probability.mean())


def positive_brier_score(labels: Any, probs: Any, *, positive: int) -> float:
    """Return the mean squared distance between the probability of one class and 0 or 1.

    With two classes this is half the Brier score of both.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.

    Returns
    -------
    float
        The score, between 0 and 1; lower is better.

    Examples
    --------
    >>> from gnncal.metrics import positive_brier_score
    >>> round(positive_brier_score([0, 1], [[0.9, 0.1], [0.8, 0.2]], positive=1), 3)
    0.325

    """
    return positive_brier_of(Outcomes(labels, probs, positive=positive))


def positive_brier_of(outcomes: Outcomes) -> float:
    """:func:`positive_brier_score` of checked outcomes."""
    return float(positive_squared_errors(outcomes).mean())


def positive_squared_errors(outcomes: Outcomes) -> FloatArray:
    """Squared distance of P(positive) from 0 or 1 for each node; shape (n_nodes,)."""
    return (outcomes.positive_probability - outcomes.is_positive) ** 2
