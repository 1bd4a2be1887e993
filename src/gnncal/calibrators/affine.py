"""Affine maps of scores pulled towards the identity, such as svs and sms."""

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
from gnncal.fitting.solvers import Solution, lbfgs
from gnncal.fitting.updating import Part, covariance_of
from gnncal.nodes import Nodes

MANY_CLASSES = 30  # beyond, a full matrix is fitted in the row space of the scores
PART = "scores"
MOST_PARAMETERS = 420  # whose covariance is remembered: a full matrix of 20 classes
LARGEST_LOGIT = 1e100  # its square, and sums of many, fit a float64


class AffineCalibrator(OwnLogitsCalibrator):
    r"""Base of calibrators softmax(W x + b) with a quadratic penalty on W - I and on b.

    .. math:: \min_{W, b} \; \mathrm{CE} + \sum_{jk} \Lambda_{jk} (W - I)_{jk}^2 + \mu \sum_j b_j^2

    W is (K, K), or (K,) where it is diagonal. The loss is convex, so there is one minimum.
    L-BFGS finds it, or with a full matrix and many classes Newton's method in the row space of x.

    A subclass implements ``_features``, the x of logits; ``_probabilities``; and ``_fit``, which
    calls ``_fit_affine`` with the penalties, ``_remember`` if :meth:`update` shall work, and
    ``_report``.

    Attributes
    ----------
    ridge : float
        Penalty where a method has none of its own.
    bound : float
        Largest size of a weight or bias.
    weight_, bias_ : ndarray
        The fitted W and b.

    Examples
    --------
    A bias for each class and no more:

    >>> import numpy as np
    >>> import gnncal
    >>> from gnncal.calibrators import AffineCalibrator, Array
    >>> class Bias(AffineCalibrator):
    ...     learned = {**AffineCalibrator.learned, "weight_": Array("K")}
    ...     def _fit(self, nodes):
    ...         logits, stiff = nodes.calibration_logits, np.full(nodes.n_classes, 1e6)
    ...         self._fit_affine(logits, nodes.labels, stiff, self.ridge, nodes.weights)
    ...         loss = nodes.mean_log_loss(self._probabilities(logits))
    ...         self.fit_report_ = self._report(nodes, loss, self.weight_, has_free_weights=False)
    ...     def _features(self, logits):
    ...         return logits
    ...     def _probabilities(self, logits):
    ...         return gnncal.calibrators.softmax(self.weight_ * logits + self.bias_)
    >>> task = gnncal.example()
    >>> Bias().fit(task.logits, task.labels, nodes=task.nodes).weight_.round(3).max().item()
    1.0

    """

    preserves_predictions = False
    uses_sample_weight = True
    erases_missing_classes = True
    fitting: ClassVar[Fitting] = "convex"
    # Where a method has no penalty of its own: keeps the optimum unique and finite.
    ridge: ClassVar[float] = 1e-6
    bound: ClassVar[float] = 50.0  # of every weight and bias; only separable nodes get there
    learned: ClassVar[LearnedTable] = {"weight_": Array("K K"), "bias_": Array("K"), **SOLVER_TABLE}
    weight_: FloatArray
    bias_: FloatArray
    converged_: bool
    n_iter_: int

    @staticmethod
    def _check_size(x: FloatArray) -> None:
        """Raise an InputError if scores (n, K) are too large to be squared and summed."""
        largest = float(np.abs(x).max(initial=0.0))
        if largest > LARGEST_LOGIT:
            raise InputError(
                f"logits are as large as {largest:.3g}, too large for a linear map; divide them "
                "all by one number, or fit a method that only compares them, such as 'ts'."
            )

    def _fit_affine(
        self,
        x: FloatArray,
        labels: IntArray,
        penalty: FloatArray,
        mu: float,
        weights: FloatArray | None = None,
    ) -> None:
        """Fit W, of the penalty's shape, and b to scores x (n, K)."""
        self._check_size(x)
        if penalty.ndim == 2 and len(penalty) > MANY_CLASSES:
            diagonal, off_diagonal = float(penalty[0, 0]), float(penalty[0, 1])
            loss = RowSpaceLoss(
                x, labels, weights, diagonal=diagonal, off_diagonal=off_diagonal, mu=mu
            )
            solution = fit_matrix(loss)
            self._set_affine(solution, penalty.shape)
            return
        objective = self._objective(x, labels, penalty, mu, weights)
        identity = np.append(_identity(penalty.shape).ravel(), np.zeros(x.shape[1]))
        solution = self._minimise(objective, -self.bound - identity, self.bound - identity)
        self._set_affine(solution, penalty.shape)

    def _objective(
        self,
        x: FloatArray,
        labels: IntArray,
        penalty: FloatArray,
        mu: float,
        weights: FloatArray | None = None,
    ) -> Objective:
        """Return the penalised loss of (W - I, b), flattened, and its gradient."""
        has_bias = self._has_bias()
        return affine_objective(x, labels, penalty, mu, weights, has_bias=has_bias)

    def _has_bias(self) -> bool:
        """Whether b is fitted; a hook. Without it, b stays zero."""
        return True

    def _minimise(self, objective: Objective, lower: FloatArray, upper: FloatArray) -> Solution:
        return lbfgs(objective, np.zeros(len(lower)), lower, upper)

    def _set_affine(self, solution: Solution, shape: tuple[int, ...]) -> None:
        change, self.bias_ = np.split(solution.parameters, [int(np.prod(shape))])
        self.weight_ = _identity(shape) + change.reshape(shape)
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter

    def _remember(self, labelled: Labelled, penalty: FloatArray) -> None:
        """Remember what the calibration nodes leave open of a few parameters."""
        if penalty.size > MOST_PARAMETERS:
            self.posterior_ = {}
            return
        information = labelled.slopes(self._parameters(), slice(None)).information
        self.posterior_ = {PART: covariance_of(information + np.diag(penalty))}

    def _parameters(self) -> FloatArray:
        """Return (W - I, b), flattened; W - I alone without a bias."""
        change = (self.weight_ - _identity(self.weight_.shape)).ravel()
        return np.append(change, self.bias_) if self._has_bias() else change

    def _labelled(self, nodes: Nodes) -> Labelled:
        """Return the calibration nodes as a function of these parameters."""
        return AffineLabelled(
            self._features(nodes.calibration_logits).astype(np.float64),
            nodes.labels,
            nodes.weights,
            self.weight_.shape,
            self._has_bias(),
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
        if not self._has_bias():
            super()._add_to_scores(shifts)  # says that it cannot
        self.bias_ = self.bias_ + shifts

    def _units(self, nodes: Nodes) -> FloatArray:
        """Weights multiply x: the larger x is, the less a weight may move."""
        size = np.sqrt(np.mean(self._features(nodes.calibration_logits) ** 2)) or 1.0
        of_weights = np.full(self.weight_.size, 1.0 / size)
        return np.append(of_weights, np.ones(self.bias_.size)) if self._has_bias() else of_weights

    def _set_updatable_part(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        shape = self.weight_.shape
        change, bias = np.split(theta, [int(np.prod(shape))])
        self.weight_ = _identity(shape) + change.reshape(shape)
        self.bias_ = bias if self._has_bias() else np.zeros_like(self.bias_)
        self.posterior_ = {name: covariance}

    def _report(
        self, nodes: Nodes, loss: float, weight: FloatArray, *, has_free_weights: bool
    ) -> FitReport:
        """Return the report, with what the labels left open."""
        named = {"weight": weight, "bias": self.bias_}
        hit = [end for n, values in named.items() for end in _at_bound(n, values, self.bound)]
        probs = self._probabilities(nodes.calibration_logits)
        reasons = []
        if has_free_weights and (probs.argmax(axis=1) == nodes.labels).all():
            reasons.append("the fitted map predicts every calibration node correctly")
        if hit and np.unique(nodes.labels).size == nodes.n_classes:  # missing: another warning
            reasons.append(f"{' and '.join(hit)} reached the bound of ±{self.bound:g}")
        return FitReport.of(nodes, loss, tuple(hit), undetermined=tuple(reasons))


def affine_objective(
    x: FloatArray,
    labels: IntArray,
    penalty: FloatArray,
    mu: float,
    weights: FloatArray | None = None,
    *,
    has_bias: bool = True,
) -> Objective:
    """Return the penalised loss of theta = (W - I, b), flattened, and its gradient."""
    # Without a bias the gradient by b is zero, so that b stays where it starts.
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


def _at_bound(name: str, values: FloatArray, bound: float) -> tuple[str, ...]:
    """Return the entries of a vector that reached the bound, or a matrix that has such entries."""
    reached = np.abs(values) >= bound - 1e-6
    if values.ndim == 1:
        return tuple(f"{name}[{c}]" for c in np.flatnonzero(reached))
    return (name,) if reached.any() else ()
