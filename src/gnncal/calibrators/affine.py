"""Affine maps of log-probabilities pulled towards the identity: what dirichlet, svs and sms fit."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.losses import loss_and_residual
from gnncal.calibrators.protocols import warn_unless_converged
from gnncal.calibrators.solvers import lbfgs
from gnncal.core.adam import Objective
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.errors import GnncalWarning
from gnncal.core.learned import SOLVER_TABLE, Array, LearnedTable

SMALLEST_NORMAL = np.finfo(np.float32).tiny  # a probability whose logarithm is -87.3
RIDGE = 1e-6  # where a method has no penalty of its own: keeps the optimum unique and finite
BOUND = 50.0  # of every change; only separable nodes get there


class AffineCalibrator(Calibrator):
    r"""softmax(W x + b) with a quadratic penalty on W - I and on b.

    .. math:: \min_{W, b} \; \mathrm{CE} + \sum_{jk} \Lambda_{jk} (W - I)_{jk}^2 + \mu \sum_j b_j^2

    W is (K, K), or (K,) where it is diagonal. Convex, so L-BFGS finds the one minimum.
    """

    preserves_predictions = False
    fitting = "convex"
    learned: ClassVar[LearnedTable] = {"weight_": Array("K K"), "bias_": Array("K"), **SOLVER_TABLE}
    weight_: FloatArray
    bias_: FloatArray
    converged_: bool
    n_iter_: int

    def _fit_affine(
        self, x: FloatArray, labels: IntArray, penalty: FloatArray, mu: float
    ) -> tuple[str, ...]:
        """Fit W, of the penalty's shape, and b to log-probabilities x (n, K); the bounds hit."""
        n_classes = x.shape[1]
        objective = affine_objective(x, labels, penalty, mu)
        theta = self._minimise(objective, np.zeros(penalty.size + n_classes))
        identity = np.ones(n_classes) if penalty.ndim == 1 else np.eye(n_classes)
        change, self.bias_ = np.split(theta, [penalty.size])
        self.weight_ = identity + change.reshape(penalty.shape)
        return self._report_bounds(weight=change, bias=self.bias_)

    def _minimise(self, objective: Objective, start: FloatArray) -> FloatArray:
        solution = lbfgs(objective, start, BOUND)
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        warn_unless_converged(self, solution)
        return solution.parameters

    def _report_bounds(self, **changes: FloatArray) -> tuple[str, ...]:
        hit = tuple(name for name, values in changes.items() if np.abs(values).max() > BOUND - 1e-6)
        if hit:
            warnings.warn(
                f"{type(self).__name__} stopped with {' and '.join(hit)} at a bound of "
                f"±{BOUND:g}: the calibration nodes can be separated without a mistake.",
                GnncalWarning,
                stacklevel=5,
            )
        return hit

    def _affine_scores(self, x: FloatArray) -> FloatArray:
        """W x + b of each row, in the precision of x."""
        weight, bias = self.weight_.astype(x.dtype), self.bias_.astype(x.dtype)
        return (weight * x if weight.ndim == 1 else x @ weight.T) + bias


def affine_objective(x: FloatArray, labels: IntArray, penalty: FloatArray, mu: float) -> Objective:
    """The penalised loss of theta = (W - I, b), flattened, and its gradient."""
    x = x.astype(np.float64)
    weights = np.append(penalty.ravel(), np.full(x.shape[1], mu))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        flat, bias = np.split(theta, [penalty.size])
        change = flat.reshape(penalty.shape)
        moved = change * x if change.ndim == 1 else x @ change.T
        loss, residual = loss_and_residual(x + moved + bias, labels)
        by_change = (residual * x).sum(axis=0) if change.ndim == 1 else residual.T @ x
        gradient = np.append(by_change.ravel(), residual.sum(axis=0))
        return loss + float(weights @ theta**2), gradient + 2.0 * weights * theta

    return objective
