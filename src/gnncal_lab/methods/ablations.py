"""The ablations of HoTS and of the structural calibrator."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
from scipy.special import expit

from gnncal import HoTS, Nodes
from gnncal.calibrators import Formula, ParametricTemperature, Structural, backend_of
from gnncal_lab.arrays import FloatArray, Side
from gnncal_lab.fitting.formulas import softmax


class EntropyOnly(ParametricTemperature):
    r"""HoTS without homophily: a temperature from the entropy alone.

    .. math:: T_i = T_\text{base} + \beta \sqrt{2 K \ln K \, (1 - e_i)}

    :math:`e_i` is the entropy of node i's uncalibrated prediction divided by ln K, for K classes.

    Attributes
    ----------
    base_temperature_, beta_ : float
        The fitted T_base and β.

    Notes
    -----
    Use it as an ablation, to measure what homophily adds to ``hots``. With at most 50 calibration
    nodes, this method had a lower log loss than ``hots`` on most graphs.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal_lab import EntropyOnly
    >>> task = gnncal.example()
    >>> fitted = EntropyOnly().fit(
    ...     task.logits, task.labels, calibration_nodes=task.calibration_nodes
    ... )
    >>> bool(fitted.temperature_at(0.1, 0.5) > fitted.temperature_at(0.9, 0.5))
    True

    """

    parameters = HoTS.parameters[:2]
    starts, paper_start = ((1.0, 0.05), (0.3, 0.3), (1.07, 0.98)), (0.5, 0.5)
    base_temperature_: float
    beta_: float

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return _concentration(nodes.entropy, nodes.n_classes)[:, None]

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return _concentration(entropy, len(self.classes_))[:, None]

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta = theta
        (numerator,) = covariates.T
        return base + beta * numerator, np.stack([np.ones_like(numerator), numerator], axis=-1)

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        floors = np.array([parameter.lower for parameter in self.parameters])
        return np.logaddexp(0.0, raw) + floors, np.diag(expit(raw))

    def _as_formula(self) -> Formula:
        learned = {"base_temperature": self.base_temperature_, "beta": self.beta_}
        return Formula(entropy_only_temperature, learned)


def entropy_only_temperature(nodes: Any, base_temperature: Any, beta: Any) -> Any:
    """HoTS without homophily."""
    return base_temperature + beta * _concentration(nodes.entropy, nodes.n_classes)


def _concentration(e: Any, n_classes: int) -> Any:
    """sqrt(2 K ln K (1 - e)), the numerator of HoTS."""
    xp = backend_of(e)
    rest = xp.maximum(1.0 - e, 0.0)
    is_uniform = rest == 0.0  # no gradient there; zero is one that is finite
    root = xp.sqrt(xp.where(is_uniform, 1.0, rest) * (2.0 * n_classes * log(n_classes)))
    return xp.where(is_uniform, 0.0, root)


class HomophilyOnly(HoTS):
    r"""HoTS without the entropy: a temperature from homophily alone.

    .. math:: T_i = T_\text{base} + \beta (|\tilde h_i| + \epsilon)^{-\alpha}, \qquad
        \tilde h_i = \frac{K \hat h_i - 1}{K - 1}

    :math:`\hat h_i` is the estimated homophily, the share of neighbours that have node i's class,
    and K the number of classes. T_base, β and α are fitted; ε is ``epsilon``.

    Parameters
    ----------
    homophily, protocol, epsilon, minimum_certainty, temperature_range : Any
        Those of :class:`gnncal.HoTS`; ``minimum_certainty`` has no effect.

    Notes
    -----
    Use it as an ablation, to measure what the entropy adds to ``hots``.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal_lab import HomophilyOnly
    >>> task = gnncal.example()
    >>> fitted = HomophilyOnly().fit(
    ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    ... )
    >>> bool(fitted.temperature_at(0.1, 0.5) == fitted.temperature_at(0.9, 0.5))
    True

    """

    starts = ((1.07, 0.98, 0.70), (0.9, 0.1, 0.7), (0.2, 0.2, 0.3))

    def _signals(self, entropy: FloatArray, homophily: FloatArray, n_classes: int) -> FloatArray:
        signals = super()._signals(entropy, homophily, n_classes)
        signals[:, 0] = 1.0
        return signals

    def _as_formula(self) -> Formula:
        whole = super()._as_formula()
        learned = {
            name: value for name, value in whole.arrays.items() if name != "minimum_certainty"
        }
        return replace(whole, function=homophily_only_temperature, arrays=learned)


def homophily_only_temperature(
    nodes: Any,
    base_temperature: Any,
    beta: Any,
    alpha: Any,
    epsilon: Any,
    isolated_homophily: Any,
    *,
    side: Side,
    limits: tuple[float, float] | None,
) -> Any:
    """HoTS without the entropy, with the neighbours' support as homophily."""
    xp, K = backend_of(nodes.logits), nodes.n_classes
    share = nodes.neighbours.class_mean(softmax(nodes.logits), nodes.predictions, side)
    h = xp.where(nodes.neighbours.counts(side) == 0, isolated_homophily, share)
    signal = xp.log(xp.absolute((K * h - 1.0) / (K - 1.0)) + epsilon)
    T = base_temperature + beta * xp.exp(-alpha * signal)
    return T if limits is None else xp.minimum(xp.maximum(T, limits[0]), limits[1])


class FixedExponent(HoTS):
    r"""HoTS with the exponent fixed at 1.

    .. math:: T_i = T_\text{base}
        + \beta \frac{\sqrt{2 K \ln K \, (1 - e_i)}}{|\tilde h_i| + \epsilon}

    :class:`gnncal.HoTS` defines the symbols; T_base and β are fitted.

    Parameters
    ----------
    homophily, protocol, epsilon, minimum_certainty, temperature_range : Any
        Those of :class:`gnncal.HoTS`.

    Notes
    -----
    Use it as an ablation, to measure what fitting the exponent contributes to ``hots``.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal_lab import FixedExponent
    >>> task = gnncal.example()
    >>> fitted = FixedExponent().fit(
    ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    ... )
    >>> fitted.alpha_
    1.0

    """

    parameters = HoTS.parameters[:2]
    starts, paper_start = ((1.07, 0.98), (1.0, 0.05), (0.3, 0.1), (0.12, 0.9)), (0.5, 0.5)
    alpha_ = 1.0

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta = theta
        numerator, signal = covariates.T
        ratio = numerator * np.exp(-signal)
        return base + beta * ratio, np.stack([np.ones_like(ratio), ratio], axis=-1)

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        return np.zeros((2, 2))  # linear in both

    def _as_formula(self) -> Formula:
        formula = super()._as_formula()
        return Formula(
            formula.function,
            {**formula.arrays, "alpha": self.alpha_},
            formula.settings,
            hops=formula.hops,
            side=formula.side,
        )


class StructuralVector(Structural):
    r"""A temperature as in ``structural-temperature``, and a bias for each class.

    .. math:: p_i = \mathrm{softmax}(z_i / T_i + b)

    Here z_i are the logits of node i and b the biases. :class:`gnncal.calibrators.Structural`
    defines T_i. The parameters of T_i and b are fitted together. Every class gets at least a small
    probability, the floor.

    Notes
    -----
    Use it if predictions may change, but the neighbours should affect only the temperature.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal_lab import StructuralVector
    >>> task = gnncal.example()
    >>> fitted = StructuralVector().fit(
    ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    ... )
    >>> fitted.neighbour_weight_
    0.0

    """

    uses_neighbours = False

    def __init__(self, *, keep_predictions: bool = False) -> None:
        super().__init__(keep_predictions=keep_predictions)
