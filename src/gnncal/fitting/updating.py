r"""The posterior of an earlier fit as the prior of new labels.

Where a method was fitted, its parameters have the posterior :math:`N(m, C)` (Laplace's
approximation). How far those of the new labels lie from them is not known, so several distances
:math:`\tau` are tried, each with the prior :math:`N(m, C + \tau^2 U^2)`; the units U are one, and
more for biases. With :math:`\tau = 0` old and new labels come from one world. The evidence of the
new labels and a prior of :math:`\tau` weight the candidates; their weighted mean is the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.fitting.labelled import Labelled

TAUS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
TYPICAL_TAU = 0.2  # the median of its prior,
SPREAD_OF_TAU = 0.75  # which is log-normal; benchmarks/shift.py chose both
BIAS_UNIT = 2.0  # how far a bias moves where other parameters move by one; chosen there too
SMALLEST_TAU = 0.025  # zero counts as that
MAX_STEPS = 100
STEP_TOLERANCE = 1e-5
LONGEST_STEP = 2.0
SMALLEST_PRECISION = 0.1  # of a posterior in any direction: parameters are known to about ±3
LARGEST_PRECISION = 1e8
EVERY = slice(None)


@dataclass(frozen=True)
class Part:
    """Parameters that are fitted together: where they are, and what new labels say of them."""

    name: str  # under which their covariance is remembered
    theta: FloatArray  # (p,)
    covariance: FloatArray  # (p, p)
    labelled: Labelled
    biases: slice | None = None  # which of them are biases of classes
    units: FloatArray | float = 1.0  # (p,) by how much a parameter moves to matter


@dataclass(frozen=True)
class Candidate:
    """The most probable parameters for one tau."""

    tau: float
    theta: FloatArray
    covariance: FloatArray
    log_evidence: float


@dataclass(frozen=True)
class Moved:
    """What became of a part."""

    theta: FloatArray
    covariance: FloatArray
    tau: float  # the mean under the posterior


def move(part: Part) -> Moved:
    """Learn from the new labels."""
    return averaged(candidates_of(part), TYPICAL_TAU, SPREAD_OF_TAU)


def averaged(candidates: list[Candidate], typical: float, spread: float) -> Moved:
    """Return the mean of the candidates under the posterior of tau, given its prior."""
    taus = np.array([candidate.tau for candidate in candidates])
    distance = np.log(np.maximum(taus, SMALLEST_TAU) / typical) / spread
    log_weights = [candidate.log_evidence for candidate in candidates] - 0.5 * distance**2
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    theta = sum_of(weights, [candidate.theta for candidate in candidates])
    wider = [
        candidate.covariance + np.outer(candidate.theta - theta, candidate.theta - theta)
        for candidate in candidates
    ]
    return Moved(theta, sum_of(weights, wider), float(weights @ taus))


def candidates_of(part: Part, bias_unit: float = BIAS_UNIT) -> list[Candidate]:
    """Return the most probable parameters for each tau."""
    units = np.broadcast_to(part.units, part.theta.shape).copy()
    if part.biases is not None:
        units[part.biases] *= bias_unit
    relative = part.covariance / np.outer(units, units)
    variances, directions = np.linalg.eigh((relative + relative.T) / 2.0)
    variances = np.clip(variances, 1.0 / LARGEST_PRECISION, 1.0 / SMALLEST_PRECISION)
    candidates, start = [], part.theta
    for tau in TAUS:
        precisions = 1.0 / (variances + tau**2)
        precision = (directions * precisions) @ directions.T / np.outer(units, units)
        candidates.append(_candidate(part, tau, precision, start))
        start = candidates[-1].theta
    return candidates


def covariance_of(curvature: FloatArray) -> FloatArray:
    """Return the covariance of a posterior; a direction that nothing determines has a wide one."""
    values, vectors = np.linalg.eigh(curvature)
    return (vectors / np.maximum(values, SMALLEST_PRECISION)) @ vectors.T


def _candidate(part: Part, tau: float, precision: FloatArray, start: FloatArray) -> Candidate:
    """Newton's method with the expected curvature, each step shortened until it goes downhill."""

    def posterior(theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        loss, gradient, information = part.labelled.slopes(theta, EVERY)
        away = theta - part.theta
        pull = precision @ away
        return loss + 0.5 * float(pull @ away), gradient + pull, information + precision

    theta, (value, gradient, curvature) = start, posterior(start)
    for _ in range(MAX_STEPS):
        step = -np.linalg.solve(curvature, gradient)
        step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), LONGEST_STEP))
        tried = posterior(theta + step)
        while tried[0] > value and np.abs(step).max() >= STEP_TOLERANCE:
            step = step / 4.0
            tried = posterior(theta + step)
        if np.abs(step).max() < STEP_TOLERANCE:
            break
        theta, (value, gradient, curvature) = theta + step, tried
    narrower = float(np.linalg.slogdet(precision)[1] - np.linalg.slogdet(curvature)[1])
    evidence = 0.5 * narrower - value
    return Candidate(tau, theta, np.linalg.inv(curvature), evidence)


def sum_of(weights: FloatArray, arrays: Sequence[FloatArray]) -> FloatArray:
    """Return the weighted sum of arrays."""
    return np.tensordot(weights, np.array(arrays), axes=1)
