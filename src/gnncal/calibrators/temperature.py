"""Temperature scaling (Guo et al., ICML 2017): one temperature for the whole graph."""

from __future__ import annotations

import numpy as np

from gnncal.calibrators.base import fit_quietly
from gnncal.calibrators.parameters import TEMPERATURE_RANGE, Parameter
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.calibrators.protocols import Protocol
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Graph


class TemperatureScaling(ParametricTemperature):
    r"""Divide every logit by the temperature that minimises the mean log loss.

    .. math:: \min_T \; -\tfrac1n \sum_{i \in \text{nodes}} \log \mathrm{softmax}(z_i / T)_{y_i}

    The loss is convex in 1/T, so the converged fit is the global minimum.
    """

    parameters = (
        Parameter(
            "base_temperature",
            *TEMPERATURE_RANGE,
            "the calibration nodes are almost all predicted correctly, or the logits are tiny",
            "the logits say nothing about the calibration labels, or they are huge",
        ),
    )
    base_temperature_: float

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    def _covariates(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        return np.ones((len(logits), 1))

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return np.ones((len(entropy), 1))

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[0] * covariates[:, 0], covariates

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.0,)]

    def _paper_start(self) -> FloatArray:
        return np.ones(1)

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.maximum(raw, TEMPERATURE_RANGE[0]), np.eye(1)


def best_temperature(logits: FloatArray, labels: IntArray) -> float:
    """T of temperature scaling on these rows; what a bound of it means is the caller's to say."""
    return fit_quietly(TemperatureScaling(), logits, labels).base_temperature_
