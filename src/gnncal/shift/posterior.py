"""How labels move the posterior of a fit: as far as they ask for, and no label counts twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.math.losses import SMALLEST_PRECISION, LossDerivatives, Memory, ParameterBlock

Slopes = Callable[[FloatArray], LossDerivatives]
TAUS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
TYPICAL_TAU = 0.2  # the median of its prior,
SPREAD_OF_TAU = 0.75  # which is log-normal; benchmarks/shift.py chose both
BIAS_UNIT = 2.0  # how far a bias moves where other parameters move by one; chosen there too
SMALLEST_TAU = 0.025  # zero counts as that
MAX_STEPS = 100
STEP_TOLERANCE = 1e-5
LONGEST_STEP = 2.0
LARGEST_PRECISION = 1e8
SMALLEST_SHARE = 1e-12  # of the largest information; less is rounding, where nothing is known


@dataclass(frozen=True)
class UpdatedBlock:
    """What became of a part: its parameters, and how far labels let them move."""

    theta: FloatArray
    covariance: FloatArray
    tau: float  # the mean under the posterior; of a candidate, its own


@dataclass(frozen=True)
class Candidate(UpdatedBlock):
    """The most probable parameters for one tau."""

    log_evidence: float


def update_block(
    block: ParameterBlock, memory: Memory | None = None
) -> tuple[UpdatedBlock, Memory]:
    """Learn from the new labels and those since the fit, and remember all of them."""
    if memory is None:
        nothing = np.zeros_like(block.covariance)
        memory = Memory(block.theta, block.covariance, block.theta, nothing, block.theta)
    known = memory.shifted(block.theta)

    def slopes(theta: FloatArray) -> LossDerivatives:
        """Return the summed loss of all labels since the fit and its derivatives."""
        loss, gradient, information = block.labelled.slopes(theta)
        away = theta - known.centre
        pull = known.information @ away
        total = information + known.information
        return LossDerivatives(loss + 0.5 * float(pull @ away), gradient + pull, total)

    start = replace(block, theta=known.origin, covariance=known.covariance)
    moved = average_over_scales(candidates_of(start, slopes), TYPICAL_TAU, SPREAD_OF_TAU)
    _, gradient, information = slopes(moved.theta)
    centre = moved.theta - np.linalg.pinv(information, SMALLEST_SHARE, hermitian=True) @ gradient
    kept = replace(known, centre=centre, information=information, last=moved.theta)
    return moved, kept


def average_over_scales(candidates: list[Candidate], typical: float, spread: float) -> UpdatedBlock:
    """Return the mean of the candidates under the posterior of tau, given its prior."""
    taus = np.array([candidate.tau for candidate in candidates])
    distance = np.log(np.maximum(taus, SMALLEST_TAU) / typical) / spread
    log_weights = [candidate.log_evidence for candidate in candidates] - 0.5 * distance**2
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    theta = np.tensordot(weights, [candidate.theta for candidate in candidates], axes=1)
    wider = [
        candidate.covariance + np.outer(candidate.theta - theta, candidate.theta - theta)
        for candidate in candidates
    ]
    return UpdatedBlock(theta, np.tensordot(weights, wider, axes=1), float(weights @ taus))


def candidates_of(
    part: ParameterBlock, slopes: Slopes, bias_unit: float = BIAS_UNIT
) -> list[Candidate]:
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
        candidates.append(_candidate(part.theta, slopes, tau, precision, start))
        start = candidates[-1].theta
    return candidates


def _candidate(
    origin: FloatArray, slopes: Slopes, tau: float, precision: FloatArray, start: FloatArray
) -> Candidate:
    """Newton's method with the expected curvature, each step shortened until it goes downhill."""

    def posterior(theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        loss, gradient, information = slopes(theta)
        away = theta - origin
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
    return Candidate(theta, np.linalg.inv(curvature), tau, 0.5 * narrower - value)
