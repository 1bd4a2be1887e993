"""Cross-entropy of the calibration nodes, with the derivatives that a fit needs."""

from __future__ import annotations

from copy import copy

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
    temperature tau = 1/T, the loss of a node is convex in tau: its slope is E_p[z] - z_y and its
    curvature Var_p[z], under p = softmax(tau z).

    Parameters
    ----------
    logits, labels : ndarray of shape (n, n_classes) and (n,)
        Of the calibration nodes.
    weights : ndarray of shape (n,), optional
        How many nodes each counts as.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import TemperatureLoss
    >>> loss = TemperatureLoss(np.array([[2.0, 0.0], [2.0, 0.0]]), np.array([0, 1]))
    >>> value, slope = loss.value_and_slope(np.array([1.0, 1.0]))
    >>> round(value, 3), slope.round(3)  # a larger temperature would help the second node
    (1.127, array([ 0.119, -0.881]))

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
        """How many nodes these count as; their number without weights."""
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
        tau, _, total = self._weights(temperature)
        return float(self._mean(tau, total))

    def value_and_slope(self, temperature: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss, and its derivative by each node's temperature."""
        tau, weights, total = self._weights(temperature)
        weights *= self.shifted
        mean = weights.sum(axis=0) / total
        slope = (self.at_label - mean) * tau**2
        return float(self._mean(tau, total)), self._share(slope)

    def derivatives(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the loss with its first and second derivatives by each temperature."""
        tau = 1.0 / temperature
        total, mean, variance = self.moments(temperature)
        squared = tau * tau
        slope = (self.at_label - mean) * squared
        curvature = variance * squared**2 - 2.0 * slope * tau
        return self._mean(tau, total), self._share(slope), self._share(curvature)

    def moments(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return what the loss and its derivatives are made of, for each node."""
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

    def _weights(self, temperature: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        tau = 1.0 / temperature
        weights = self.shifted * tau[..., None, :]
        np.exp(weights, out=weights)
        return tau, weights, weights.sum(axis=-2)

    def _mean(self, tau: FloatArray, total: FloatArray) -> FloatArray:
        losses = np.log(total) - tau * self.at_label
        return losses.mean(axis=-1) if self.weights is None else self._share(losses).sum(axis=-1)

    def _share(self, values: FloatArray) -> FloatArray:
        """Return what each node adds to the mean of these values (..., n)."""
        if self.weights is None:
            return values / len(self.at_label)
        return values * (self.weights / self.weights.sum())
