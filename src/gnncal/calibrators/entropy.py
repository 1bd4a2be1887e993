"""HTS, a temperature that is linear in a node's own entropy, as the HoTS paper writes it."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import number
from gnncal.core.learned import LearnedTable
from gnncal.fitting.parameters import TEMPERATURE_RANGE, Parameter
from gnncal.fitting.protocols import Protocol
from gnncal.formulas.methods import Portable, hts_temperature
from gnncal.formulas.temperatures import entropy_temperature
from gnncal.nodes import Nodes

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
    >>> fitted = gnncal.EntropyScaling().fit(task.logits, task.labels, nodes=task.nodes)
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

    def _learned_table(self) -> LearnedTable:
        if self.protocol == "converged":
            return self.learned
        return {**self.learned, "uncertain_temperature_": number()}  # T is kept above the floor

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        if self.protocol == "converged":
            return temperature
        return np.maximum(temperature, RELEASE_FLOOR)

    def _portable(self) -> Portable:
        learned = {
            "certain_temperature": self.certain_temperature_,
            "uncertain_temperature": self.uncertain_temperature_,
        }
        floor = None if self.protocol == "converged" else RELEASE_FLOOR
        return Portable(hts_temperature, learned, {"floor": floor})

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
