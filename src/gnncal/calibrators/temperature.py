"""Temperature scaling (Guo et al., ICML 2017): one temperature for the whole graph."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gnncal.calibrators.base import TemperatureCalibrator
from gnncal.calibrators.fit_report import FitReport
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import LearnedTable, number
from gnncal.data.nodes import Nodes
from gnncal.math.formulas import Formula, hts_temperature, one_temperature
from gnncal.math.losses import TemperatureLoss
from gnncal.math.solvers import TEMPERATURE_RANGE, Parameter, Protocol
from gnncal.math.structural import entropy_temperature


class TemperatureScaling(ParametricTemperature):
    r"""One temperature for the whole graph: every logit is divided by the same number.

    .. math:: \min_T \; -\tfrac1n \sum_{i \in \text{nodes}} \log \mathrm{softmax}(z_i / T)_{y_i}

    The loss is convex in 1/T, so the converged fit is the global minimum. Predictions never change.

    Parameters
    ----------
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is Adam stopped
        early on the loss of the training nodes, as in the HoTS paper; it needs ``train_nodes``.

    Attributes
    ----------
    base_temperature_ : float
        The fitted T.
    temperature_ : ndarray of shape (n_nodes,)
        T of each node of the fitted graph; here all are equal.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it as the baseline, or where there is no graph. It cannot tell certain from uncertain nodes;
    ``structural`` has a lower log loss on all eleven graphs with at least 100 calibration nodes
    (docs/evidence.md).

    T is kept within e^-5 and e^5. With n calibration nodes, a step of the fit takes O(nK).

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks" (ICML 2017).

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> fitted = gnncal.calibrators.TemperatureScaling().fit(
    ...     task.logits, task.labels, nodes=task.nodes
    ... )
    >>> round(fitted.base_temperature_, 2)
    0.41

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

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return np.ones((nodes.n_nodes, 1))

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return np.ones((len(entropy), 1))

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[0] * covariates[:, 0], covariates

    def _as_formula(self) -> Formula:
        return Formula(one_temperature, {"base_temperature": self.base_temperature_})

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.0,)]

    def _paper_start(self) -> FloatArray:
        return np.ones(1)

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.maximum(raw, TEMPERATURE_RANGE[0]), np.eye(1)

    @staticmethod
    def best_temperature(
        logits: FloatArray, labels: IntArray, weights: FloatArray | None = None
    ) -> float:
        """Return the temperature with the lowest mean log loss on some rows, without any check.

        Parameters
        ----------
        logits : ndarray of shape (n, n_classes)
            Logits of some nodes.
        labels : ndarray of shape (n,)
            Their classes.
        weights : ndarray of shape (n,), optional
            How many nodes each counts as.

        Returns
        -------
        float
            The temperature; it may lie at a bound.

        """
        scaling, same = TemperatureScaling(), np.ones((len(labels), 1))
        scaling._fit_to_convergence(same, TemperatureLoss(logits, labels, weights))
        return scaling.base_temperature_


RELEASE_FLOOR = 0.1  # of T in the HoTS authors' release of HTS


class EntropyScaling(ParametricTemperature):
    r"""A temperature for each node, linear in its entropy: HTS as the HoTS paper writes it.

    .. math:: T_i = (1 - e_i) T_0 + e_i T_1, \qquad T_0, T_1 > 0

    :math:`e_i` is the entropy of softmax(z_i) divided by ln K. These are exactly the linear
    functions of e that are positive on [0, 1]. ``protocol="paper"`` follows the release: :math:`T_i
    = \max(0.1, \mathrm{softplus}(a) + 0.1 + b e_i)`.

    Parameters
    ----------
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is Adam stopped
        early on the loss of the training nodes, as in the HoTS paper; it needs ``train_nodes``.

    Attributes
    ----------
    certain_temperature_ : float
        T_0, the temperature at entropy 0.
    uncertain_temperature_ : float
        T_1, the temperature at entropy 1.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where there is no graph and temperature scaling is too simple. It needs about 200
    calibration nodes to be better than ``ts`` (docs/evidence.md).

    A step of the fit takes O(nK).

    References
    ----------
    Tae, Hwang, Lee, the HoTS paper (NeurIPS 2026), after Balanya, Maroñas, Ramos, "Adaptive
    temperature scaling for robust calibration of deep neural networks" (2024).

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> fitted = gnncal.calibrators.EntropyScaling().fit(task.logits, task.labels, nodes=task.nodes)
    >>> round(fitted.certain_temperature_, 1), round(fitted.uncertain_temperature_, 1)
    (0.1, 0.6)

    """

    parameters = (
        Parameter("certain_temperature", *TEMPERATURE_RANGE, "certain nodes are all correct"),
        Parameter("uncertain_temperature", *TEMPERATURE_RANGE, "uncertain nodes are all correct"),
    )
    certain_temperature_: float
    uncertain_temperature_: float

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return _linear(nodes.entropy)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return _linear(entropy)

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return entropy_temperature(covariates[:, 1], *theta), covariates

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        if self.protocol == "converged":
            return super().learned
        return {**super().learned, "uncertain_temperature_": number()}  # T is kept above the floor

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        if self.protocol == "converged":
            return temperature
        return np.maximum(temperature, RELEASE_FLOOR)

    def _as_formula(self) -> Formula:
        learned = {
            "certain_temperature": self.certain_temperature_,
            "uncertain_temperature": self.uncertain_temperature_,
        }
        floor = None if self.protocol == "converged" else RELEASE_FLOOR
        return Formula(hts_temperature, learned, {"floor": floor})

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.0, 1.0), (3.0, 1.0), (0.3, 0.3)]

    def _paper_start(self) -> FloatArray:
        return np.array([1.0, 0.0])

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, slope = np.logaddexp(0.0, raw[0]) + RELEASE_FLOOR, raw[1]
        return np.array([base, base + slope]), np.array([[expit(raw[0]), 0], [expit(raw[0]), 1]])


def _linear(entropy: FloatArray) -> FloatArray:
    """1 - e and e as columns."""
    return np.stack([1.0 - entropy, entropy], axis=1)


class Uncalibrated(TemperatureCalibrator):
    r"""No calibration: the softmax of the logits as they are.

    .. math:: p_i = \mathrm{softmax}(z_i)

    Attributes
    ----------
    temperature_ : ndarray of shape (n_nodes,)
        1 for each node.
    fit_report_ : FitReport
        Its two losses are equal.

    Notes
    -----
    Use it as the reference in a comparison of methods.

    Examples
    --------
    >>> from gnncal.calibrators import Uncalibrated
    >>> logits, labels = [[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1]
    >>> Uncalibrated().fit(logits, labels).predict_proba(logits).round(2)
    array([[0.88, 0.12],
           [0.27, 0.73],
           [0.73, 0.27]])

    """

    fitting = "closed form"
    uses_sample_weight = True

    def _fit(self, nodes: Nodes) -> None:
        self.temperature_ = np.ones(nodes.n_nodes)
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels, nodes.weights)
        self.fit_report_ = FitReport.of(nodes, loss.value(np.ones(nodes.calibration_nodes.size)))

    def _temperature(self, nodes: Nodes) -> FloatArray:
        return np.ones(nodes.n_nodes)

    def _as_formula(self) -> Formula:
        return Formula(one_temperature, {"base_temperature": 1.0})
