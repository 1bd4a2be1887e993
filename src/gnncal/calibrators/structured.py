"""Structured vector and matrix scaling (Berta, Holzmüller, Jordan, Bach 2025)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from gnncal.calibrators.affine import AffineCalibrator
from gnncal.calibrators.temperature import best_temperature
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import number
from gnncal.core.learned import Array, LearnedTable
from gnncal.fitting.adam import Objective
from gnncal.fitting.labelled import Labelled, QuadraticLabelled
from gnncal.fitting.losses import loss_and_residual
from gnncal.formulas.affine import log_odds, mixed_log_probabilities, structured
from gnncal.formulas.methods import Portable, of_logits
from gnncal.nodes import Nodes


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
        **AffineCalibrator.learned,
    }
    base_temperature_: float  # T; 1 with two classes
    uniform_weight_: float  # 1 / (n + 1); 0 with two classes
    weight_: FloatArray  # with two classes (w_1, w_2)
    bias_: FloatArray  # (n_classes,); with two classes (b,)

    @abstractmethod
    def _penalty(self, n_classes: int) -> FloatArray:
        """Return the ridge on W - I, times n; its shape is that of W."""

    def _learned_table(self) -> LearnedTable:
        if len(self.classes_) > 2:
            return self.learned
        return {**self.learned, "weight_": Array("2"), "bias_": Array("1")}

    def _fit(self, nodes: Nodes) -> None:
        logits, n_nodes = nodes.calibration_logits, nodes.total_weight
        if nodes.n_classes == 2:
            self.base_temperature_, self.uniform_weight_ = 1.0, 0.0
            bounded = self._fit_quadratic(log_odds(logits), nodes)
            self._remember(self._labelled(nodes), np.full(3, 2.0 * n_nodes * self.ridge))
        else:
            self.base_temperature_ = best_temperature(logits, nodes.labels, nodes.weights)
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

    def _labelled(self, nodes: Nodes) -> Labelled:
        if len(self.bias_) > 1:
            return super()._labelled(nodes)
        s = self._features(nodes.calibration_logits).astype(np.float64)
        features = np.stack([np.ones_like(s), s, s**2], axis=1)
        return QuadraticLabelled(features, nodes.labels, nodes.weights)

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

    def _set_updatable_part(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        if len(self.bias_) > 1:
            super()._set_updatable_part(name, theta, covariance)
        else:
            self.bias_, self.weight_ = np.split(theta, [1])
            self.posterior_ = {name: covariance}

    def _biases(self) -> slice:
        return super()._biases() if len(self.bias_) > 1 else slice(0, 1)

    def _add_to_scores(self, shifts: FloatArray) -> None:
        super()._add_to_scores(shifts if len(self.bias_) > 1 else shifts[1:] - shifts[:1])

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        weight, bias = self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype)
        return structured(logits, self.base_temperature_, self.uniform_weight_, weight, bias)

    def _portable(self) -> Portable:
        learned = {
            "base_temperature": self.base_temperature_,
            "uniform_weight": self.uniform_weight_,
            "weight": self.weight_,
            "bias": self.bias_,
        }
        return Portable(
            of_logits(structured), learned, is_temperature=False, keeps_predictions=False
        )


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
    >>> fitted = gnncal.StructuredVectorScaling().fit(task.logits, task.labels, nodes=task.nodes)
    >>> round(fitted.fit_report_.loss_before, 2), round(fitted.fit_report_.loss_after, 2)
    (0.3, 0.11)

    """

    learned: ClassVar = {**StructuredScaling.learned, "weight_": Array("K")}

    def _penalty(self, n_classes: int) -> FloatArray:
        return np.full(n_classes, float(n_classes))


class StructuredMatrixScaling(StructuredScaling):
    r"""Mix the classes linearly after temperature scaling, shrunk where nodes are few (SMS).

    .. math:: p = \mathrm{softmax}(x + \Delta x + b), \qquad
        x = \ln\bigl(\tfrac{n}{n+1} \mathrm{softmax}(z / T) + \tfrac1{n+1} \tfrac1K\bigr)

    The ridge is K/n on the diagonal of Δ and on b, and K(K-1)/n beside the diagonal. Two classes
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
    >>> fitted = gnncal.StructuredMatrixScaling().fit(task.logits, task.labels, nodes=task.nodes)
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
