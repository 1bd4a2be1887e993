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
    share of neighbours that have the node's class. ``HoTS()`` is what to run; ``HoTS.paper()``
    follows the paper to the letter.

    Parameters
    ----------
    homophily : str, HomophilyEstimator or array_like of shape (n_nodes,), default="support"
        The estimator of h^, an object of :mod:`gnncal.homophily` or the name of one with its
        defaults: ``"support"`` (mean probability that the neighbours give to the node's predicted
        class), ``"agreement"`` (share of neighbours with the same prediction), ``"cross-fitted"``
        (the paper's GCN predictor, calibration nodes estimated out of fold), ``"predictor"`` (the
        paper's, which has seen the calibration labels). An array is taken as it is.
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is Adam stopped
        early on the loss of the training nodes, as in the HoTS paper; it needs ``train_nodes``.
    epsilon : float, default=0.02
        The stabiliser in the denominator.
    minimum_certainty : float, default=0.0
        Lower limit of 1 - e. The released code has 0.001.
    temperature_range : tuple of float, optional
        Limits of T. The released code has 0.05 and 50; by default there are none.

    Attributes
    ----------
    base_temperature_, beta_, alpha_ : float
        The fitted parameters of the formula.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    homophily_ : ndarray of shape (n_nodes,)
        Estimated homophily h^ of each node of the fitted graph.
    homophily_method_ : str
        Name of the estimator that was used, after any fallback.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it to reproduce the paper, or where each part of the formula must have a meaning. Give it at
    least 200 calibration nodes; ``structural`` had a lower log loss on all eleven graphs with at
    least 100 of them (docs/evidence.md).

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026).

    Examples
    --------
    Nodes whose neighbours disagree with them get a higher temperature:

    >>> import numpy as np
    >>> from gnncal import HoTS
    >>> from gnncal.lab.simulation import CSBM
    >>> homophily = np.random.default_rng(0).uniform(0.34, 1, 1000)
    >>> sample = CSBM(n_classes=3, separation=1).sample(homophily)
    >>> graph = sample.graph
    >>> logits = 6 * graph.neighbour_mean(graph.features)[:, :3]
    >>> calibrator = HoTS().fit(logits, sample.labels, graph, nodes=range(500))
    >>> calibrator.temperature_at(entropy=0.3, homophily=[0.4, 0.9]).round(1)
    array([3.6, 0.8])

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
