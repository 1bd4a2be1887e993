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
from gnncal.core.arrays import FloatArray
from gnncal.core.nodes import Nodes
from gnncal.core.probability import concentration
from gnncal.fitting.protocols import Protocol


class EntropyOnly(ParametricTemperature):
    r"""HoTS without homophily: a temperature for each node from its entropy alone.

    .. math:: T_i = T_\text{base} + \beta \sqrt{2 K \ln K (1 - e_i)}

    Parameters
    ----------
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is Adam stopped
        early on the loss of the training nodes, as in the HoTS paper; it needs ``train_nodes``.

    Attributes
    ----------
    base_temperature_, beta_ : float
        The fitted parameters of the formula.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    An ablation: use it to see what homophily adds to HoTS. With a few dozen calibration nodes it
    usually does better than any network (docs/methods.md).

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026), component ablation.

    Examples
    --------
    Certain nodes are overconfident here, so the temperature falls with the entropy:

    >>> import numpy as np
    >>> from gnncal import EntropyOnly
    >>> from gnncal.lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = (2 * sample.graph.features[:, :3]) ** 3 / 9
    >>> calibrator = EntropyOnly().fit(logits, sample.labels, nodes=range(2000))
    >>> calibrator.temperature_at(entropy=[0.1, 0.9], homophily=0.8).round(1)
    array([2.3, 0.8])

    """

    parameters = (BASE_TEMPERATURE, BETA)
    base_temperature_: float
    beta_: float

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    def _covariates(self, nodes: Nodes) -> FloatArray:
        certain = concentration(nodes.entropy, nodes.n_classes)
        return np.stack([np.ones(nodes.n_nodes), certain], axis=1)

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
        Lower limit of 1 - e. This method does not use e, so it changes nothing.
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
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    An ablation: use it to see what the entropy term adds to HoTS.

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026), component ablation.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import HomophilyOnly
    >>> from gnncal.lab.simulation import CSBM
    >>> homophily = np.random.default_rng(0).uniform(0.34, 1, 1000)
    >>> sample = CSBM(n_classes=3, separation=1).sample(homophily)
    >>> graph = sample.graph
    >>> logits = 6 * graph.neighbour_mean(graph.features)[:, :3]
    >>> calibrator = HomophilyOnly().fit(logits, sample.labels, graph, nodes=range(500))
    >>> calibrator.temperature_at(entropy=0.3, homophily=[0.4, 0.9]).round(1)
    array([3.5, 0.9])

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

    .. math::
        T_i = T_\text{base} + \beta \frac{\sqrt{2 K \ln K \, (1 - e_i)}}{|\tilde h_i| + \epsilon}

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
    base_temperature_, beta_ : float
        The fitted parameters of the formula.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    homophily_ : ndarray of shape (n_nodes,)
        Estimated homophily h^ of each node of the fitted graph.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    An ablation: use it to see what a free exponent adds to HoTS.

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026), component ablation.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import HoTSAlphaOne
    >>> from gnncal.lab.simulation import CSBM
    >>> homophily = np.random.default_rng(0).uniform(0.34, 1, 1000)
    >>> sample = CSBM(n_classes=3, separation=1).sample(homophily)
    >>> graph = sample.graph
    >>> logits = 6 * graph.neighbour_mean(graph.features)[:, :3]
    >>> calibrator = HoTSAlphaOne().fit(logits, sample.labels, graph, nodes=range(500))
    >>> calibrator.temperature_at(entropy=0.3, homophily=[0.4, 0.9]).round(1)
    array([3.5, 0.8])

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
