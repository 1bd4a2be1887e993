"""Vector scaling (Guo et al., ICML 2017): a scale and a shift for each class."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.losses import loss_and_residual
from gnncal.calibrators.protocols import (
    Protocol,
    check_protocol,
    solve_like_the_paper,
    warn_unless_converged,
)
from gnncal.calibrators.solvers import lbfgs
from gnncal.core.adam import Objective
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.errors import GnncalWarning
from gnncal.core.graph import Graph
from gnncal.core.learned import SOLVER_TABLE, Array
from gnncal.core.probability import softmax

RIDGE = 1e-6  # towards w = 1, b = 0: makes the optimum unique even for separable nodes
BOUND = 50.0  # a separable calibration set would drive the parameters to infinity


class VectorScaling(Calibrator):
    r"""Scale and shift each class's logit; the fit is convex.

    .. math:: p_i = \mathrm{softmax}(w \odot z_i + b)

    Parameters
    ----------
    bias : whether b is fitted. ``False`` leaves it at zero, which is what the GATS, GETS and WATS
        releases call VS.
    protocol : ``"converged"`` minimises the calibration loss; ``"paper"`` is Adam stopped early on
        the training nodes' loss, as in the HoTS paper.

    """

    preserves_predictions = False
    learned: ClassVar = {"weight_": Array("K"), "bias_": Array("K"), **SOLVER_TABLE}
    weight_: FloatArray  # (n_classes,)
    bias_: FloatArray  # (n_classes,)
    converged_: bool
    n_iter_: int

    def __init__(self, *, bias: bool = True, protocol: Protocol = "converged") -> None:
        self.bias = bias
        self.protocol = protocol

    def _fit(self, data: FitData) -> None:
        check_protocol(self.protocol, data)
        objective = self._objective(data.logits[data.nodes], data.labels)
        start = np.concatenate([np.ones(data.n_classes), np.zeros(data.n_classes)])
        if self.protocol == "paper":
            on_train = self._objective(data.logits[data.train_nodes], data.train_labels)
            solution = solve_like_the_paper(objective, lambda theta: on_train(theta)[0], start)
        else:
            unique = self._objective(data.logits[data.nodes], data.labels, ridge=RIDGE)
            solution = lbfgs(unique, start, BOUND)
            warn_unless_converged(self, solution)
        self.weight_, self.bias_ = np.split(solution.parameters, 2)
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        loss_after = objective(solution.parameters)[0]
        self.fit_report_ = FitReport.of(data, loss_after, self._report_bounds())

    def _objective(self, logits: FloatArray, labels: IntArray, *, ridge: float = 0.0) -> Objective:
        z = logits.astype(np.float64)

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            weight, bias = np.split(theta, 2)
            loss, residual = loss_and_residual(weight * z + bias, labels)
            by_bias = residual.sum(axis=0) if self.bias else np.zeros_like(bias)
            gradient = np.concatenate([np.einsum("ik,ik->k", residual, z), by_bias])
            change = theta - np.repeat([1.0, 0.0], len(bias))
            return float(loss + ridge / 2 * change @ change), gradient + ridge * change

        return objective

    def _report_bounds(self) -> tuple[str, ...]:
        hit = [
            f"{name}[{c}]"
            for name, values in (("weight", self.weight_), ("bias", self.bias_))
            for c in np.flatnonzero(np.abs(values) >= BOUND - 1e-6)
        ]
        if hit:
            warnings.warn(
                f"VectorScaling stopped with {', '.join(hit)} at a bound of ±{BOUND:g}: some class "
                "is missing from the calibration nodes or separated in them, or logits are tiny.",
                GnncalWarning,
                stacklevel=4,
            )
        return tuple(hit)

    def _predict(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        weight, bias = self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype)
        with np.errstate(over="ignore"):
            scores = weight * logits + bias
        limit = np.finfo(scores.dtype).max
        return softmax(np.clip(scores, -limit, limit, out=scores))
