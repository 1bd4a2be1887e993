"""Affine maps of scores pulled towards the identity, such as svs and sms."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import PointwiseCalibrator
from gnncal.calibrators.explanation import Parts
from gnncal.calibrators.fit_report import FitReport
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import SOLVER_STATE, Array, LearnedTable, number
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.data.probability import softmax
from gnncal.math.formulas import (
    Formula,
    affine_scores,
    log_odds,
    mixed_log_probabilities,
    quadratic_score,
    structured,
)
from gnncal.math.losses import LinearModel, ParameterBlock, covariance_of, loss_and_residual
from gnncal.math.solvers import Objective, Solution, lbfgs

MANY_CLASSES = 30  # beyond, a full matrix is fitted in the row space of the scores
MAX_STEPS = 200  # of it; a few dozen are usual
MAX_PRODUCTS = 20_000  # with the Hessian, in all steps together
SCALED_GRADIENT = 1e-7  # by parameters scaled to curvature one at the start
ROUNDING = 1e-9  # share of a penalty that does not matter
SMALL_SHARE = 1e-3  # of the penalty off the diagonal, which a smaller gradient is as good as none
GRADIENT_TOLERANCE = 1e-5  # of the gradient itself: below it, the end counts as the minimum
PART = "scores"
MOST_PARAMETERS = 420  # whose covariance is remembered: a full matrix of 20 classes
LARGEST_LOGIT = 1e100  # its square, and sums of many, fit a float64


class AffineCalibrator(PointwiseCalibrator):
    r"""Base of calibrators softmax(W x + b) with a quadratic penalty on W - I and on b.

    .. math:: \min_{W, b} \; \mathrm{CE} + \sum_{jk} \Lambda_{jk} (W - I)_{jk}^2 + \mu \sum_j b_j^2

    CE is the mean log loss of the calibration nodes; the entries of Λ and μ are the penalties. W
    has shape (K, K), or (K,) if it is diagonal. The loss is convex. It is minimised by L-BFGS, or
    by Newton's method in the row space of x if W is a full matrix and there are more than 30
    classes.

    A subclass implements ``_features``, which computes x from logits, ``_probabilities``, and
    ``_fit``, which calls ``_fit_affine`` with the penalties and then ``_report``. It also calls
    ``_remember`` if :meth:`update` is to work.

    Examples
    --------
    A bias for each class; a large penalty holds the weights at 1:

    >>> import numpy as np
    >>> import gnncal
    >>> from gnncal.calibrators import AffineCalibrator, Array
    >>> class Bias(AffineCalibrator):
    ...     learned = {**AffineCalibrator.learned, "weight_": Array("K")}
    ...     def _fit(self, nodes):
    ...         stiff = np.full(nodes.n_classes, 1e6)
    ...         self._fit_affine(nodes, stiff, self.ridge)
    ...         self.fit_report_ = self._report(nodes, has_free_weights=False)
    ...     def _features(self, logits):
    ...         return logits
    ...     def _probabilities(self, logits):
    ...         return gnncal.calibrators.softmax(self.weight_ * logits + self.bias_)
    >>> task = gnncal.example()
    >>> Bias().fit(
    ...     task.logits, task.labels, calibration_nodes=task.calibration_nodes
    ... ).weight_.round(3).max().item()
    1.0

    """

    preserves_predictions = False
    uses_sample_weight = True
    zeroes_unseen_classes = True
    # Where a method has no penalty of its own: keeps the optimum unique and finite.
    ridge: ClassVar[float] = 1e-6
    bound: ClassVar[float] = 50.0  # of every weight and bias; only separable nodes get there
    learned: ClassVar[LearnedTable] = {"weight_": Array("K K"), "bias_": Array("K"), **SOLVER_STATE}
    weight_: FloatArray
    bias_: FloatArray
    converged_: bool
    n_iter_: int

    @property
    def has_bias(self) -> bool:
        """Whether b is fitted; where not, it stays zero."""
        return True

    @abstractmethod
    def _features(self, logits: FloatArray) -> FloatArray:
        """Return x (n, K), which the affine map is applied to."""

    def _checked_features(self, logits: FloatArray) -> FloatArray:
        """Return x, unless it is too large to be squared and summed."""
        x = self._features(logits)
        largest = float(np.abs(x).max(initial=0.0))
        if largest > LARGEST_LOGIT:
            raise InputError(
                f"logits are as large as {largest:.3g}, too large for a linear map; divide them "
                "all by one number, or fit a method that only compares them, such as 'ts'."
            )
        return x

    def _fit_affine(self, nodes: Nodes, penalty: FloatArray, mu: float) -> None:
        """Fit W, of the penalty's shape, and b to the calibration nodes."""
        x = self._checked_features(nodes.calibration_logits)
        if self.has_bias and len(penalty) > MANY_CLASSES and _is_two_numbers(penalty):
            solution = _newton_in_row_space(x, nodes.labels, penalty, mu, nodes.weights)
        else:
            objective = self._objective(x, nodes.labels, penalty, mu, nodes.weights)
            identity = np.append(_identity(penalty.shape).ravel(), np.zeros(x.shape[1]))
            lower, upper = -self.bound - identity, self.bound - identity
            solution = lbfgs(objective, np.zeros(len(identity)), lower, upper)
        self._set_affine(solution, penalty.shape)

    def _objective(
        self,
        x: FloatArray,
        labels: IntArray,
        penalty: FloatArray,
        mu: float,
        weights: FloatArray | None = None,
    ) -> Objective:
        """Return the penalised loss of theta = (W - I, b), flattened, and its gradient."""
        # Without a bias the gradient by b is zero, so that b stays where it starts.
        x = x.astype(np.float64)
        ridge, slope = np.append(penalty.ravel(), np.full(x.shape[1], mu)), float(self.has_bias)

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            flat, bias = np.split(theta, [penalty.size])
            change = flat.reshape(penalty.shape)
            moved = change * x if change.ndim == 1 else x @ change.T
            loss, residual = loss_and_residual(x + moved + bias, labels, weights)
            by_change = (residual * x).sum(axis=0) if change.ndim == 1 else residual.T @ x
            gradient = np.append(by_change.ravel(), slope * residual.sum(axis=0))
            return loss + float(ridge @ theta**2), gradient + 2.0 * ridge * theta

        return objective

    def _set_affine(self, solution: Solution, shape: tuple[int, ...]) -> None:
        change, self.bias_ = np.split(solution.parameters, [int(np.prod(shape))])
        self.weight_ = _identity(shape) + change.reshape(shape)
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter

    # For a posterior the parameters are (W - I, b), flattened; W - I alone without a bias.
    @property
    def _identity(self) -> FloatArray:
        return _identity(self.weight_.shape)

    def _theta(self) -> FloatArray:
        change = (self.weight_ - self._identity).ravel()
        return np.append(change, self.bias_) if self.has_bias else change

    def _linear(self, nodes: Nodes) -> LinearModel:
        """Return the calibration nodes as a function of these parameters."""
        x = self._features(nodes.calibration_logits).astype(np.float64)
        each, n_classes = np.arange(x.shape[1]), x.shape[1]
        classes, columns = (each, each) if self.weight_.ndim == 1 else np.indices((n_classes,) * 2)
        with_one = x
        if self.has_bias:
            with_one = np.column_stack([x, np.ones(len(x))])
            classes = np.append(classes, each)
            columns = np.append(columns, np.full(n_classes, n_classes))
        places = (classes.ravel(), columns.ravel())
        return LinearModel(nodes.labels, nodes.weights, x, with_one, *places, n_classes)

    def _units(self, nodes: Nodes) -> FloatArray:
        """Weights multiply x: the larger x is, the less a weight may move."""
        x = self._features(nodes.calibration_logits)
        size = np.sqrt(np.mean(np.square(x, dtype=np.float64))) or 1.0
        n_biases = self.bias_.size if self.has_bias else 0
        return np.append(np.full(self.weight_.size, 1.0 / size), np.ones(n_biases))

    def _remember(self, nodes: Nodes, penalty: FloatArray) -> None:
        """Store the posterior uncertainty of a few parameters."""
        self.posterior_ = {}
        if penalty.size <= MOST_PARAMETERS:
            information = self._linear(nodes).slopes(self._theta()).information
            self.posterior_ = {PART: covariance_of(information + np.diag(penalty))}

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        covariance, biases = self._covariance_of(PART), slice(self.weight_.size, None)
        fitted = (self._theta(), covariance, self._linear(nodes), biases, self._units(nodes))
        return [ParameterBlock(PART, *fitted)]

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        change, bias = np.split(theta, [self.weight_.size])
        self.weight_ = self._identity + change.reshape(self.weight_.shape)
        self.bias_ = bias if self.has_bias else np.zeros_like(self.bias_)
        self.posterior_ = {name: covariance}

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        if not self.has_bias:
            super()._shift_class_bias(shifts)  # says that it cannot
        self.bias_ = self.bias_ + shifts

    def _report(
        self, nodes: Nodes, *, has_free_weights: bool, bounded: FloatArray | None = None
    ) -> FitReport:
        """Return the report, with what the labels left open."""
        weights = self.weight_ if bounded is None else bounded
        named = {"weight": weights, "bias": self.bias_}
        hit = [end for n, values in named.items() for end in _at_bound(n, values, self.bound)]
        probs = self._probabilities(nodes.calibration_logits)
        reasons = []
        if has_free_weights and (probs.argmax(axis=1) == nodes.labels).all():
            reasons.append("the fitted map predicts every calibration node correctly")
        if hit and np.unique(nodes.labels).size == nodes.n_classes:  # missing: another warning
            reasons.append(f"{' and '.join(hit)} reached the bound of ±{self.bound:g}")
        loss = nodes.mean_log_loss(probs)
        return FitReport.of(nodes, loss, tuple(hit), undetermined=tuple(reasons))


def _identity(shape: tuple[int, ...]) -> FloatArray:
    return np.ones(shape) if len(shape) == 1 else np.eye(shape[0])


def _is_two_numbers(penalty: FloatArray) -> bool:
    """Whether a matrix has one number off its diagonal, and another, not larger, on it."""
    if penalty.ndim == 1 or not 0.0 <= penalty[0, 0] <= penalty[0, 1] > 0.0:
        return False
    is_diagonal = np.eye(len(penalty), dtype=bool)
    return np.array_equal(penalty, np.where(is_diagonal, penalty[0, 0], penalty[0, 1]))


def _newton_in_row_space(
    x: FloatArray, labels: IntArray, penalty: FloatArray, mu: float, weights: FloatArray | None
) -> Solution:
    """Minimise the loss of W - I = B V + diag(d), V a basis of the rows of x, by Newton-CG."""
    x = x.astype(np.float64)
    left, size, basis = np.linalg.svd(x, full_matrices=False)
    left *= size  # x = left V, whose columns are orthogonal: conjugate gradients need few steps
    # The least of off b² + own d² with b + d = w is diagonal w², so the penalty is that of W.
    n_classes, (diagonal, off) = x.shape[1], penalty[0, :2]
    own = off * diagonal / max(off - diagonal, ROUNDING * off)
    ridge = 2.0 * np.repeat([off, own, mu], [basis.shape[0] * n_classes, n_classes, n_classes])
    share = 1.0 / len(x) if weights is None else (weights / weights.sum())[:, None]
    n_products, at, probs = 0, np.full(len(ridge), np.nan), softmax(x)

    def parts(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        by_basis, own, bias = np.split(theta, [-2 * n_classes, -n_classes])
        return by_basis.reshape(n_classes, -1), own, bias

    def moves(theta: FloatArray) -> FloatArray:
        by_basis, own, bias = parts(theta)
        return left @ by_basis.T + own * x + bias

    def back(by_scores: FloatArray, left: FloatArray, x: FloatArray) -> FloatArray:
        by_x = ((by_scores.T @ left).ravel(), (by_scores * x).sum(axis=0))
        return np.concatenate([*by_x, by_scores.sum(axis=0)])

    # In these units the Hessian's diagonal is one at the start.
    scale = 1.0 / np.sqrt(back(probs * (1.0 - probs) * share, left**2, x**2) + ridge)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        theta = theta * scale
        loss, residual = loss_and_residual(x + moves(theta), labels, weights)
        slope = ridge * theta
        return loss + float(slope @ theta) / 2.0, scale * (back(residual, left, x) + slope)

    def product(theta: FloatArray, direction: FloatArray) -> FloatArray:
        nonlocal n_products, probs
        n_products += 1
        if not np.array_equal(theta, at):
            at[...], probs = theta, softmax(x + moves(theta * scale))
        direction = direction * scale
        moved = moves(direction)
        by_scores = probs * (moved - (probs * moved).sum(axis=1, keepdims=True)) * share
        return scale * (back(by_scores, left, x) + ridge * direction)

    def stop_after_enough(_: FloatArray) -> None:
        if n_products > MAX_PRODUCTS:
            raise StopIteration

    from scipy.optimize import minimize  # here because it takes long to import

    # A weak penalty leaves the loss flat, where a small gradient may still be far from the end.
    options = {"gtol": min(SCALED_GRADIENT, SMALL_SHARE * off), "maxiter": MAX_STEPS}
    solver = {"method": "trust-ncg", "hessp": product, "callback": stop_after_enough}
    result = minimize(objective, np.zeros(len(scale)), jac=True, **solver, options=options)
    by_basis, by_own, bias = parts(result.x * scale)
    theta = np.append(by_basis @ basis + np.diag(by_own), bias)
    is_flat = bool(np.abs(result.jac / scale).max() < GRADIENT_TOLERANCE)
    converged = bool(result.success) or is_flat
    return Solution(theta, float(result.fun), int(result.nit), converged)


def _at_bound(name: str, values: FloatArray, bound: float) -> tuple[str, ...]:
    """Return the entries of a vector that reached the bound, or a matrix that has such entries."""
    reached = np.abs(values) >= bound - 1e-6
    if values.ndim == 1:
        return tuple(f"{name}[{c}]" for c in np.flatnonzero(reached))
    return (name,) if reached.any() else ()


class StructuredScaling(AffineCalibrator):
    """An affine map after temperature scaling, with a ridge that falls with n.

    Two classes get a parabola of the log-odds instead, as the authors do. It has no penalty, so
    where it separates the nodes its optimum lies at infinity; a ridge of 1e-6 keeps it finite.
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

    @property
    def _identity(self) -> FloatArray:
        return super()._identity if len(self.bias_) > 1 else np.zeros(2)

    def _linear(self, nodes: Nodes) -> LinearModel:
        if len(self.bias_) > 1:
            return super()._linear(nodes)
        s = log_odds(nodes.calibration_logits).astype(np.float64)
        x, places = np.stack([s, s**2, np.ones_like(s)], axis=1), (np.ones(3, int), np.arange(3))
        return LinearModel(nodes.labels, nodes.weights, 0.0, x, *places, 2)

    def _units(self, nodes: Nodes) -> FloatArray:
        if len(self.bias_) > 1:
            return super()._units(nodes)
        s = log_odds(nodes.calibration_logits).astype(np.float64)
        size = np.sqrt(np.mean(s**2)) or 1.0
        return np.array([1.0 / size, 1.0 / size**2, 1.0])

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        super()._shift_class_bias(shifts if len(self.bias_) > 1 else shifts[1:] - shifts[:1])

    def _fit(self, nodes: Nodes) -> None:
        if nodes.n_classes == 2:
            self._fit_quadratic(nodes)
            return
        n_nodes, n_classes = nodes.total_weight, nodes.n_classes
        self.base_temperature_ = TemperatureScaling.best_temperature(
            nodes.calibration_logits, nodes.labels, nodes.weights
        )
        self.uniform_weight_ = 1.0 / (n_nodes + 1)
        penalty, mu = self._penalty(n_classes) / n_nodes, n_classes / n_nodes
        self._fit_affine(nodes, penalty, mu)
        ridge = np.append(penalty.ravel(), np.full(n_classes, mu))
        self._remember(nodes, 2.0 * n_nodes * ridge)
        self.fit_report_ = self._report(nodes, has_free_weights=False)

    def _fit_quadratic(self, nodes: Nodes) -> None:
        """Fit b, w_1 and w_2; the weights of the standardised s are bounded."""
        self.base_temperature_, self.uniform_weight_ = 1.0, 0.0
        s = log_odds(nodes.calibration_logits).astype(np.float64)
        scale, bound = np.sqrt(nodes.mean(s**2)) or 1.0, np.full(3, self.bound)
        objective = quadratic_objective(s / scale, nodes.labels, nodes.weights)
        solution = lbfgs(objective, np.zeros(3), -bound, bound)
        self.bias_, standardised = np.split(solution.parameters, [1])
        self.weight_ = standardised / np.array([scale, scale**2])
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        self._remember(nodes, np.full(3, 2.0 * nodes.total_weight * self.ridge))
        self.fit_report_ = self._report(nodes, has_free_weights=True, bounded=standardised)

    def _features(self, logits: FloatArray) -> FloatArray:
        return mixed_log_probabilities(logits, self.base_temperature_, self.uniform_weight_)

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        weight, bias = self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype)
        return structured(logits, self.base_temperature_, self.uniform_weight_, weight, bias)

    def _explain(self, nodes: Nodes, row: int) -> Parts:
        logits, T = nodes.logits[[row]].astype(np.float64), self.base_temperature_
        if len(self.bias_) == 1:
            s = log_odds(logits)
            linear = quadratic_score(s, 0.0, *self.weight_)
            terms = {"log-odds": np.append(0.0, linear), "bias": np.append(0.0, self.bias_)}
            return Parts({"log-odds": softmax(terms["log-odds"][None])[0], "bias": s}, terms)
        scores = affine_scores(self._features(logits), self.weight_, 0.0)
        steps = {"temperature": softmax(logits, T), "weights": softmax(scores), "bias": scores}
        terms = {"weighted ln p": scores[0], "bias": self.bias_}
        return Parts({name: probs[0] for name, probs in steps.items()}, terms, T)

    def _as_formula(self) -> Formula:
        learned = self._numbers("base_temperature", "uniform_weight", "weight", "bias")
        return Formula.of_logits(structured, learned, is_temperature=False, keeps_predictions=False)


class StructuredVectorScaling(StructuredScaling):
    r"""Temperature scaling, then a regularised scale and shift of each log-probability (SVS).

    .. math:: p = \mathrm{softmax}((1 + v) \odot x + b), \qquad
        x = \ln\bigl(\tfrac{n}{n+1} \mathrm{softmax}(z / T) + \tfrac1{n+1} \tfrac1K\bigr)

    Here z are the logits of a node, n is the number of calibration nodes, and K the number of
    classes. T comes from temperature scaling. Then v and b minimise the mean log loss plus K/n
    times the sum of their squares. ``base_temperature_``, ``weight_`` and ``bias_`` are T, 1 + v
    and b. With two classes, the probability of class 1 is :math:`\sigma(b + w_1 s + w_2 s^2)`
    instead, with fitted numbers b, w_1 and w_2, where s is the logit of class 1 minus that of
    class 0. Berta, Holzmüller, Jordan, Bach, "Structured matrix scaling for multi-class
    calibration" (2025).

    Notes
    -----
    Use it if you have no graph and predictions may change. With few calibration nodes, its penalty
    pulls the result towards temperature scaling.

    """

    def _penalty(self, n_classes: int) -> FloatArray:
        return np.full(n_classes, float(n_classes))


class StructuredMatrixScaling(StructuredScaling):
    r"""Temperature scaling, then a regularised affine map of the log-probabilities (SMS).

    .. math:: p = \mathrm{softmax}((I + \Delta) x + b), \qquad
        x = \ln\bigl(\tfrac{n}{n+1} \mathrm{softmax}(z / T) + \tfrac1{n+1} \tfrac1K\bigr)

    Here z are the logits of a node, n is the number of calibration nodes, and K the number of
    classes. T comes from temperature scaling. Then Δ and b minimise the mean log loss plus K/n
    times the squares of b and of the diagonal of Δ, plus K(K-1)/n times the squares of the other
    entries of Δ. ``base_temperature_``, ``weight_`` and ``bias_`` are T, I + Δ and b. If K = 2,
    the fit is that of ``svs``. Both methods are from Berta, Holzmüller, Jordan, Bach (2025).

    Notes
    -----
    Use it if you have no graph, predictions may change, and the model confuses certain pairs of
    classes.

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
