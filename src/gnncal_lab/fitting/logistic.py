"""Logistic regression of one class against the rest, on a handful of features."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gnncal.calibrators import Solution, newton
from gnncal_lab.arrays import FloatArray


def logistic(
    features: FloatArray,
    targets: FloatArray,
    weights: FloatArray | None,
    start: FloatArray,
    *,
    ridge: float = 0.0,
    penalty: FloatArray | None = None,
    rising: bool = False,
) -> Solution:
    """Minimise the summed cross-entropy of sigma(x theta + c), which is convex."""
    weights = np.ones(len(targets)) if weights is None else weights
    # Steps are limited in size, so every feature gets centre 0 and spread 1.
    centre = np.average(features, axis=0, weights=weights)
    spread = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weights))
    varies = spread > 1e-12 * (1.0 + np.abs(centre))
    scale = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)
    x = np.column_stack([(features - centre) * scale, np.ones(len(features))])
    plain = np.diag(np.append(scale, 1.0))  # takes parameters of x to those of the features
    plain[-1, :-1] = -centre * scale
    pull = ridge * weights.sum()
    shape = np.zeros((len(start), len(start))) if penalty is None else penalty
    fixed_curvature = plain.T @ (pull * np.eye(len(start)) + shape) @ plain

    def derivatives(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        f, values = theta @ x.T, theta @ plain.T
        distance, bent = values - start, values @ shape
        p = expit(f)
        losses = np.logaddexp(0.0, f) - targets * f
        value = losses @ weights + 0.5 * (pull * distance**2 + bent * values).sum(axis=1)
        gradient = (weights * (p - targets)) @ x + (pull * distance + bent) @ plain
        curvature = np.stack([(x.T * share) @ x for share in weights * p * (1.0 - p)])
        return value, gradient, curvature + fixed_curvature

    first = np.append(start[:-1] * np.where(varies, spread, 0.0), start[-1] + centre @ start[:-1])
    lower = np.full(len(start), -np.inf)
    if rising:
        lower[:-1] = 0.0
    (solution,) = newton(derivatives, first[None], lower, np.full(len(start), np.inf))
    return Solution(plain @ solution.parameters, solution.loss, solution.n_iter, solution.converged)
