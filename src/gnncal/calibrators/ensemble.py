"""Ensemble temperature scaling (Zhang, Kailkhura, Han, ICML 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.protocols import PROTOCOLS, Protocol
from gnncal.calibrators.solvers import Derivatives, Solution, newton
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import Constraint, number
from gnncal.core.data import FitData
from gnncal.core.graph import Graph
from gnncal.core.learned import SOLVER_TABLE, Array
from gnncal.core.probability import SMALLEST_PROBABILITY, keep_predictions, softmax

LARGEST_UNIFORM_WEIGHT = 1.0 - 1e-6  # the uniform part alone would forget the prediction


class EnsembleTemperatureScaling(Calibrator):
    r"""A mixture of the scaled, the raw and the uniform distribution.

    .. math:: p = w_1 \mathrm{softmax}(z / T) + w_2 \mathrm{softmax}(z) + w_3 / K

    T comes from temperature scaling, w on the simplex from a convex fit. Every part is monotone
    in z and w_1 + w_2 > 0, so predictions never change although there is no single temperature.

    Parameters
    ----------
    protocol : ``"converged"`` minimises the calibration loss; ``"paper"`` is Adam stopped early on
        the training nodes' loss, as in the HoTS paper.

    """

    preserves_predictions = True
    constraints: ClassVar[dict[str, Constraint]] = {"protocol": PROTOCOLS}
    learned: ClassVar = {
        "base_temperature_": number(above=0),
        "weights_": Array("3", low=0, high=1, total=1),
        **SOLVER_TABLE,
    }
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
        solution = _mixture_weights(at_label)
        self.weights_ = solution.parameters
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        self.fit_report_ = replace(scaling.fit_report_, loss_after=solution.loss)

    def _parts(self, logits: FloatArray) -> FloatArray:
        uniform = np.full_like(logits, 1.0 / logits.shape[1])
        return np.stack([softmax(logits, self.base_temperature_), softmax(logits), uniform])

    def _predict(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        mixed = np.einsum("w,wik->ik", self.weights_.astype(logits.dtype), self._parts(logits))
        mixed /= mixed.sum(axis=1, keepdims=True)
        return keep_predictions(mixed, logits.argmax(axis=1))


def _mixture_weights(at_label: FloatArray) -> Solution:
    """Weights (w1, w2, w3) on the simplex that minimise the mean log loss of the mixture."""
    upper = np.array([LARGEST_UNIFORM_WEIGHT, 1.0])
    (found,) = newton(mixture_derivatives(at_label), np.array([[0.1, 0.3]]), np.zeros(2), upper)
    u, v = found.parameters
    weights = np.array([(1.0 - u) * (1.0 - v), (1.0 - u) * v, u])
    return Solution(weights, found.loss, found.n_iter, found.converged)


def mixture_derivatives(at_label: FloatArray) -> Derivatives:
    """Mean log loss of the mixture with w = ((1-u)(1-v), (1-u)v, u), and its derivatives.

    In u and v the simplex is a box; ``at_label`` (n, 3) holds what each part gives to the labels.
    """
    scaled, raw, uniform = at_label.T

    def derivatives(code: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        u, v = code.T[..., None]  # (n_starts, 1) each
        sharp = (1.0 - v) * scaled + v * raw
        mixed = np.maximum((1.0 - u) * sharp + u * uniform, SMALLEST_PROBABILITY)
        slopes = np.stack([uniform - sharp, (1.0 - u) * (raw - scaled)], axis=-2) / mixed[:, None]
        hessian = np.einsum("spi,sqi->spq", slopes, slopes) / len(at_label)
        cross = ((raw - scaled) / mixed).mean(axis=-1)  # the mixture is bilinear in u and v
        hessian[:, 0, 1] += cross
        hessian[:, 1, 0] += cross
        return -np.log(mixed).mean(axis=-1), -slopes.mean(axis=-1), hessian

    return derivatives
