"""Two ways to fit a few parameters: to convergence, or by the paper's early-stopped Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from gnncal.core.adam import Objective, adam
from gnncal.core.arrays import FloatArray, IntArray

Protocol = Literal["converged", "paper"]
N_STARTS = 2  # how many of the candidate starts are followed to their minimum
PAPER_EPOCHS = 1000
PAPER_PATIENCE = 50
LOWEST_LOGIT = -1e100  # its square still fits a float64


@dataclass(frozen=True)
class Solution:
    """Fitted parameters and how the solver ended."""

    parameters: FloatArray
    loss: float
    n_iter: int
    converged: bool


class TemperatureLoss:
    """Mean cross-entropy of softmax(z_i / T_i) over fixed nodes, as a function of T.

    With the inverse temperature tau = 1/T, the loss of a node is convex in tau: its slope is
    E_p[z] - z_y under p = softmax(tau z).
    """

    def __init__(self, logits: FloatArray, labels: IntArray) -> None:
        shifted = logits.astype(np.float64)  # few rows: exact gradients are worth the precision
        shifted -= shifted.max(axis=1, keepdims=True)
        np.maximum(shifted, LOWEST_LOGIT, out=shifted)
        self.shifted = shifted  # (n, K), row maximum 0
        self.at_label = shifted[np.arange(len(labels)), labels]  # (n,)

    def value(self, temperature: FloatArray) -> float:
        """The loss alone."""
        tau = 1.0 / temperature
        weights = self.shifted * tau[:, None]
        total = np.exp(weights, out=weights).sum(axis=1)
        return float(np.mean(np.log(total) - tau * self.at_label))

    def value_and_slope(self, temperature: FloatArray) -> tuple[float, FloatArray]:
        """The loss, and its derivative by each node's temperature, shape (n,)."""
        tau = 1.0 / temperature
        weights = self.shifted * tau[:, None]
        total = np.exp(weights, out=weights).sum(axis=1)
        mean_logit = np.einsum("ik,ik->i", weights, self.shifted) / total
        slope = (self.at_label - mean_logit) * tau**2 / len(tau)
        return float(np.mean(np.log(total) - tau * self.at_label)), slope


def solve_to_convergence(
    objective: Objective,
    starts: Sequence[FloatArray],
    bounds: Sequence[tuple[float, float]],
) -> Solution:
    """Follow the most promising starts with bounded L-BFGS and keep the lowest loss.

    Deterministic. Starts are ranked by their loss; equal minima go to the better-ranked start.
    """
    ranked = sorted(starts, key=lambda start: objective(start)[0])[:N_STARTS]
    options = {"ftol": 1e-12, "gtol": 1e-7, "maxiter": 500}
    runs = [
        minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for start in ranked
    ]
    best = min(runs, key=lambda run: run.fun)
    iterations = sum(run.nit for run in runs)
    return Solution(best.x, float(best.fun), int(iterations), bool(best.success))


def solve_like_the_paper(
    objective: Objective, monitor: Callable[[FloatArray], float], start: FloatArray
) -> Solution:
    """Adam on the calibration nodes, stopped and checkpointed on the training nodes' loss."""
    run = adam(objective, start, monitor=monitor, max_epochs=PAPER_EPOCHS, patience=PAPER_PATIENCE)
    return Solution(run.parameters, objective(run.parameters)[0], run.n_epochs, run.stopped_early)
