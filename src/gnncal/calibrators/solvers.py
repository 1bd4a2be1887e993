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
Derivatives = Callable[
    [FloatArray], tuple[float, FloatArray, FloatArray]
]  # loss, gradient, Hessian
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

    With the inverse temperature tau = 1/T, the loss of a node is convex in tau: its slope is
    E_p[z] - z_y and its curvature Var_p[z], under p = softmax(tau z).
    """

    def __init__(self, logits: FloatArray, labels: IntArray) -> None:
        shifted = logits.astype(np.float64)  # few rows: exact gradients are worth the precision
        shifted -= shifted.max(axis=1, keepdims=True)
        np.maximum(shifted, LOWEST_LOGIT, out=shifted)
        self.shifted = shifted  # (n, K), row maximum 0
        self.at_label = shifted[np.arange(len(labels)), labels]  # (n,)
        self.ones = np.ones(shifted.shape[1])  # a product with it sums rows faster than sum does

    def every(self, stride: int) -> TemperatureLoss:
        """The loss of every ``stride``-th node."""
        part = copy(self)
        part.shifted = np.ascontiguousarray(self.shifted[::stride])
        part.at_label = self.at_label[::stride]
        return part

    def value(self, temperature: FloatArray) -> float:
        """The loss alone."""
        tau, _, total = self._weights(temperature)
        return self._mean(tau, total)

    def value_and_slope(self, temperature: FloatArray) -> tuple[float, FloatArray]:
        """The loss, and its derivative by each node's temperature, shape (n,)."""
        tau, weights, total = self._weights(temperature)
        mean = np.einsum("ik,ik->i", weights, self.shifted) / total
        return self._mean(tau, total), (self.at_label - mean) * tau**2 / len(tau)

    def derivatives(self, temperature: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The loss, and its first and second derivatives by each node's temperature."""
        tau, weights, total = self._weights(temperature)
        weights *= self.shifted
        mean = weights @ self.ones / total
        variance = np.einsum("ik,ik->i", weights, self.shifted) / total - mean**2
        slope = (self.at_label - mean) * tau**2
        curvature = variance * tau**4 - 2.0 * slope * tau
        return self._mean(tau, total), slope / len(tau), curvature / len(tau)

    def _weights(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        tau = 1.0 / temperature
        weights = self.shifted * tau[:, None]
        np.exp(weights, out=weights)
        return tau, weights, weights @ self.ones

    def _mean(self, tau: FloatArray, total: FloatArray) -> float:
        return float(np.mean(np.log(total) - tau * self.at_label))


def newton(
    derivatives: Derivatives, start: FloatArray, lower: FloatArray, upper: FloatArray
) -> Solution:
    """Newton's method for a handful of bounded parameters. Deterministic.

    The Hessian's eigenvalues are made positive, so that every step goes downhill even where the
    loss is not convex; steps are shortened until the loss falls.
    """
    theta = np.clip(start, lower, upper)
    loss, gradient, hessian = derivatives(theta)
    for iteration in range(MAX_ITERATIONS):
        free = ((theta > lower) | (gradient <= 0)) & ((theta < upper) | (gradient >= 0))
        if np.abs(gradient[free]).max(initial=0.0) < GRADIENT_TOLERANCE:
            return Solution(theta, loss, iteration, converged=True)
        step = _step_within(theta, gradient, hessian, free, lower, upper)
        while True:
            proposal = np.clip(theta + step, lower, upper)
            if np.abs(proposal - theta).max() < STEP_TOLERANCE:
                return Solution(theta, loss, iteration, converged=True)
            found = derivatives(proposal)
            if found[0] < loss:
                break
            step /= 4.0
        theta, (loss, gradient, hessian) = proposal, found
    return Solution(theta, loss, MAX_ITERATIONS, converged=False)


def _step_within(
    theta: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    free: BoolArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """The Newton step in the free coordinates.

    A coordinate that would leave the box stops at its bound and the others are solved again;
    clipping a joint step instead would leave them where the loss rises.
    """
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
    largest = max(1.0, float(np.abs(values).max()))
    values = np.maximum(np.abs(values), SMALLEST_CURVATURE * largest)
    convex = np.zeros_like(hessian)
    convex[np.ix_(free, free)] = (vectors * values) @ vectors.T
    step, moving = np.zeros_like(theta), free
    while moving.any():
        pull = gradient[moving] + convex[np.ix_(moving, ~moving)] @ step[~moving]
        step[moving] = -np.linalg.solve(convex[np.ix_(moving, moving)], pull)
        inside = np.clip(theta + step, lower, upper) - theta
        leaving = moving & (np.abs(inside - step) > STEP_TOLERANCE)
        if not leaving.any():
            break
        step[leaving] = inside[leaving]
        moving = moving & ~leaving
    if gradient @ step >= 0:  # pinning may turn a step uphill
        step = np.where(free, -gradient, 0.0)
    return step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), STEP_TOLERANCE))


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
