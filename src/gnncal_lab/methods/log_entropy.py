"""HTS as its authors define it: a temperature from the log entropy (Balanya et al. 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from gnncal import Nodes
from gnncal.calibrators import Formula, Parameter, ParametricTemperature, backend_of
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.formulas import softplus
from gnncal_lab.fitting.parts import TEMPERATURE_RANGE

SMALLEST_ENTROPY = 1e-8  # ln of it is finite, and float32 entropies are no finer
SMALLEST_TEMPERATURE = 0.006737946999085467  # e^-5: below, softmax saturates or ties


class LogEntropyScaling(ParametricTemperature):
    r"""A temperature for each node from its log entropy: HTS as its authors define it.

    .. math:: T_i = \mathrm{softplus}(w \ln e_i + b)

    :math:`e_i` is the entropy of node i's uncalibrated prediction divided by ln K, for K classes,
    but at least 1e-8. T is at least e^-5.

    Parameters
    ----------
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the log loss of the calibration nodes. ``"paper"``
        minimises it by Adam and stops early on the log loss of the training nodes, as in the HoTS
        paper; it needs ``train_nodes``.

    Attributes
    ----------
    slope_, intercept_ : float
        The fitted w and b. If w is negative, more certain nodes have higher temperatures.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.

    Notes
    -----
    Use it if you have no graph and many nodes are very certain. Unlike ``hts``, it distinguishes
    entropies close to 0.

    References
    ----------
    Balanya, Maroñas, Ramos, "Adaptive temperature scaling for robust calibration of deep neural
    networks" (Neural Computing and Applications, 2024).

    Examples
    --------
    Nodes of low entropy are overconfident here, so their temperature is higher:

    >>> import numpy as np
    >>> from gnncal_lab import LogEntropyScaling
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = (2 * sample.graph.features[:, :3]) ** 3 / 9
    >>> calibrator = LogEntropyScaling().fit(logits, sample.labels, calibration_nodes=range(2000))
    >>> round(calibrator.slope_, 1), round(calibrator.intercept_, 1)
    (-0.3, 0.6)

    """

    parameters = (
        Parameter("slope", -20.0, 20.0, "the temperature falls as steeply as allowed"),
        Parameter("intercept", -20.0, 150.0, "every calibration node is predicted correctly"),
    )
    starts, paper_start = ((0.01, 0.1), (-0.3, 0.5), (0.3, 1.5)), (0.01, 0.1)
    slope_: float
    intercept_: float

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return _logarithmic(nodes.entropy)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return _logarithmic(entropy)

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        temperature = log_entropy_temperature(covariates[:, 0], *theta)
        inside = temperature > TEMPERATURE_RANGE[0]
        score = self._score(theta, covariates)
        return temperature, (expit(score) * inside)[..., None] * covariates

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        slope = expit(self._score(theta, covariates))
        inside = self._formula(theta, covariates)[0] > TEMPERATURE_RANGE[0]
        bent = (weights * slope * (1.0 - slope) * inside)[..., None] * covariates
        return np.einsum("...ip,iq->...pq", bent, covariates)

    def _score(self, theta: FloatArray, covariates: FloatArray) -> FloatArray:
        slope, intercept = theta
        return slope * covariates[:, 0] + intercept

    def _as_formula(self) -> Formula:
        learned = {"slope": self.slope_, "intercept": self.intercept_}
        return Formula(hts_log_temperature, learned)

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return raw, np.eye(2)


def _logarithmic(entropy: FloatArray) -> FloatArray:
    """ln e and a constant as columns."""
    return np.stack([log_entropy(entropy), np.ones(len(entropy))], axis=1)


def hts_log_temperature(nodes: Any, slope: Any, intercept: Any) -> Any:
    """HTS as its authors define it."""
    return log_entropy_temperature(log_entropy(nodes.entropy), slope, intercept)


def log_entropy(e: Any) -> Any:
    """Return ln e, finite at e = 0."""
    xp = backend_of(e)
    return xp.log(xp.maximum(e, SMALLEST_ENTROPY))


def log_entropy_temperature(log_e: Any, slope: Any, intercept: Any) -> Any:
    """HTS as its authors define it: T = softplus(w ln e + b)."""
    xp = backend_of(log_e)
    return xp.maximum(softplus(slope * log_e + intercept), SMALLEST_TEMPERATURE)
