"""Curves of each class against the rest, which Platt scaling and beta calibration are made of."""

from __future__ import annotations

from math import log
from typing import Any

from gnncal.calibrators import backend_of
from gnncal_lab.fitting.formulas import softmax, softplus
from gnncal_lab.methods.vector import affine_scores

SMALLEST_NORMAL = 1.1754943508222875e-38  # of float32; a probability whose logarithm is -87.3
LOWEST_LOGARITHM = log(SMALLEST_NORMAL)


def log_chances(z: Any) -> tuple[Any, Any]:
    """ln p and ln(1 - p) of each class, both exact where p is next to 0 or 1, and finite."""
    xp = backend_of(z)
    s = xp.maximum_(xp.shifted(z), LOWEST_LOGARITHM)
    weights = xp.exp(s)
    mass = xp.column(xp.total(weights))
    # Only the largest class can be nearly all of the sum; the others are added up without it.
    rest = xp.where(s < 0.0, mass - weights, xp.column(xp.sum_without_top(weights)[:, 1]))
    return s - xp.log(mass), xp.log(xp.maximum(rest, SMALLEST_NORMAL)) - xp.log(mass)


def normalised_sigmoids(f: Any) -> Any:
    """sigma(f_c) / sum_j sigma(f_j), from logarithms: the sum is above 0 for every f."""
    return softmax(-softplus(-f))


def platt(z: Any, slope: Any, intercept: Any) -> Any:
    """Platt scaling: sigma(a s + b) of the log-odds s of each class, rows normalised."""
    own, others = log_chances(z)
    return normalised_sigmoids(affine_scores(own - others, slope, intercept))


def beta(z: Any, own_weight: Any, rest_weight: Any, intercept: Any) -> Any:
    """Beta calibration: sigma(a ln p - b ln(1 - p) + c) of each class, rows normalised."""
    own, others = log_chances(z)
    return normalised_sigmoids(own_weight * own - rest_weight * others + intercept)
