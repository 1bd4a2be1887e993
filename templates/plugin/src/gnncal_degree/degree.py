"""A temperature that depends on a node's degree: a small, complete calibrator to start from."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from gnncal import Nodes
from gnncal.calibrators import (
    FitReport,
    TemperatureCalibrator,
    TemperatureLoss,
    number,
)

FloatArray = npt.NDArray[np.floating]
LARGEST = 5.0  # |ln T| beyond it makes softmax constant or one-hot


class DegreeTemperature(TemperatureCalibrator):
    r"""Divide a node's logits by a temperature that depends on its number of neighbours.

    .. math:: T_i = \exp(a + b / (1 + d_i))

    The first sentence is what ``gnncal methods`` shows.

    Parameters
    ----------
    ridge : float
        Weight of the penalty that pulls a and b towards 0, that is towards T = 1.

    Notes
    -----
    Use it where confidence errs with a node's degree. The first paragraph of the notes says when
    to use a method.

    """

    # What gnncal reads off the class. `preserves_predictions` is True for every temperature.
    needs_graph = True
    constraints: ClassVar = {"ridge": number(at_least=0)}
    # What a saved file holds: all that a prediction needs, and what each value may be.
    learned: ClassVar = {
        "intercept_": number(at_least=-LARGEST, at_most=LARGEST),
        "slope_": number(at_least=-LARGEST, at_most=LARGEST),
    }
    intercept_: float
    slope_: float

    def __init__(self, *, ridge: float = 1e-3) -> None:
        self.ridge = ridge  # only stored: gnncal checks it by `constraints` when `fit` is called

    def _fit(self, nodes: Nodes) -> None:
        """Learn from logits, graph and the labels of the calibration nodes, all checked before."""
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels)
        covariates = self._covariates(nodes)  # (n_nodes, 2)
        rows = covariates[nodes.calibration_nodes]

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            temperature = np.exp(rows @ theta)
            value, slope, _ = loss.derivatives(temperature)
            penalty = self.ridge * float(theta @ theta)
            return value + penalty, rows.T @ (slope * temperature) + 2 * self.ridge * theta

        bounds = [(-LARGEST, LARGEST)] * 2
        found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds)
        self.intercept_, self.slope_ = map(float, found.x)
        self.temperature_ = np.exp(covariates @ found.x)  # that of every node of this graph
        self.fit_report_ = FitReport.of(nodes, loss.value(np.exp(rows @ found.x)))

    def _temperature(self, nodes: Nodes) -> FloatArray:
        """(n_nodes,) temperatures on any graph."""
        return np.exp(self._covariates(nodes) @ np.array([self.intercept_, self.slope_]))

    def _covariates(self, nodes: Nodes) -> FloatArray:
        """(n_nodes, 2): a constant, and 1 / (1 + degree)."""
        degree = nodes.required_graph.neighbour_counts()  # there is one: `needs_graph` says so
        return np.stack([np.ones(nodes.n_nodes), 1.0 / (1.0 + degree)], axis=1)
