"""Affine maps of scores pulled towards the identity, such as svs and sms."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import Fitting, PointwiseCalibrator
from gnncal.calibrators.fit_report import FitReport
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import SOLVER_STATE, Array, LearnedTable, number
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.math.formulas import Formula, log_odds, mixed_log_probabilities, structured
from gnncal.math.losses import loss_and_residual
from gnncal.math.many_classes import RowSpaceLoss, fit_matrix
from gnncal.math.posterior import (
    AffineModel,
    LabelledLoss,
    ParameterBlock,
    QuadraticModel,
    covariance_of,
)
from gnncal.math.solvers import Objective, Solution, lbfgs

MANY_CLASSES = 30  # beyond, a full matrix is fitted in the row space of the scores
PART = "scores"
MOST_PARAMETERS = 420  # whose covariance is remembered: a full matrix of 20 classes
LARGEST_LOGIT = 1e100  # its square, and sums of many, fit a float64


class AffineCalibrator(PointwiseCalibrator):
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
    zeroes_unseen_classes = True
    fitting: ClassVar[Fitting] = "convex"
    # Where a method has no penalty of its own: keeps the optimum unique and finite.
    ridge: ClassVar[float] = 1e-6
    bound: ClassVar[float] = 50.0  # of every weight and bias; only separable nodes get there
    learned: ClassVar[LearnedTable] = {"weight_": Array("K K"), "bias_": Array("K"), **SOLVER_STATE}
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

    def _remember(self, labelled: LabelledLoss, penalty: FloatArray) -> None:
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

    def _labelled(self, nodes: Nodes) -> LabelledLoss:
        """Return the calibration nodes as a function of these parameters."""
        return AffineModel(
            self._features(nodes.calibration_logits).astype(np.float64),
            nodes.labels,
            nodes.weights,
            self.weight_.shape,
            self._has_bias(),
        )

    @abstractmethod
    def _features(self, logits: FloatArray) -> FloatArray:
        """Return x (n, K), which the affine map is applied to."""

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        covariance, labelled = self._covariance_of(PART), self._labelled(nodes)
        theta, units = self._parameters(), self._units(nodes)
        return [ParameterBlock(PART, theta, covariance, labelled, self._biases(), units)]

    def _biases(self) -> slice:
        """Return where the biases are among the parameters."""
        return slice(self.weight_.size, None)

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        if not self._has_bias():
            super()._shift_class_bias(shifts)  # says that it cannot
        self.bias_ = self.bias_ + shifts

    def _units(self, nodes: Nodes) -> FloatArray:
        """Weights multiply x: the larger x is, the less a weight may move."""
        size = (
            np.sqrt(np.mean(np.square(self._features(nodes.calibration_logits), dtype=np.float64)))
            or 1.0
        )
        of_weights = np.full(self.weight_.size, 1.0 / size)
        return np.append(of_weights, np.ones(self.bias_.size)) if self._has_bias() else of_weights

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
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


class StructuredScaling(AffineCalibrator):
    r"""An affine map after temperature scaling, with a ridge that falls with n.

    .. math:: x = \ln\bigl(\tfrac{n}{n+1} \mathrm{softmax}(z / T) + \tfrac1{n+1} \tfrac1K\bigr)

    Two classes are fitted by :math:`\sigma(b + w_1 s + w_2 s^2)` on the model's log-odds s
    instead, as the authors do. That has no penalty, so where a parabola separates the nodes its
    optimum lies at infinity; a ridge of 1e-6 on the coefficients of the standardised s keeps it
    finite and is not felt otherwise.
    """

    learned: ClassVar[LearnedTable] = {
        "base_temperature_": number(above=0),
        "uniform_weight_": number(at_least=0, at_most=1),
        "weight_": lambda fitted: fitted._shape_of_weights,
        "bias_": lambda fitted: Array("1" if len(fitted.classes_) == 2 else "K"),
        **SOLVER_STATE,
    }
    base_temperature_: float  # T; 1 with two classes
    uniform_weight_: float  # 1 / (n + 1); 0 with two classes
    weight_: FloatArray  # with two classes (w_1, w_2)
    bias_: FloatArray  # (n_classes,); with two classes (b,)

    @abstractmethod
    def _penalty(self, n_classes: int) -> FloatArray:
        """Return the ridge on W - I, times n; its shape is that of W."""

    @property
    def _shape_of_weights(self) -> Array:
        n_classes = len(self.classes_)
        return Array("2" if n_classes == 2 else " ".join("K" * self._penalty(n_classes).ndim))

    def _fit(self, nodes: Nodes) -> None:
        logits, n_nodes = nodes.calibration_logits, nodes.total_weight
        if nodes.n_classes == 2:
            self.base_temperature_, self.uniform_weight_ = 1.0, 0.0
            bounded = self._fit_quadratic(log_odds(logits), nodes)
            self._remember(self._labelled(nodes), np.full(3, 2.0 * n_nodes * self.ridge))
        else:
            self.base_temperature_ = TemperatureScaling.best_temperature(
                logits, nodes.labels, nodes.weights
            )
            self.uniform_weight_ = 1.0 / (n_nodes + 1)
            penalty, mu = self._penalty(nodes.n_classes) / n_nodes, nodes.n_classes / n_nodes
            x = mixed_log_probabilities(logits, self.base_temperature_, self.uniform_weight_)
            self._fit_affine(x, nodes.labels, penalty, mu, nodes.weights)
            bounded = self.weight_
            ridge = np.append(penalty.ravel(), np.full(nodes.n_classes, mu))
            self._remember(self._labelled(nodes), 2.0 * n_nodes * ridge)
        loss = nodes.mean_log_loss(self._probabilities(logits))
        is_free = nodes.n_classes == 2
        self.fit_report_ = self._report(nodes, loss, bounded, has_free_weights=is_free)

    def _fit_quadratic(self, log_odds: FloatArray, nodes: Nodes) -> FloatArray:
        """Fit b, w_1 and w_2; returns the weights of the standardised s, which are bounded."""
        s = log_odds.astype(np.float64)
        scale = np.sqrt(nodes.mean(s**2)) or 1.0
        bound = np.full(3, self.bound)
        objective = quadratic_objective(s / scale, nodes.labels, nodes.weights)
        solution = self._minimise(objective, -bound, bound)
        self.bias_, standardised = np.split(solution.parameters, [1])
        self.weight_ = standardised / np.array([scale, scale**2])
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        return standardised

    def _features(self, logits: FloatArray) -> FloatArray:
        if len(self.bias_) == 1:
            return log_odds(logits)
        return mixed_log_probabilities(logits, self.base_temperature_, self.uniform_weight_)

    def _labelled(self, nodes: Nodes) -> LabelledLoss:
        if len(self.bias_) > 1:
            return super()._labelled(nodes)
        s = self._features(nodes.calibration_logits).astype(np.float64)
        features = np.stack([np.ones_like(s), s, s**2], axis=1)
        return QuadraticModel(features, nodes.labels, nodes.weights)

    def _parameters(self) -> FloatArray:
        """Return (W - I, b), flattened; with two classes (b, w_1, w_2)."""
        if len(self.bias_) > 1:
            return super()._parameters()
        return np.append(self.bias_, self.weight_)

    def _units(self, nodes: Nodes) -> FloatArray:
        if len(self.bias_) > 1:
            return super()._units(nodes)
        s = self._features(nodes.calibration_logits).astype(np.float64)
        size = np.sqrt(np.mean(s**2)) or 1.0
        return np.array([1.0, 1.0 / size, 1.0 / size**2])

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        if len(self.bias_) > 1:
            super()._set_block(name, theta, covariance)
        else:
            self.bias_, self.weight_ = np.split(theta, [1])
            self.posterior_ = {name: covariance}

    def _biases(self) -> slice:
        return super()._biases() if len(self.bias_) > 1 else slice(0, 1)

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        super()._shift_class_bias(shifts if len(self.bias_) > 1 else shifts[1:] - shifts[:1])

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        weight, bias = self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype)
        return structured(logits, self.base_temperature_, self.uniform_weight_, weight, bias)

    def _as_formula(self) -> Formula:
        learned = {
            "base_temperature": self.base_temperature_,
            "uniform_weight": self.uniform_weight_,
            "weight": self.weight_,
            "bias": self.bias_,
        }
        return Formula.of_logits(structured, learned, is_temperature=False, keeps_predictions=False)


class StructuredVectorScaling(StructuredScaling):
    r"""Scale and shift each class after temperature scaling, shrunk where nodes are few (SVS).

    .. math:: p = \mathrm{softmax}((1 + v) \odot x + b), \qquad
        x = \ln\bigl(\tfrac{n}{n+1} \mathrm{softmax}(z / T) + \tfrac1{n+1} \tfrac1K\bigr)

    The ridge is K/n on v and b. Two classes are fitted by :math:`\sigma(b + w_1 s + w_2 s^2)` on
    the model's log-odds s instead, as the authors do.

    Attributes
    ----------
    base_temperature_ : float
        T; 1 with two classes.
    weight_ : ndarray of shape (n_classes,)
        1 + v; with two classes (w_1, w_2).
    bias_ : ndarray of shape (n_classes,)
        The fitted b; one number with two classes.
    uniform_weight_ : float
        1 / (n + 1), the weight of the uniform distribution; 0 with two classes.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where predictions may change, there is no graph, and calibration nodes are few: the ridge
    pulls it towards temperature scaling.

    The fit is convex and solved by L-BFGS to convergence; a step takes O(nK). With two classes the
    authors' form has no penalty of its own, so a ridge of 1e-6 on the coefficients of the
    standardised s keeps it finite on separable nodes.

    References
    ----------
    Berta, Holzmüller, Jordan, Bach, "Structured matrix scaling for multi-class calibration" (2025).

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> fitted = gnncal.calibrators.StructuredVectorScaling().fit(
    ...     task.logits, task.labels, nodes=task.nodes
    ... )
    >>> round(fitted.fit_report_.loss_before, 2), round(fitted.fit_report_.loss_after, 2)
    (0.3, 0.11)

    """

    def _penalty(self, n_classes: int) -> FloatArray:
        return np.full(n_classes, float(n_classes))


class StructuredMatrixScaling(StructuredScaling):
    r"""Mix the classes linearly after temperature scaling, shrunk where nodes are few (SMS).

    .. math:: p = \mathrm{softmax}(x + \Delta x + b), \qquad
        x = \ln\bigl(\tfrac{n}{n+1} \mathrm{softmax}(z / T) + \tfrac1{n+1} \tfrac1K\bigr)

    The ridge is K/n on the diagonal of Δ and on b, and K(K-1)/n off the diagonal. Two classes
    are fitted by :math:`\sigma(b + w_1 s + w_2 s^2)` on the model's log-odds s instead, as the
    authors do.

    Attributes
    ----------
    base_temperature_ : float
        T; 1 with two classes.
    weight_ : ndarray of shape (n_classes, n_classes)
        I + Δ; with two classes (w_1, w_2).
    bias_ : ndarray of shape (n_classes,)
        The fitted b; one number with two classes.
    uniform_weight_ : float
        1 / (n + 1), the weight of the uniform distribution; 0 with two classes.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where predictions may change, there is no graph, and the model confuses certain pairs of
    classes. Among the methods without a graph it had the lowest mean log loss on the eleven graphs
    with at least 100 calibration nodes (docs/evidence.md).

    The fit is convex; a step takes O(nK²). Two classes are fitted as in ``svs``. Beyond 30 classes
    the matrix is fitted as in ``dirichlet``.

    References
    ----------
    Berta, Holzmüller, Jordan, Bach, "Structured matrix scaling for multi-class calibration" (2025).

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> fitted = gnncal.calibrators.StructuredMatrixScaling().fit(
    ...     task.logits, task.labels, nodes=task.nodes
    ... )
    >>> round(fitted.fit_report_.loss_before, 2), round(fitted.fit_report_.loss_after, 2)
    (0.3, 0.09)

    """

    def _penalty(self, n_classes: int) -> FloatArray:
        penalty = np.full((n_classes, n_classes), float(n_classes * (n_classes - 1)))
        np.fill_diagonal(penalty, n_classes)
        return penalty


def quadratic_objective(
    s: FloatArray, labels: IntArray, weights: FloatArray | None = None
) -> Objective:
    """The loss of theta = (b, w_1, w_2) on log-odds s with its tiny ridge, and the gradient."""
    features, ridge = np.stack([np.ones_like(s), s, s**2], axis=1), AffineCalibrator.ridge

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        score = features @ theta
        scores = np.stack([np.zeros_like(s), score], axis=1)
        loss, residual = loss_and_residual(scores, labels, weights)
        gradient = residual[:, 1] @ features + 2.0 * ridge * theta
        return loss + ridge * float(theta @ theta), gradient

    return objective
