"""Vector scaling (Guo et al., ICML 2017): a scale and a shift for each class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal.calibrators.affine import BOUND, RIDGE, AffineCalibrator, affine_objective
from gnncal.calibrators.protocols import PROTOCOLS, Protocol, check_protocol, solve_like_the_paper
from gnncal.core.adam import Objective
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import FLAG, Constraint
from gnncal.core.data import FitData
from gnncal.core.graph import Graph
from gnncal.core.learned import SOLVER_TABLE, Array
from gnncal.core.probability import softmax


class VectorScaling(AffineCalibrator):
    r"""Scale and shift the logit of each class; the fit is convex.

    .. math:: p_i = \mathrm{softmax}(w \odot z_i + b)

    Parameters
    ----------
    bias : whether b is fitted. ``False`` leaves it at zero, which is what the GATS, GETS and WATS
        releases call VS.
    protocol : ``"converged"`` minimises the calibration loss; ``"paper"`` is Adam stopped early on
        the training nodes' loss, as in the HoTS paper.

    """

    fitting = "iterative"  # the paper stops it early although it is convex
    constraints: ClassVar[dict[str, Constraint]] = {
        "bias": FLAG,
        "protocol": PROTOCOLS,
    }
    learned: ClassVar = {"weight_": Array("K"), "bias_": Array("K"), **SOLVER_TABLE}
    weight_: FloatArray  # (n_classes,)
    bias_: FloatArray  # (n_classes,)

    def __init__(self, *, bias: bool = True, protocol: Protocol = "converged") -> None:
        self.bias = bias
        self.protocol = protocol

    def _fit(self, data: FitData) -> None:
        check_protocol(self.protocol, data)
        logits, shape = data.logits[data.nodes], (data.n_classes,)
        loss = self._objective(logits, data.labels)
        if self.protocol == "paper":
            on_train = self._objective(data.logits[data.train_nodes], data.train_labels)
            start = np.zeros(2 * data.n_classes)
            solution = solve_like_the_paper(loss, lambda theta: on_train(theta)[0], start)
        else:
            # The ridge makes the optimum unique even for separable nodes.
            unique = self._objective(logits, data.labels, ridge=RIDGE / 2)
            one = np.repeat([1.0, 0.0], data.n_classes)
            solution = self._minimise(unique, -BOUND - one, BOUND - one)
        self._set_affine(solution, shape)
        loss_after = loss(solution.parameters)[0]
        is_free = self.protocol == "converged"
        self.fit_report_ = self._report(data, loss_after, self.weight_, has_free_weights=is_free)

    def _objective(self, logits: FloatArray, labels: IntArray, *, ridge: float = 0.0) -> Objective:
        penalty = np.full(logits.shape[1], ridge)
        return affine_objective(logits, labels, penalty, ridge, has_bias=self.bias)

    def _predict(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        return softmax(self._affine_scores(logits))
