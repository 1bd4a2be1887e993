"""One class that matters: is its probability honest?

Bins hold equally many nodes, because the probabilities of a rare class crowd near zero.
"""

from __future__ import annotations

from gnncal.core.arrays import FloatArray
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    ReliabilityBins,
    Strategy,
    error_of,
    reliability_of,
)
from gnncal.metrics.floor import NoiseFloor, floor_of_bins
from gnncal.metrics.outcomes import Outcomes


def positive_bins_of(
    outcomes: Outcomes, n_bins: int = DEFAULT_BINS, strategy: Strategy = "quantile"
) -> ReliabilityBins:
    """Return bins of the probability of the class, with the share of nodes that have it."""
    hits = outcomes.is_positive
    return reliability_of(outcomes.positive_probability, hits, n_bins, strategy)


def positive_error_of(outcomes: Outcomes) -> float:
    """Mean gap between the probability of the class and how often nodes have it."""
    return error_of(positive_bins_of(outcomes))


def positive_floor_of(outcomes: Outcomes) -> NoiseFloor:
    """Return the error that these very probabilities would show if they were calibrated."""
    return floor_of_bins(outcomes.positive_probability, DEFAULT_BINS, "quantile")


def positive_rate_of(outcomes: Outcomes) -> float:
    """Share of the nodes that have the class."""
    return float(outcomes.is_positive.mean())


def positive_mean_of(outcomes: Outcomes) -> float:
    """Mean probability of the class."""
    return float(outcomes.positive_probability.mean())


def positive_brier_of(outcomes: Outcomes) -> float:
    """Mean squared distance of the probability of the class from 0 or 1."""
    return float(positive_squared_errors(outcomes).mean())


def positive_squared_errors(outcomes: Outcomes) -> FloatArray:
    """Squared distance of P(positive) from 0 or 1 for each node; shape (n_nodes,)."""
    return (outcomes.positive_probability - outcomes.is_positive) ** 2
