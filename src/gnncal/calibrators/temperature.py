"""Temperature scaling (Guo et al., ICML 2017): one temperature for the whole graph."""

from __future__ import annotations

import numpy as np

from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.fitting.losses import TemperatureLoss
from gnncal.fitting.parameters import TEMPERATURE_RANGE, Parameter
from gnncal.fitting.protocols import Protocol
from gnncal.formulas.methods import Portable, one_temperature
from gnncal.nodes import Nodes


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
    >>> fitted = gnncal.TemperatureScaling().fit(task.logits, task.labels, nodes=task.nodes)
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

    def _portable(self) -> Portable:
        return Portable(one_temperature, {"base_temperature": self.base_temperature_})

    def _starts(self) -> list[tuple[float, ...]]:
        return [(1.0,)]

    def _paper_start(self) -> FloatArray:
        return np.ones(1)

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.maximum(raw, TEMPERATURE_RANGE[0]), np.eye(1)


def best_temperature(
    logits: FloatArray, labels: IntArray, weights: FloatArray | None = None
) -> float:
    """Return the T of temperature scaling on these rows; it may lie at a bound.

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
        The temperature with the lowest mean log loss.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.calibrators import best_temperature
    >>> task = gnncal.example()
    >>> round(best_temperature(task.logits[task.nodes], task.labels[task.nodes]), 2)
    0.41

    """
    scaling, same = TemperatureScaling(), np.ones((len(labels), 1))
    scaling._fit_to_convergence(same, TemperatureLoss(logits, labels, weights))
    return scaling.base_temperature_
