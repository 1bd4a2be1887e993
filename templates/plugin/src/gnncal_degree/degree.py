"""A temperature that depends on a node's degree: a small, complete calibrator to start from."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from gnncal import FitReport, Graph, TemperatureCalibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import Constraint, number
from gnncal.core.data import FitData
from gnncal.core.learned import LearnedTable
from gnncal.fitting.losses import TemperatureLoss

LARGEST = 5.0  # |ln T| beyond it makes softmax constant or one-hot


class DegreeTemperature(TemperatureCalibrator):
    r"""Divide a node's logits by a temperature that depends on its number of neighbours.

    .. math:: T_i = \exp(a + b / (1 + d_i))

    The first sentence is what ``gnncal methods`` shows.

    Parameters
    ----------
    ridge : float
        Weight of the penalty that pulls a and b towards 0, that is towards T = 1.

    """

    # What gnncal reads off the class. `preserves_predictions` is True for every temperature.
    needs_graph = True
    fitting = "posterior"  # or "closed form", "convex"; "iterative" needs a parameter `protocol`
    constraints: ClassVar[dict[str, Constraint]] = {"ridge": number(at_least=0)}
    # What a saved file holds: all that a prediction needs, and what each value may be.
    learned: ClassVar[LearnedTable] = {
        "intercept_": number(at_least=-LARGEST, at_most=LARGEST),
        "slope_": number(at_least=-LARGEST, at_most=LARGEST),
    }
    intercept_: float
    slope_: float

    def __init__(self, *, ridge: float = 1e-3) -> None:
        self.ridge = ridge  # only stored: gnncal checks it by `constraints` when `fit` is called

    def _fit(self, data: FitData) -> None:
        """Learn from logits, graph and the labels of the calibration nodes, all checked before."""
        loss = TemperatureLoss(data.logits[data.nodes], data.labels)
        covariates = self._covariates(data.graph)  # (n_nodes, 2)
        rows = covariates[data.nodes]

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            temperature = np.exp(rows @ theta)
            value, slope = loss.value_and_slope(temperature)
            penalty = self.ridge * float(theta @ theta)
            return value + penalty, rows.T @ (slope * temperature) + 2 * self.ridge * theta

        bounds = [(-LARGEST, LARGEST)] * 2
        found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds)
        self.intercept_, self.slope_ = map(float, found.x)
        self.temperature_ = np.exp(covariates @ found.x)  # that of every node of this graph
        self.fit_report_ = FitReport.of(data, loss.value(np.exp(rows @ found.x)))

    def _temperature(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        """(n_nodes,) temperatures on any graph."""
        return np.exp(self._covariates(graph) @ np.array([self.intercept_, self.slope_]))

    def _covariates(self, graph: Graph | None) -> FloatArray:
        """(n_nodes, 2): a constant, and 1 / (1 + degree)."""
        assert graph is not None  # `needs_graph` makes gnncal refuse a call without one
        return np.stack([np.ones(graph.n_nodes), 1.0 / (1.0 + graph.neighbour_counts())], axis=1)
