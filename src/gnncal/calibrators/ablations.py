"""The paper's component ablation: HoTS with one part taken out."""

from __future__ import annotations

import numpy as np

from gnncal.calibrators.homophily_temperature import (
    ALPHA,
    BASE_TEMPERATURE,
    BETA,
    HomophilyTemperature,
    power_law_second_derivatives,
    softplus_link,
)
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.calibrators.protocols import Protocol
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Graph
from gnncal.core.probability import concentration, normalised_entropy


class EntropyOnly(ParametricTemperature):
    r"""HoTS without homophily: a temperature for each node from its entropy alone.

    .. math:: T_i = T_\text{base} + \beta \sqrt{2 K \ln K (1 - e_i)}
    """

    parameters = (BASE_TEMPERATURE, BETA)
    base_temperature_: float
    beta_: float

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    def _covariates(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        entropy = normalised_entropy(logits).astype(np.float64)
        return np.stack([np.ones(len(logits)), concentration(entropy, logits.shape[1])], axis=1)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        certain = concentration(entropy, len(self.classes_))
        return np.stack([np.ones(len(entropy)), certain], axis=1)

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta = theta
        return base + beta * covariates[:, 1], covariates

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.0, 0.05), (0.3, 0.3), (1.07, 0.98)]

    def _paper_start(self) -> FloatArray:
        return np.array([0.5, 0.5])

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return softplus_link(raw, self.parameters)


class HomophilyOnly(HomophilyTemperature):
    r"""HoTS without the entropy term: a temperature from local homophily alone.

    .. math:: T_i = T_\text{base} + \beta / (|\tilde h_i| + \epsilon)^\alpha

    Parameters are those of :class:`gnncal.HoTS`.
    """

    parameters = (BASE_TEMPERATURE, BETA, ALPHA)
    base_temperature_: float
    beta_: float
    alpha_: float

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta, alpha = theta
        ratio = np.exp(-alpha * covariates[:, 1])
        jacobian = [np.ones_like(ratio), ratio, -beta * covariates[:, 1] * ratio]
        return base + beta * ratio, np.stack(jacobian, axis=-1)

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        return power_law_second_derivatives(theta, 1.0, covariates[:, 1], weights)

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.07, 0.98, 0.70), (0.9, 0.1, 0.7), (0.2, 0.2, 0.3)]

    def _paper_start(self) -> FloatArray:
        return np.array([0.5, 0.5, 0.0])

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return softplus_link(raw, self.parameters)


class HoTSAlphaOne(HomophilyTemperature):
    r"""HoTS with the exponent fixed at one, as in the model that it is derived from.

    Parameters are those of :class:`gnncal.HoTS`.
    """

    parameters = (BASE_TEMPERATURE, BETA)
    base_temperature_: float
    beta_: float

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        ratio = covariates[:, 0] * np.exp(-covariates[:, 1])
        base, beta = theta
        return base + beta * ratio, np.stack([np.ones_like(ratio), ratio], axis=-1)

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.07, 0.98), (1.0, 0.05), (0.3, 0.1), (0.12, 0.9)]

    def _paper_start(self) -> FloatArray:
        return np.array([0.5, 0.5])

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return softplus_link(raw, self.parameters)
