"""Ensemble temperature scaling (Zhang, Kailkhura, Han, ICML 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import (
    Array,
    Formula,
    PointwiseCalibrator,
    Solution,
    TemperatureScaling,
    backend_of,
    keep_predictions,
    number,
)
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import PROTOCOLS, SOLVER_STATE, Protocol

SMALLEST_PROBABILITY = 1e-12  # a certain mistake costs 27.6 nats instead of infinity
BARRIERS = tuple(10.0**-k for k in range(1, 11))  # each minimum starts the search for the next
MAX_STEPS = 50  # of Newton's method with one barrier; a handful are usual
STEP_TOLERANCE = 1e-6  # expected gain of a step, in units of the barrier
SMALLEST_WEIGHT = 1e-7  # below it, a weight is zero
LARGEST_POSSIBLE_GAIN = 1e-6  # of the mean log loss, by any other weights
LARGEST_UNIFORM_WEIGHT = 1.0 - 1e-6  # the uniform part alone would forget the prediction


class EnsembleTemperatureScaling(PointwiseCalibrator):
    r"""Mix the temperature-scaled, the uncalibrated and the uniform distribution (ETS).

    .. math:: p = w_1 \mathrm{softmax}(z / T) + w_2 \mathrm{softmax}(z) + w_3 / K

    Here z are the logits of a node and K is the number of classes. T comes from temperature
    scaling. The weights w are at least 0, sum to 1 and minimise the mean log loss of the
    calibration nodes.

    Parameters
    ----------
    protocol : {"converged", "paper"}, default="converged"
        How T is fitted. ``"converged"`` minimises the log loss of the calibration nodes.
        ``"paper"`` minimises it by Adam and stops early on the log loss of the training nodes, as
        in the HoTS paper; it needs ``train_nodes``.

    Attributes
    ----------
    base_temperature_ : float
        The fitted T.
    weights_ : ndarray of shape (3,)
        The fitted w.

    Notes
    -----
    Use it where some labels are wrong or random: the uniform distribution keeps the confidence
    below 1.

    The HoTS paper lists ETS as a method that can change predictions. It cannot: all parts are
    monotone in z, and the fit keeps w_1 + w_2 above 0.

    References
    ----------
    Zhang, Kailkhura, Han, "Mix-n-Match: ensemble and compositional methods for uncertainty
    calibration in deep learning" (ICML 2020).

    Examples
    --------
    A fifth of the labels are random, so the uniform distribution gets a positive weight:

    >>> import numpy as np
    >>> from gnncal_lab import EnsembleTemperatureScaling
    >>> generator = np.random.default_rng(0)
    >>> labels = generator.integers(3, size=2000)
    >>> logits = 9 * np.eye(3)[labels]
    >>> labels[:400] = generator.integers(3, size=400)
    >>> calibrator = EnsembleTemperatureScaling().fit(logits, labels)
    >>> round(float(calibrator.weights_[2]), 2)
    0.14

    """

    preserves_predictions = True
    constraints: ClassVar = {"protocol": PROTOCOLS}
    learned: ClassVar = {
        "base_temperature_": number(above=0),
        "weights_": Array("3", low=0, high=1, total=1),
        **SOLVER_STATE,
    }
    base_temperature_: float
    weights_: FloatArray
    converged_: bool
    n_iter_: int

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    def _fit(self, nodes: Nodes) -> None:
        scaling = TemperatureScaling(protocol=self.protocol)
        scaling._fit(nodes)
        self.base_temperature_ = scaling.base_temperature_
        parts = self._parts(nodes.calibration_logits.astype(np.float64))
        at_label = parts[:, np.arange(nodes.calibration_nodes.size), nodes.labels].T  # (n, 3)
        solution = mixture_weights(at_label)
        self.weights_ = solution.parameters
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        self.fit_report_ = replace(scaling.fit_report_, loss_after=solution.loss)

    def _parts(self, logits: FloatArray) -> FloatArray:
        uniform = np.full_like(logits, 1.0 / logits.shape[1])
        return np.stack([softmax(logits, self.base_temperature_), softmax(logits), uniform])

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        mixed = mixture(logits, self.base_temperature_, self.weights_.astype(logits.dtype))
        return keep_predictions(mixed, logits.argmax(axis=1))

    def _as_formula(self) -> Formula:
        learned = {"base_temperature": self.base_temperature_, "weights": self.weights_}
        return Formula.of_logits(mixture, learned, is_temperature=False)


def mixture_weights(at_label: FloatArray) -> Solution:
    r"""Weights (w1, w2, w3) on the simplex that minimise the mean log loss of the mixture."""
    weights, n_iter = np.full(3, 1.0 / 3.0), 0
    for barrier in BARRIERS:
        for _ in range(MAX_STEPS):
            value, gradient, hessian = mixture_derivatives(at_label, weights, barrier)
            step = -np.linalg.solve(hessian, gradient)
            if -gradient @ step < barrier * STEP_TOLERANCE:
                break
            n_iter += 1
            weights = _step_downhill(at_label, weights, barrier, step, value)
    weights /= weights.sum()
    weights = _without_traces(weights)
    mixed = np.maximum(at_label @ weights, SMALLEST_PROBABILITY)
    possible_gain = np.log((at_label / mixed[:, None]).mean(axis=0).max())
    converged = bool(possible_gain < LARGEST_POSSIBLE_GAIN)
    return Solution(weights, float(-np.log(mixed).mean()), n_iter, converged)


def mixture_derivatives(
    at_label: FloatArray, weights: FloatArray, barrier: float
) -> tuple[float, FloatArray, FloatArray]:
    """Mean log loss, plus the sum of the weights, minus the barrier times their logarithms."""
    mixed = np.maximum(at_label @ weights, SMALLEST_PROBABILITY)
    share = at_label / mixed[:, None]
    value = weights.sum() - np.log(mixed).mean() - barrier * np.log(weights).sum()
    gradient = 1.0 - share.mean(axis=0) - barrier / weights
    hessian = share.T @ share / len(share) + np.diag(barrier / weights**2)
    return float(value), gradient, hessian


def _step_downhill(
    at_label: FloatArray, weights: FloatArray, barrier: float, step: FloatArray, value: float
) -> FloatArray:
    """Return weights after a Newton step that keeps them positive and lowers the loss."""
    length = 1.0
    for _ in range(MAX_STEPS):
        moved = weights + length * step
        if (moved > 0).all() and mixture_derivatives(at_label, moved, barrier)[0] <= value:
            return moved
        length /= 2.0
    return weights


def _without_traces(weights: FloatArray) -> FloatArray:
    """Set weights to zero that only the barrier keeps above it; the uniform part is never all."""
    kept = np.where(weights > SMALLEST_WEIGHT, weights, 0.0)
    kept /= kept.sum()
    if kept[2] > LARGEST_UNIFORM_WEIGHT:
        return np.array([1.0 - LARGEST_UNIFORM_WEIGHT, 0.0, LARGEST_UNIFORM_WEIGHT])
    return kept


def mixture(z: Any, base_temperature: Any, weights: Any) -> Any:
    """ETS: w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K, rows normalised."""
    xp = backend_of(z)
    mixed = weights[0] * softmax(z, base_temperature) + weights[1] * softmax(z)
    mixed = xp.add_(mixed, weights[2] / xp.width(z))
    return xp.divide_(mixed, xp.column(xp.total(mixed)))
