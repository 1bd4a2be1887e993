"""The loss of one group of nodes: cross-entropy, and the gap between confidence and accuracy."""

from __future__ import annotations

import numpy as np

from gnncal.calibrators import Solution, TemperatureLoss, newton
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.groups import NARROW_RANGE

LOWER, UPPER = np.log(NARROW_RANGE)[:, None]
STARTS = np.linspace(LOWER, UPPER, 13)  # of ln T: the loss need not be convex
N_FOLLOWED = 2
SIGNIFICANT_DIGITS = 9  # losses that differ by less are equal: then the smaller T decides

# A value with its first and second derivative by ln T, each (n_temperatures,).
Curve = tuple[FloatArray, FloatArray, FloatArray]


class GapLoss:
    """Share of the cross-entropy, and weight of the squared gap, of nodes with one temperature."""

    def __init__(
        self, logits: FloatArray, labels: IntArray, share: float, gap_weight: float
    ) -> None:
        self.nodes = TemperatureLoss(logits, labels)
        self.accuracy = float((logits.argmax(axis=1) == labels).mean())
        self.share, self.gap_weight = share, gap_weight

    def curves(self, code: FloatArray) -> tuple[Curve, Curve]:
        """Return the mean cross-entropy and the gap at some ln T (n_temperatures, 1)."""
        tau, at_label = np.exp(-code), self.nodes.at_label
        shape = (len(code), len(at_label))
        total, mean, variance = self.nodes.moments(1.0 / np.broadcast_to(tau, shape))
        confidence = 1.0 / total
        entropy = np.log(total) - tau * at_label, mean - at_label, variance
        gap = confidence - self.accuracy, -confidence * mean, confidence * (mean**2 - variance)
        return _by_logarithm(tau, *entropy), _by_logarithm(tau, *gap)

    def derivatives(self, code: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the loss at some ln T (n_temperatures, 1), with both derivatives by it."""
        (entropy, slope, curvature), (gap, rise, bend) = self.curves(code)
        loss = self.share * entropy + self.gap_weight * gap**2
        gradient = self.share * slope + 2.0 * self.gap_weight * gap * rise
        hessian = self.share * curvature + 2.0 * self.gap_weight * (rise**2 + gap * bend)
        return loss, gradient[:, None], hessian[:, None, None]

    def solved(self) -> Solution:
        """Return the ln T with the lowest loss within the range."""
        runs = newton(self.derivatives, STARTS, LOWER, UPPER, n_kept=N_FOLLOWED)
        return min(runs, key=lambda run: round(run.loss, SIGNIFICANT_DIGITS))


def temperature_of(code: FloatArray) -> FloatArray:
    """Return T of ln T, kept within the range; a bound is that very number."""
    inside = np.exp(code).clip(*NARROW_RANGE)
    at_bounds = [code <= LOWER, code >= UPPER]
    return np.select(at_bounds, NARROW_RANGE, inside)


def _by_logarithm(tau: FloatArray, value: FloatArray, slope: FloatArray, bend: FloatArray) -> Curve:
    """Return means over nodes, from derivatives by 1/T (n_temperatures, n) to those by ln T."""
    by_code = -tau * slope
    return value.mean(axis=1), by_code.mean(axis=1), (tau**2 * bend - by_code).mean(axis=1)
