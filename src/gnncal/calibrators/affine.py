"""Affine maps of scores pulled towards the identity: vs, matrix, svs, sms and dirichlet."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import FitReport, Fitting
from gnncal.calibrators.own_logits import OwnLogitsCalibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.errors import InputError
from gnncal.core.learned import SOLVER_TABLE, Array, LearnedTable
from gnncal.fitting.adam import Objective
from gnncal.fitting.labelled import AffineLabelled, Labelled
from gnncal.fitting.losses import loss_and_residual
from gnncal.fitting.many_classes import RowSpaceLoss, fit_matrix
from gnncal.fitting.protocols import warn_unless_converged
from gnncal.fitting.solvers import Solution, lbfgs
from gnncal.fitting.updating import Part, covariance_of
from gnncal.nodes import Nodes

RIDGE = 1e-6  # where a method has no penalty of its own: keeps the optimum unique and finite
MANY_CLASSES = 30  # beyond, a full matrix is fitted in the row space of the scores
PART = "scores"
MOST_PARAMETERS = 420  # whose covariance is remembered: a full matrix of 20 classes
LARGEST_LOGIT = 1e100  # its square, and sums of many, fit a float64
BOUND = 50.0  # of every weight and bias; only separable nodes get there


def check_size(x: FloatArray) -> None:
    """Raise an InputError if scores (n, K) are too large to be squared and summed."""
    largest = float(np.abs(x).max(initial=0.0))
    if largest > LARGEST_LOGIT:
        raise InputError(
            f"logits are as large as {largest:.3g}, too large for a linear map; divide them all by "
            "one number, or fit a method that only compares them, such as 'ts'."
        )


class AffineCalibrator(OwnLogitsCalibrator):
    r"""softmax(W x + b) with a quadratic penalty on W - I and on b.

    .. math:: \min_{W, b} \; \mathrm{CE} + \sum_{jk} \Lambda_{jk} (W - I)_{jk}^2 + \mu \sum_j b_j^2

    W is (K, K), or (K,) where it is diagonal. The loss is convex, so there is one minimum.
    L-BFGS finds it, or with a full matrix and many classes Newton's method in the row space of x.
    """

    preserves_predictions = False
    uses_sample_weight = True
    erases_missing_classes = True
    fitting: ClassVar[Fitting] = "convex"
    learned: ClassVar[LearnedTable] = {"weight_": Array("K K"), "bias_": Array("K"), **SOLVER_TABLE}
    weight_: FloatArray
    bias_: FloatArray
    converged_: bool
    n_iter_: int

    def _fit_affine(
        self,
        x: FloatArray,
        labels: IntArray,
        penalty: FloatArray,
        mu: float,
        weights: FloatArray | None = None,
    ) -> None:
        """Fit W, of the penalty's shape, and b to scores x (n, K).

        A full matrix has one penalty on its diagonal and one beside it.
        """
        check_size(x)
        if penalty.ndim == 2 and len(penalty) > MANY_CLASSES:
            diagonal, off_diagonal = float(penalty[0, 0]), float(penalty[0, 1])
            loss = RowSpaceLoss(
                x, labels, weights, diagonal=diagonal, off_diagonal=off_diagonal, mu=mu
            )
            solution = fit_matrix(loss)
            warn_unless_converged(self, solution)
            self._set_affine(solution, penalty.shape)
            return
        objective = affine_objective(x, labels, penalty, mu, weights)
        identity = np.append(_identity(penalty.shape).ravel(), np.zeros(x.shape[1]))
        solution = self._minimise(objective, -BOUND - identity, BOUND - identity)
        self._set_affine(solution, penalty.shape)

    def _minimise(self, objective: Objective, lower: FloatArray, upper: FloatArray) -> Solution:
        solution = lbfgs(objective, np.zeros(len(lower)), lower, upper)
        warn_unless_converged(self, solution)
        return solution

    def _set_affine(self, solution: Solution, shape: tuple[int, ...]) -> None:
        change, self.bias_ = np.split(solution.parameters, [int(np.prod(shape))])
        self.weight_ = _identity(shape) + change.reshape(shape)
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter

    def _remember(self, labelled: Labelled, penalty: FloatArray) -> None:
        """Remember what the calibration nodes leave open of a few parameters.

        ``penalty`` (p,) is the precision that the method's own ridge gives each of them.
        """
        if penalty.size > MOST_PARAMETERS:
            self.posterior_ = {}
            return
        information = labelled.slopes(self._parameters(), slice(None)).information
        self.posterior_ = {PART: covariance_of(information + np.diag(penalty))}

    def _parameters(self) -> FloatArray:
        """Return (W - I, b), flattened."""
        return np.append((self.weight_ - _identity(self.weight_.shape)).ravel(), self.bias_)

    def _labelled(self, nodes: Nodes) -> Labelled:
        """Return the calibration nodes as a function of these parameters."""
        return AffineLabelled(
            self._features(nodes.calibration_logits).astype(np.float64),
            nodes.labels,
            nodes.weights,
            self.weight_.shape,
        )

    @abstractmethod
    def _features(self, logits: FloatArray) -> FloatArray:
        """Return x (n, K), which the affine map is applied to."""

    def _updatable_parts(self, nodes: Nodes) -> list[Part]:
        covariance, labelled = self._covariance_of(PART), self._labelled(nodes)
        theta, units = self._parameters(), self._units(nodes)
        return [Part(PART, theta, covariance, labelled, self._biases(), units)]

    def _biases(self) -> slice:
        """Return where the biases are among the parameters."""
        return slice(self.weight_.size, None)

    def _add_to_scores(self, shifts: FloatArray) -> None:
        self.bias_ = self.bias_ + shifts

    def _units(self, nodes: Nodes) -> FloatArray:
        """Weights multiply x: the larger x is, the less a weight may move."""
        size = np.sqrt(np.mean(self._features(nodes.calibration_logits) ** 2)) or 1.0
        return np.append(np.full(self.weight_.size, 1.0 / size), np.ones(self.bias_.size))

    def _set_updatable_part(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        shape = self.weight_.shape
        change, self.bias_ = np.split(theta, [int(np.prod(shape))])
        self.weight_ = _identity(shape) + change.reshape(shape)
        self.posterior_ = {name: covariance}

    def _report(
        self, nodes: Nodes, loss: float, weight: FloatArray, *, has_free_weights: bool
    ) -> FitReport:
        """Return the report, with what the labels left open.

        The bounds are on ``weight`` and the biases. Weights are free where only the tiny ridge
        acts on them; if there is no mistake, they grow as far as the ridge allows.
        """
        hit = (*_at_bound("weight", weight), *_at_bound("bias", self.bias_))
        probs = self._probabilities(nodes.calibration_logits)
        reasons = []
        if has_free_weights and (probs.argmax(axis=1) == nodes.labels).all():
            reasons.append("the fitted map predicts every calibration node correctly")
        if hit and np.unique(nodes.labels).size == nodes.n_classes:  # missing: another warning
            reasons.append(f"{' and '.join(hit)} reached the bound of ±{BOUND:g}")
        return FitReport.of(nodes, loss, hit, undetermined=tuple(reasons))


def affine_objective(
    x: FloatArray,
    labels: IntArray,
    penalty: FloatArray,
    mu: float,
    weights: FloatArray | None = None,
    *,
    has_bias: bool = True,
) -> Objective:
    """Return the penalised loss of theta = (W - I, b), flattened, and its gradient.

    Without a bias the gradient by b is zero, so that b stays where it starts.
    """
    x = x.astype(np.float64)
    ridge = np.append(penalty.ravel(), np.full(x.shape[1], mu))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        flat, bias = np.split(theta, [penalty.size])
        change = flat.reshape(penalty.shape)
        moved = change * x if change.ndim == 1 else x @ change.T
        loss, residual = loss_and_residual(x + moved + bias, labels, weights)
        by_change = (residual * x).sum(axis=0) if change.ndim == 1 else residual.T @ x
        by_bias = residual.sum(axis=0) if has_bias else np.zeros_like(bias)
        gradient = np.append(by_change.ravel(), by_bias)
        return loss + float(ridge @ theta**2), gradient + 2.0 * ridge * theta

    return objective


def _identity(shape: tuple[int, ...]) -> FloatArray:
    return np.ones(shape) if len(shape) == 1 else np.eye(shape[0])


def _at_bound(name: str, values: FloatArray) -> tuple[str, ...]:
    """Return the entries of a vector that reached the bound, or a matrix that has such entries."""
    reached = np.abs(values) >= BOUND - 1e-6
    if values.ndim == 1:
        return tuple(f"{name}[{c}]" for c in np.flatnonzero(reached))
    return (name,) if reached.any() else ()
