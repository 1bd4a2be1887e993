"""Cross-entropy of labelled nodes, with the derivatives that fits and posteriors need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray

LOWEST_LOGIT = -1e100  # its square still fits a float64
NUMBERS_IN_CACHE = 1 << 16  # temporaries of that many numbers are reused quickly


def loss_and_residual(
    scores: FloatArray, labels: IntArray, weights: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Return the mean cross-entropy of softmax(scores), and its derivative by the scores."""
    rows = np.arange(len(labels))
    shifted = scores - scores.max(axis=1, keepdims=True)
    residual = np.exp(shifted)
    total = residual.sum(axis=1)
    losses = np.log(total) - shifted[rows, labels]
    residual /= total[:, None]
    residual[rows, labels] -= 1.0  # p - onehot(y)
    if weights is None:
        residual /= len(rows)
        return float(np.mean(losses)), residual
    residual *= (weights / weights.sum())[:, None]
    return float(np.average(losses, weights=weights)), residual


class TemperatureLoss:
    """Mean cross-entropy of softmax(z_i / T_i) over fixed nodes, as a function of T.

    T is (n,), or (..., n) for several temperatures of each node at once. With the inverse
    temperature tau = 1/T, the loss of a node is convex in tau: its derivatives by tau are
    E_p[z] - z_y and Var_p[z], under p = softmax(tau z). ``derivatives`` are with respect to T.

    Parameters
    ----------
    weights : ndarray of shape (n,), optional
        Weight of each node: a node of weight 2 counts as two nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import TemperatureLoss
    >>> loss = TemperatureLoss(np.array([[2.0, 0.0], [2.0, 0.0]]), np.array([0, 1]))
    >>> value, by_temperature, _ = loss.derivatives(np.array([1.0, 1.0]))
    >>> by_temperature.round(3)  # a larger temperature lowers the loss of the second node
    array([ 0.119, -0.881])

    """

    def __init__(
        self, logits: FloatArray, labels: IntArray, weights: FloatArray | None = None
    ) -> None:
        shifted = logits.T.astype(np.float64, order="C")  # few nodes: exact gradients are worth it
        shifted -= shifted.max(axis=0)
        np.maximum(shifted, LOWEST_LOGIT, out=shifted)
        self.shifted = shifted  # (K, n), highest class 0; class by class, sums over them are fast
        self.at_label = shifted[labels, np.arange(len(labels))]  # (n,)
        self.weights = weights

    @property
    def total_weight(self) -> float:
        """Sum of the weights, or number of nodes without weights."""
        return len(self.at_label) if self.weights is None else float(self.weights.sum())

    def __getitem__(self, rows: slice) -> TemperatureLoss:
        """Return the loss of some of the nodes."""
        part = copy(self)
        part.shifted = np.ascontiguousarray(self.shifted[:, rows])
        part.at_label = self.at_label[rows]
        part.weights = None if self.weights is None else self.weights[rows]
        return part

    def value(self, temperature: FloatArray) -> float:
        """Return the loss alone."""
        tau = 1.0 / temperature
        weights = self.shifted * tau[..., None, :]
        np.exp(weights, out=weights)
        return float(self._mean(tau, weights.sum(axis=-2)))

    def derivatives(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the loss, and its first and second derivatives with respect to each T."""
        tau = 1.0 / temperature
        total, mean, variance = self.moments(temperature)
        squared = tau * tau
        slope = (self.at_label - mean) * squared
        curvature = variance * squared**2 - 2.0 * slope * tau
        return self._mean(tau, total), self._share(slope), self._share(curvature)

    def moments(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return sums of exp(z / T), and mean and variance of z under softmax(z / T), by node."""
        tau = 1.0 / temperature
        total, mean, variance = (np.empty_like(tau) for _ in range(3))
        n_classes, n = self.shifted.shape
        width = max(NUMBERS_IN_CACHE // (n_classes * max(tau.size // n, 1)), 1)
        for start in range(0, n, width):
            part = slice(start, start + width)
            shifted = self.shifted[:, part]
            weights = shifted * tau[..., None, part]
            np.exp(weights, out=weights)
            mass = total[..., part] = weights.sum(axis=-2)
            weights *= shifted
            centre = mean[..., part] = weights.sum(axis=-2) / mass
            weights *= shifted
            variance[..., part] = weights.sum(axis=-2) / mass - centre**2
        return total, mean, variance

    def _mean(self, tau: FloatArray, total: FloatArray) -> FloatArray:
        losses = np.log(total) - tau * self.at_label
        return losses.mean(axis=-1) if self.weights is None else self._share(losses).sum(axis=-1)

    def _share(self, values: FloatArray) -> FloatArray:
        """Return what each node adds to the mean of these values (..., n)."""
        if self.weights is None:
            return values / len(self.at_label)
        return values * (self.weights / self.weights.sum())


# Parameters -> ln T (n,) and its derivatives by the parameters (n, p).
LogTemperature = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
LARGEST_BLOCK = 10_000_000  # numbers that derivatives by many parameters hold at once


class LossDerivatives(NamedTuple):
    """The summed log loss and its derivatives by the parameters."""

    loss: float
    gradient: FloatArray  # (p,)
    information: FloatArray  # (p, p) Fisher's: the expected curvature, which is never negative


class ScoredRows(NamedTuple):
    """Scores compared with labels; where nodes have weights, all but ``probs`` are weighted."""

    losses: FloatArray  # (n,) log losses
    probs: FloatArray  # (n, n_classes) softmax(scores)
    shares: FloatArray  # (n, n_classes) the same, times the weight
    residuals: FloatArray  # (n, n_classes) p - onehot(y)


@dataclass(frozen=True)
class LabelledLoss(ABC):
    """Labelled nodes whose scores are a function of parameters theta (p,)."""

    labels: IntArray
    weights: FloatArray | None

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return the log loss of each node, (n,)."""
        return self._compare(self._scores(theta)).losses

    @abstractmethod
    def slopes(self, theta: FloatArray) -> LossDerivatives:
        """Return the summed loss and its derivatives."""

    @abstractmethod
    def _scores(self, theta: FloatArray) -> FloatArray:
        """Return the scores (n, n_classes), before the softmax."""

    def _compare(self, scores: FloatArray) -> ScoredRows:
        at = np.arange(len(self.labels))
        shifted = scores - scores.max(axis=1, keepdims=True)
        probs = np.exp(shifted)
        total = probs.sum(axis=1)
        probs /= total[:, None]
        residuals = probs.copy()
        residuals[at, self.labels] -= 1.0
        losses = np.log(total) - shifted[at, self.labels]
        if self.weights is None:
            return ScoredRows(losses, probs, probs, residuals)
        w = self.weights[:, None]
        return ScoredRows(losses * self.weights, probs, probs * w, residuals * w)


@dataclass(frozen=True)
class TemperatureModel(LabelledLoss):
    """softmax(z / T) with a temperature that is a function of parameters and node."""

    logits: FloatArray  # (n, n_classes), row maximum 0
    log_temperature: LogTemperature

    def _scores(self, theta: FloatArray) -> FloatArray:
        return self.logits * np.exp(-self.log_temperature(theta)[0])[:, None]

    def slopes(self, theta: FloatArray) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        log_T, by_theta = self.log_temperature(theta)
        scaled = self.logits * np.exp(-log_T)[:, None]
        losses, probs, shares, residuals = self._compare(scaled)
        slope = -np.einsum("ik,ik->i", residuals, scaled)  # by ln T
        mean = np.einsum("ik,ik->i", probs, scaled)
        variance = np.einsum("ik,ik->i", shares, (scaled - mean[:, None]) ** 2)
        information = (by_theta * variance[:, None]).T @ by_theta
        return LossDerivatives(float(losses.sum()), slope @ by_theta, information)


@dataclass(frozen=True)
class LinearModel(LabelledLoss):
    """softmax(offset + W x), where theta are some entries of W and the others are zero."""

    offset: FloatArray | float  # (n, n_classes)
    x: FloatArray  # (n, m)
    classes: IntArray  # (p,) row of W that each parameter stands in,
    columns: IntArray  # (p,) and column
    n_classes: int

    def _scores(self, theta: FloatArray) -> FloatArray:
        weight = np.zeros((self.n_classes, self.x.shape[1]))
        weight[self.classes, self.columns] = theta
        return self.offset + self.x @ weight.T

    def slopes(self, theta: FloatArray) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        losses, probs, shares, residuals = self._compare(self._scores(theta))
        gradient = (residuals.T @ self.x)[self.classes, self.columns]
        # (p_j 1[j = k] - p_j p_k) x x', summed over rows.
        information = np.zeros((len(theta), len(theta)))
        size = max(1, LARGEST_BLOCK // len(theta))
        for rows in (slice(start, start + size) for start in range(0, len(losses), size)):
            x, at = self.x[rows][:, self.columns], (rows, self.classes)
            information -= (shares[at] * x).T @ (probs[at] * x)
        for k in range(self.n_classes):
            own = np.flatnonzero(self.classes == k)
            x = self.x[:, self.columns[own]]
            information[np.ix_(own, own)] += (x * shares[:, [k]]).T @ x
        return LossDerivatives(float(losses.sum()), gradient, information)


SMALLEST_PRECISION = 0.1  # of a posterior in any direction: parameters are known to about ±3
SMALL_STEP = 1e-3  # in standard errors, of a difference
MOST_PARAMETERS = 100  # of a method whose standard error is worth its time


@dataclass(frozen=True)
class ParameterBlock:
    """Parameters that are fitted together: where they are, and what new labels say of them."""

    name: str  # under which their covariance is remembered
    theta: FloatArray  # (p,)
    covariance: FloatArray  # (p, p)
    labelled: LabelledLoss
    biases: slice | None = None  # which of them are biases of classes
    units: FloatArray | float = 1.0  # (p,) by how much a parameter moves to matter


@dataclass(frozen=True)
class Memory:
    """What updates since the fit start from: the posterior of the fit, and all labels since."""

    origin: FloatArray  # (p,) parameters of the fit
    covariance: FloatArray  # (p, p) theirs
    # The log likelihood of those labels is kept as a quadratic around where it was largest.
    centre: FloatArray  # (p,)
    information: FloatArray  # (p, p)
    last: FloatArray  # (p,) parameters after the last update

    def shifted(self, theta: FloatArray) -> Memory:
        """Follow parameters that were moved since, as new rates of the classes do."""
        by = theta - self.last
        return replace(self, origin=self.origin + by, centre=self.centre + by, last=theta)


def standard_error(block: ParameterBlock) -> float | None:
    """Return the root mean square, over labelled nodes, of the error of the label's probability."""
    if block.theta.size > MOST_PARAMETERS:
        return None
    values, vectors = np.linalg.eigh(block.covariance)
    at, variance = np.exp(-block.labelled.losses(block.theta)), 0.0
    for direction in (vectors * np.sqrt(np.maximum(values, 0.0))).T:
        moved = np.exp(-block.labelled.losses(block.theta + SMALL_STEP * direction))
        variance += float(np.mean(((moved - at) / SMALL_STEP) ** 2))
    return float(np.sqrt(variance))


def covariance_of(curvature: FloatArray, smallest: float = SMALLEST_PRECISION) -> FloatArray:
    """Return the covariance of a posterior; a direction that nothing determines has a wide one."""
    values, vectors = np.linalg.eigh(curvature)
    return (vectors / np.maximum(values, smallest)) @ vectors.T


LARGEST_ERROR = 1.0  # standard error of ln T: beyond, T is unknown by more than a factor of e
SMALLEST_CURVATURE = 1e-9  # of the summed loss; keeps a standard error finite


def temperature_error(hessian: FloatArray, slopes: FloatArray) -> float:
    """Root mean square over nodes of the standard error of ln T."""
    curvature, directions = np.linalg.eigh(hessian)
    variance = (slopes @ directions) ** 2 / np.maximum(curvature, SMALLEST_CURVATURE)
    return float(np.sqrt(variance.sum(axis=1).mean()))
