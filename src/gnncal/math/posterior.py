"""The log loss of labelled nodes as a function of a method's parameters, for Laplace posteriors.

Each class gives the loss of some rows and, summed over them, its gradient and its Fisher
information: the curvature that is expected, which is never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray

Rows = IntArray | slice
# Parameters and rows -> ln T (n,) and its derivatives by the parameters (n, p).
LogTemperature = Callable[[FloatArray, Rows], tuple[FloatArray, FloatArray]]
LARGEST_BLOCK = 10_000_000  # numbers that derivatives by a matrix hold at once


class LossDerivatives(NamedTuple):
    """The summed log loss, its gradient (p,) and its Fisher information (p, p)."""

    loss: float
    gradient: FloatArray
    information: FloatArray


class LabelledLoss(Protocol):
    """Labelled nodes, of which some rows are looked at."""

    def losses(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Return the log loss of each row, (n,)."""

    def slopes(self, theta: FloatArray, rows: Rows) -> LossDerivatives:
        """Return the summed loss and its derivatives."""


class ScoredRows(NamedTuple):
    """Scores compared with labels; where nodes have weights, all but ``probs`` are weighted."""

    losses: FloatArray  # (n,) log losses
    probs: FloatArray  # (n, n_classes) softmax(scores)
    shares: FloatArray  # (n, n_classes) the same, times the weight
    residuals: FloatArray  # (n, n_classes) p - onehot(y)


def score_rows(
    scores: FloatArray, labels: IntArray, weights: FloatArray | None, rows: Rows
) -> ScoredRows:
    """Compare the scores (n, n_classes) of some rows with their labels."""
    y = labels[rows]
    at = np.arange(len(y))
    shifted = scores - scores.max(axis=1, keepdims=True)
    probs = np.exp(shifted)
    total = probs.sum(axis=1)
    probs /= total[:, None]
    residuals = probs.copy()
    residuals[at, y] -= 1.0
    losses = np.log(total) - shifted[at, y]
    if weights is None:
        return ScoredRows(losses, probs, probs, residuals)
    w = weights[rows]
    return ScoredRows(losses * w, probs, probs * w[:, None], residuals * w[:, None])


@dataclass(frozen=True)
class TemperatureModel:
    """softmax(z / T) with a temperature that is a function of parameters and node."""

    logits: FloatArray  # (n, n_classes), row maximum 0
    labels: IntArray
    weights: FloatArray | None
    log_temperature: LogTemperature

    def losses(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Return the log loss of each row, (n,)."""
        log_T, _ = self.log_temperature(theta, rows)
        scaled = self.logits[rows] * np.exp(-log_T)[:, None]
        return score_rows(scaled, self.labels, self.weights, rows).losses

    def slopes(self, theta: FloatArray, rows: Rows) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        log_T, by_theta = self.log_temperature(theta, rows)
        scaled = self.logits[rows] * np.exp(-log_T)[:, None]
        losses, probs, shares, residuals = score_rows(scaled, self.labels, self.weights, rows)
        slope = -np.einsum("ik,ik->i", residuals, scaled)  # by ln T
        mean = np.einsum("ik,ik->i", probs, scaled)
        variance = np.einsum("ik,ik->i", shares, (scaled - mean[:, None]) ** 2)
        information = (by_theta * variance[:, None]).T @ by_theta
        return LossDerivatives(float(losses.sum()), slope @ by_theta, information)


@dataclass(frozen=True)
class AffineModel:
    """softmax(x + W x + b) with theta = (W, b), flattened; W is (K, K), or (K,) if diagonal."""

    x: FloatArray  # (n, n_classes)
    labels: IntArray
    weights: FloatArray | None
    shape: tuple[int, ...]
    has_bias: bool = True

    def losses(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Return the log loss of each row, (n,)."""
        return self._score_rows(theta, rows).losses

    def slopes(self, theta: FloatArray, rows: Rows) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        x = self.x[rows]
        losses, probs, shares, residuals = self._score_rows(theta, rows)
        parts = [x, np.ones_like(x)] if self.has_bias else [x]
        if len(self.shape) == 1:
            gradient = np.concatenate([(residuals * part).sum(axis=0) for part in parts])
            return LossDerivatives(
                float(losses.sum()), gradient, _of_diagonal(probs, shares, parts)
            )
        gradient = (residuals.T @ x).ravel()
        if self.has_bias:
            gradient = np.append(gradient, residuals.sum(axis=0))
        return LossDerivatives(float(losses.sum()), gradient, self._of_matrix(probs, shares, x))

    def _score_rows(self, theta: FloatArray, rows: Rows) -> ScoredRows:
        x = self.x[rows]
        flat, bias = np.split(theta, [int(np.prod(self.shape))])
        change = flat.reshape(self.shape)
        scores = x + (x * change if change.ndim == 1 else x @ change.T)
        scores = scores + bias if self.has_bias else scores
        return score_rows(scores, self.labels, self.weights, rows)

    def _of_matrix(self, probs: FloatArray, shares: FloatArray, x: FloatArray) -> FloatArray:
        """Return the information about (W, b): (p_j 1[j = k] - p_j p_k) x x' summed over rows."""
        if self.has_bias:
            x = np.column_stack([x, np.ones(len(x))])
        n_classes, width = probs.shape[1], x.shape[1]
        information = np.zeros((n_classes, width, n_classes, width))
        size = max(1, LARGEST_BLOCK // (n_classes * width))
        for start in range(0, len(x), size):
            block = slice(start, start + size)
            rows, share = x[block], shares[block]
            flat, weighted = (
                (p[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
                for p in (probs[block], share)
            )
            information -= (weighted.T @ flat).reshape(information.shape)
            for k in range(n_classes):
                information[k, :, k, :] += (rows * share[:, [k]]).T @ rows
        order = np.arange(n_classes * width).reshape(n_classes, width)
        last = order[:, self.shape[1] :].ravel()  # the bias comes after all weights
        places = np.append(order[:, : self.shape[1]].ravel(), last)
        return information.reshape(order.size, order.size)[np.ix_(places, places)]


def _of_diagonal(probs: FloatArray, shares: FloatArray, parts: list[FloatArray]) -> FloatArray:
    """Return the information about weights and biases of single classes."""
    blocks = [
        [np.diag((shares * a * b).sum(axis=0)) - (shares * a).T @ (probs * b) for b in parts]
        for a in parts
    ]
    return np.block(blocks)


@dataclass(frozen=True)
class QuadraticModel:
    """Two classes: sigma(b + w_1 s + w_2 s²) of the log-odds s, with theta = (b, w_1, w_2)."""

    features: FloatArray  # (n, 3): 1, s, s², each in its unit
    labels: IntArray
    weights: FloatArray | None

    def losses(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Return the log loss of each row, (n,)."""
        return self._score_rows(theta, rows).losses

    def slopes(self, theta: FloatArray, rows: Rows) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        losses, probs, shares, residuals = self._score_rows(theta, rows)
        features = self.features[rows]
        weights = probs[:, 0] * shares[:, 1]
        information = (features * weights[:, None]).T @ features
        return LossDerivatives(float(losses.sum()), residuals[:, 1] @ features, information)

    def _score_rows(self, theta: FloatArray, rows: Rows) -> ScoredRows:
        score = self.features[rows] @ theta
        scores = np.stack([np.zeros_like(score), score], axis=1)
        return score_rows(scores, self.labels, self.weights, rows)


SMALLEST_PRECISION = 0.1  # of a posterior in any direction: parameters are known to about ±3
EVERY = slice(None)
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
    """What updates since the fit start from: the posterior of the fit, and all labels since.

    The log likelihood of those labels is kept as a quadratic around where it was largest.
    """

    origin: FloatArray  # (p,) parameters of the fit
    covariance: FloatArray  # (p, p) theirs
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
    at, variance = np.exp(-block.labelled.losses(block.theta, EVERY)), 0.0
    for direction in (vectors * np.sqrt(np.maximum(values, 0.0))).T:
        moved = np.exp(-block.labelled.losses(block.theta + SMALL_STEP * direction, EVERY))
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
