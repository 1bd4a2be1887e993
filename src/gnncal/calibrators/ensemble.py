"""Ensemble temperature scaling (Zhang, Kailkhura, Han, ICML 2020)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.solvers import Protocol
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.graph import Graph
from gnncal.core.probability import keep_predictions, softmax

SMALLEST_PROBABILITY = 1e-12  # keeps the log finite where the model was certain and wrong
LARGEST_UNIFORM_WEIGHT = 1.0 - 1e-6  # the uniform part alone would forget the prediction


class EnsembleTemperatureScaling(Calibrator):
    r"""A mixture of the scaled, the raw and the uniform distribution.

    .. math:: p = w_1 \mathrm{softmax}(z / T) + w_2 \mathrm{softmax}(z) + w_3 / K

    T comes from temperature scaling, w on the simplex from a convex fit. Every part is monotone
    in z and w_1 + w_2 > 0, so predictions never change although there is no single temperature.
    """

    preserves_predictions = True
    learned: ClassVar = ("base_temperature_", "weights_", "converged_", "n_iter_")
    base_temperature_: float
    weights_: FloatArray  # (3,)
    converged_: bool
    n_iter_: int

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    def _fit(self, data: FitData) -> None:
        scaling = TemperatureScaling(protocol=self.protocol)
        scaling._fit(data)
        self.base_temperature_ = scaling.base_temperature_
        parts = self._parts(data.logits[data.nodes].astype(np.float64))
        at_label = parts[:, np.arange(data.nodes.size), data.labels].T  # (n, 3)
        self.weights_, loss, self.n_iter_, self.converged_ = _mixture_weights(at_label)
        self.fit_report_ = FitReport(
            loss_before=scaling.fit_report_.loss_before,
            loss_after=loss,
            bounds_hit=scaling.fit_report_.bounds_hit,
            nodes_per_class=scaling.fit_report_.nodes_per_class,
        )

    def _parts(self, logits: FloatArray) -> FloatArray:
        uniform = np.full_like(logits, 1.0 / logits.shape[1])
        return np.stack([softmax(logits, self.base_temperature_), softmax(logits), uniform])

    def _predict(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        mixed = np.einsum("w,wik->ik", self.weights_.astype(logits.dtype), self._parts(logits))
        mixed /= mixed.sum(axis=1, keepdims=True)
        return keep_predictions(mixed, logits.argmax(axis=1))


def _mixture_weights(at_label: FloatArray) -> tuple[FloatArray, float, int, bool]:
    """Weights on the simplex that minimise the mean log loss of the mixture; convex."""

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        mixed = np.maximum(at_label @ weights, SMALLEST_PROBABILITY)
        return float(-np.log(mixed).mean()), -(at_label / mixed[:, None]).mean(axis=0)

    result = minimize(
        objective,
        np.array([1.0, 0.0, 0.0]),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0), (0.0, 1.0), (0.0, LARGEST_UNIFORM_WEIGHT)],
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    weights = np.clip(result.x, 0.0, 1.0)
    weights /= weights.sum()
    return weights, objective(weights)[0], int(result.nit), bool(result.success)
