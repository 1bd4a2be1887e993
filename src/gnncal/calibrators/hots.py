"""HoTS: homophily-aware temperature scaling (Tae, Hwang, Lee, NeurIPS 2026)."""

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
from gnncal.core.arrays import FloatArray


class HoTS(HomophilyTemperature):
    r"""A temperature for each node from its entropy and its local homophily.

    .. math::
        T_i = T_\text{base}
            + \beta \frac{\sqrt{2 K \ln K \, (1 - e_i)}}{(|\tilde h_i| + \epsilon)^\alpha},
        \qquad \tilde h_i = \frac{K \hat h_i - 1}{K - 1}

    with :math:`e_i` the normalised entropy of softmax(z_i) and :math:`\hat h_i` the estimated
    share of neighbours that have the node's class. ``HoTS()`` is what to run; ``HoTS.paper()`` is
    the paper to the letter.

    Parameters
    ----------
    homophily : the estimator of h^, an object of :mod:`gnncal.homophily` or the name of one with
        its defaults: ``"support"`` (mean probability that the neighbours give to the node's
        predicted class), ``"agreement"`` (share of neighbours with the same prediction),
        ``"cross-fitted"`` (the paper's GCN predictor, calibration nodes estimated out of fold),
        ``"predictor"`` (the paper's, which has seen the calibration labels). An array of shape
        (n_nodes,) is taken as it is.
    protocol : ``"converged"`` minimises the calibration loss; ``"paper"`` is Adam stopped on the
        training nodes' loss.
    epsilon : the stabiliser in the denominator.
    minimum_certainty : lower limit of 1 - e (released code: 0.001).
    temperature_range : limits of T (released code: 0.05 to 50).

    """

    parameters = (BASE_TEMPERATURE, BETA, ALPHA)
    base_temperature_: float
    beta_: float
    alpha_: float

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta, alpha = theta
        numerator, log_signal = covariates.T
        ratio = numerator * np.exp(-alpha * log_signal)
        jacobian = np.stack([np.ones_like(ratio), ratio, -beta * log_signal * ratio], axis=-1)
        return base + beta * ratio, jacobian

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        numerator, log_signal = covariates.T
        return power_law_second_derivatives(theta, numerator, log_signal, weights)

    def _starts(self) -> list[tuple[float, ...]]:
        paper = tuple(float(value) for value in self._paper_link(self._paper_start())[0])
        mild = [(1.0, 0.05, 0.7), (0.3, 0.3, 0.1), (0.15, 0.2, 0.2)]
        steep = [(0.5, 0.05, 2.0), (0.11, 0.5, 1.5), (4.0, 0.012, 1.5)]
        return [paper, *mild, *steep]

    def _paper_start(self) -> FloatArray:
        return np.array([0.5, 0.5, 0.0])

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return softplus_link(raw, self.parameters)
