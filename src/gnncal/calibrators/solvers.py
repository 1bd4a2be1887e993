"""Two ways to fit a few parameters: to convergence, or by the paper's early-stopped Adam."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from gnncal.core.adam import Objective, adam
from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.errors import GnncalWarning, InputError

Protocol = Literal["converged", "paper"]
# (n_starts, p) parameters -> losses (n_starts,), gradients (n_starts, p), Hessians (n_starts, p, p)
Derivatives = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
PAPER_EPOCHS = 1000
PAPER_PATIENCE = 50
PAPER_GRADIENT = 1e-3  # below it, Adam's end counts as a minimum
MAX_ITERATIONS = 500
GRADIENT_TOLERANCE = 1e-8
STEP_TOLERANCE = 1e-9
LONGEST_STEP = 2.0  # parameters are logarithms: a factor of seven at most
SMALLEST_CURVATURE = 1e-12
LOWEST_LOGIT = -1e100  # its square still fits a float64


@dataclass(frozen=True)
class Solution:
    """Fitted parameters and how the solver ended."""

    parameters: FloatArray
    loss: float
    n_iter: int
    converged: bool


def check_protocol(protocol: str, data: FitData) -> None:
    """A known protocol, with the nodes that it needs."""
    if protocol not in ("converged", "paper"):
        raise InputError(f"protocol is {protocol!r}; expected 'converged' or 'paper'.")
    if protocol == "paper" and data.train_nodes.size == 0:
        raise InputError(
            "the paper's protocol stops on the training nodes' loss; pass train_nodes."
        )


def warn_unless_converged(method: object, solution: Solution) -> None:
    """Say that a fit which should have reached its minimum did not."""
    if not solution.converged:
        warnings.warn(
            f"{type(method).__name__}: the fit stopped before convergence after "
            f"{solution.n_iter} iterations; check the logits' scale.",
            GnncalWarning,
            stacklevel=5,
        )


def loss_and_residual(scores: FloatArray, labels: IntArray) -> tuple[float, FloatArray]:
    """Mean cross-entropy of softmax(scores), and its derivative by the scores, shape (n, K)."""
    rows = np.arange(len(labels))
    shifted = scores - scores.max(axis=1, keepdims=True)
    residual = np.exp(shifted)
    total = residual.sum(axis=1)
    loss = np.mean(np.log(total) - shifted[rows, labels])
    residual /= total[:, None]
    residual[rows, labels] -= 1.0  # p - onehot(y)
    residual /= len(rows)
    return float(loss), residual


class TemperatureLoss:
    """Mean cross-entropy of softmax(z_i / T_i) over fixed nodes, as a function of T.

    T is (n,), or (..., n) for several temperatures of each node at once. With the inverse
    temperature tau = 1/T, the loss of a node is convex in tau: its slope is E_p[z] - z_y and its
    curvature Var_p[z], under p = softmax(tau z).
    """

    def __init__(self, logits: FloatArray, labels: IntArray) -> None:
        shifted = logits.T.astype(np.float64, order="C")  # few nodes: exact gradients are worth it
        shifted -= shifted.max(axis=0)
        np.maximum(shifted, LOWEST_LOGIT, out=shifted)
        self.shifted = shifted  # (K, n), highest class 0; class by class, sums over them are fast
        self.at_label = shifted[labels, np.arange(len(labels))]  # (n,)

    def every(self, stride: int) -> TemperatureLoss:
        """The loss of every ``stride``-th node."""
        part = copy(self)
        part.shifted = np.ascontiguousarray(self.shifted[:, ::stride])
        part.at_label = self.at_label[::stride]
        return part

    def value(self, temperature: FloatArray) -> float:
        """The loss alone."""
        tau, _, total = self._weights(temperature)
        return float(self._mean(tau, total))

    def value_and_slope(self, temperature: FloatArray) -> tuple[float, FloatArray]:
        """The loss, and its derivative by each node's temperature, shape (n,)."""
        tau, weights, total = self._weights(temperature)
        weights *= self.shifted
        mean = weights.sum(axis=0) / total
        return float(self._mean(tau, total)), (self.at_label - mean) * tau**2 / len(tau)

    def derivatives(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The loss (...), and its first and second derivatives by each T, shape (..., n)."""
        tau, weights, total = self._weights(temperature)
        weights *= self.shifted
        mean = weights.sum(axis=-2) / total
        weights *= self.shifted
        variance = weights.sum(axis=-2) / total - mean**2
        squared = tau * tau
        slope = (self.at_label - mean) * squared
        curvature = variance * squared**2 - 2.0 * slope * tau
        n = len(self.at_label)
        return self._mean(tau, total), slope / n, curvature / n

    def _weights(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        tau = 1.0 / temperature
        weights = self.shifted * tau[..., None, :]
        np.exp(weights, out=weights)
        return tau, weights, weights.sum(axis=-2)

    def _mean(self, tau: FloatArray, total: FloatArray) -> FloatArray:
        return (np.log(total) - tau * self.at_label).mean(axis=-1)


def newton(
    derivatives: Derivatives,
    starts: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    n_kept: int | None = None,
) -> list[Solution]:
    """Newton's method for a handful of bounded parameters, from several starts at once.

    The Hessians' eigenvalues are made positive, so that every step goes downhill even where the
    loss is not convex; steps are shortened until the loss falls. One round evaluates every start
    that still moves: for few nodes that costs hardly more than one of them. Of the ``starts``
    (n_starts, p) only the ``n_kept`` with the lowest loss are followed. Deterministic.
    """
    theta = np.clip(starts, lower, upper)
    loss, gradient, hessian = derivatives(theta)
    if n_kept is not None and n_kept < len(theta):
        kept = np.sort(np.argsort(loss, kind="stable")[:n_kept])
        theta, loss, gradient, hessian = theta[kept], loss[kept], gradient[kept], hessian[kept]
    step = _steps_within(theta, gradient, hessian, lower, upper)
    n_rounds = np.zeros(len(theta), dtype=int)
    for _ in range(MAX_ITERATIONS):
        proposal = np.clip(theta + step, lower, upper)
        moving = np.flatnonzero(np.abs(proposal - theta).max(axis=1) >= STEP_TOLERANCE)
        if moving.size == 0:
            break
        n_rounds[moving] += 1
        tried, gradient, hessian = derivatives(proposal[moving])
        falls = tried < loss[moving]
        better, worse = moving[falls], moving[~falls]
        step[worse] /= 4.0
        if better.size:
            theta[better], loss[better] = proposal[better], tried[falls]
            step[better] = _steps_within(
                theta[better], gradient[falls], hessian[falls], lower, upper
            )
    still = np.abs(np.clip(theta + step, lower, upper) - theta).max(axis=1) >= STEP_TOLERANCE
    ends = zip(theta, loss.tolist(), n_rounds.tolist(), (~still).tolist(), strict=True)
    return [Solution(*end) for end in ends]


def _steps_within(
    theta: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """The Newton step of each start, zero where it has converged.

    A coordinate that would leave the box stops at its bound and the others are solved again;
    clipping a joint step instead would leave them where the loss rises.
    """
    moving = ((theta > lower) | (gradient <= 0)) & ((theta < upper) | (gradient >= 0))
    gradient = np.where(moving, gradient, 0.0)
    convex = _positive_definite(np.where(_pairs(moving), hessian, 0.0))
    step = np.zeros_like(theta)
    identity = np.eye(theta.shape[1])
    for _ in range(theta.shape[1]):
        pull = gradient[..., None] + convex @ np.where(moving, 0.0, step)[..., None]
        solved = np.linalg.solve(np.where(_pairs(moving), convex, identity), -pull)[..., 0]
        step = np.where(moving, solved, step)
        inside = np.clip(theta + step, lower, upper) - theta
        leaving = moving & (np.abs(inside - step) > STEP_TOLERANCE)
        if not leaving.any():
            break
        step = np.where(leaving, inside, step)
        moving = moving & ~leaving
    uphill = (gradient * step).sum(axis=1, keepdims=True) >= 0  # pinning may turn a step
    step = np.where(uphill, -gradient, step)
    longest = np.maximum(np.abs(step).max(axis=1, keepdims=True), STEP_TOLERANCE)
    step *= np.minimum(1.0, LONGEST_STEP / longest)
    converged = np.abs(gradient).max(axis=1, keepdims=True) < GRADIENT_TOLERANCE
    return np.where(converged, 0.0, step)


def _positive_definite(hessian: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(hessian)
    values = np.abs(values)
    largest = np.maximum(1.0, values.max(axis=1, keepdims=True))
    values = np.maximum(values, SMALLEST_CURVATURE * largest)
    return (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)


def _pairs(chosen: BoolArray) -> BoolArray:
    return chosen[:, :, None] & chosen[:, None, :]


def lbfgs(
    objective: Objective, start: FloatArray, bound: float, *, loss_tolerance: float = 0.0
) -> Solution:
    """L-BFGS for losses of many parameters, each within -bound..bound.

    It ends where the gradient vanishes, or a step gains less than ``loss_tolerance`` of the loss.
    """
    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-bound, bound)] * len(start),
        options={"ftol": loss_tolerance, "gtol": 1e-9, "maxiter": 10_000, "maxcor": 20},
    )
    # Without a tolerance on the loss, rounding may end the line search at the very minimum.
    converged = bool(result.success) or float(np.abs(result.jac).max()) < 1e-6
    return Solution(result.x, float(result.fun), int(result.nit), converged)


def solve_like_the_paper(
    objective: Objective, monitor: Callable[[FloatArray], float], start: FloatArray
) -> Solution:
    """Adam on the calibration nodes, stopped and checkpointed on the training nodes' loss."""
    run = adam(objective, start, monitor=monitor, max_epochs=PAPER_EPOCHS, patience=PAPER_PATIENCE)
    loss, gradient = objective(run.parameters)
    converged = float(np.abs(gradient).max()) < PAPER_GRADIENT  # where it stopped may be anywhere
    return Solution(run.parameters, loss, run.n_epochs, converged)
