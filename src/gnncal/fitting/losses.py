"""Cross-entropy of the calibration nodes, with the derivatives that a fit needs."""

from __future__ import annotations

from copy import copy

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray

LOWEST_LOGIT = -1e100  # its square still fits a float64


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

    T is (n,), or (..., n) for several temperatures of each node at once. With the inverse
    temperature tau = 1/T, the loss of a node is convex in tau: its slope is E_p[z] - z_y and its
    curvature Var_p[z], under p = softmax(tau z).
    """

    def __init__(self, logits: FloatArray, labels: IntArray) -> None:
        shifted = logits.T.astype(np.float64, order="C")  # few nodes: exact gradients are worth it
        shifted -= shifted.max(axis=0)
        np.maximum(shifted, LOWEST_LOGIT, out=shifted)
        self.shifted = shifted  # (K, n), highest class 0; class by class, sums over them are fast
        self.at_label = shifted[labels, np.arange(len(labels))]  # (n,)

    def every(self, stride: int) -> TemperatureLoss:
        """Return the loss of every ``stride``-th node."""
        part = copy(self)
        part.shifted = np.ascontiguousarray(self.shifted[:, ::stride])
        part.at_label = self.at_label[::stride]
        return part

    def value(self, temperature: FloatArray) -> float:
        """Return the loss alone."""
        tau, _, total = self._weights(temperature)
        return float(self._mean(tau, total))

    def value_and_slope(self, temperature: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss, and its derivative by each node's temperature, shape (n,)."""
        tau, weights, total = self._weights(temperature)
        weights *= self.shifted
        mean = weights.sum(axis=0) / total
        return float(self._mean(tau, total)), (self.at_label - mean) * tau**2 / len(tau)

    def derivatives(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the loss (...), and its first and second derivatives by each T, shape (..., n)."""
        tau, weights, total = self._weights(temperature)
        weights *= self.shifted
        mean = weights.sum(axis=-2) / total
        weights *= self.shifted
        variance = weights.sum(axis=-2) / total - mean**2
        squared = tau * tau
        slope = (self.at_label - mean) * squared
        curvature = variance * squared**2 - 2.0 * slope * tau
        n = len(self.at_label)
        return self._mean(tau, total), slope / n, curvature / n

    def _weights(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        tau = 1.0 / temperature
        weights = self.shifted * tau[..., None, :]
        np.exp(weights, out=weights)
        return tau, weights, weights.sum(axis=-2)

    def _mean(self, tau: FloatArray, total: FloatArray) -> FloatArray:
        return (np.log(total) - tau * self.at_label).mean(axis=-1)
