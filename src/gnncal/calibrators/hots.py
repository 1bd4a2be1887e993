"""HoTS: homophily-aware temperature scaling (Tae, Hwang, Lee, NeurIPS 2026)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from gnncal.calibrators.structural import (
    ALPHA,
    BASE_TEMPERATURE,
    BETA,
    StructuralTemperature,
    power_law_bend,
    softplus_link,
)
from gnncal.core.arrays import FloatArray
from gnncal.core.errors import InputError

FLOORS = np.array([BASE_TEMPERATURE.lower, BETA.lower, ALPHA.lower])


class HoTS(StructuralTemperature):
    r"""A temperature for each node from its entropy and its local homophily.

    .. math::
        T_i = T_\text{base}
            + \beta \frac{\sqrt{2 K \ln K \, (1 - e_i)}}{(|\tilde h_i| + \epsilon)^\alpha},
        \qquad \tilde h_i = \frac{K \hat h_i - 1}{K - 1}

    with :math:`e_i` the normalised entropy of softmax(z_i) and :math:`\hat h_i` the estimated
    share of neighbours that have the node's class. ``HoTS()`` is what to run; ``HoTS.paper()`` is
    the paper to the letter.

    Parameters are those of :class:`StructuralTemperature`.
    """

    parameters = (BASE_TEMPERATURE, BETA, ALPHA)
    base_temperature_: float
    beta_: float
    alpha_: float

    @classmethod
    def paper(cls, preset: Literal["text", "release"] = "text", *, random_state: Any = 0) -> Self:
        """The paper's predictor and fitting protocol, as its text or its released code has them.

        The release keeps the model's graph as it is, keeps the predictor's weights from after
        the best step, and clamps 1 - e and T.
        """
        common = {"homophily": "predictor", "protocol": "paper", "random_state": random_state}
        if preset == "text":
            return cls(**common)
        if preset == "release":
            return cls(
                **common,
                add_self_loops=False,
                checkpoint="after-step",
                minimum_certainty=0.001,
                temperature_range=(0.05, 50.0),
            )
        raise InputError(f"preset is {preset!r}; expected 'text' or 'release'.")

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta, alpha = theta
        numerator, log_signal = covariates.T
        ratio = numerator * np.exp(-alpha * log_signal)
        jacobian = np.stack([np.ones_like(ratio), ratio, -beta * log_signal * ratio], axis=1)
        return base + beta * ratio, jacobian

    def _bend(self, theta: FloatArray, covariates: FloatArray, weights: FloatArray) -> FloatArray:
        numerator, log_signal = covariates.T
        return power_law_bend(theta, numerator, log_signal, weights)

    def _starts(self) -> list[tuple[float, ...]]:
        paper = tuple(float(value) for value in self._paper_link(self._paper_start())[0])
        mild = [(1.0, 0.05, 0.7), (0.3, 0.3, 0.1), (0.15, 0.2, 0.2)]
        steep = [(0.5, 0.05, 2.0), (0.11, 0.5, 1.5), (4.0, 0.012, 1.5)]
        return [paper, *mild, *steep]

    def _paper_start(self) -> FloatArray:
        return np.array([0.5, 0.5, 0.0])

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return softplus_link(raw, FLOORS)
