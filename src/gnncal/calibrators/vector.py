"""Vector scaling (Guo et al., ICML 2017): a scale and a shift for each class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal.calibrators.affine import (
    BOUND,
    RIDGE,
    AffineCalibrator,
    affine_objective,
    check_size,
)
from gnncal.calibrators.base import Calibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import FLAG, Constraint
from gnncal.core.learned import SOLVER_TABLE, Array
from gnncal.fitting.adam import Objective
from gnncal.fitting.labelled import AffineLabelled
from gnncal.fitting.protocols import PROTOCOLS, Protocol, check_protocol, solve_like_the_paper
from gnncal.formulas.affine import vector
from gnncal.formulas.methods import Portable, of_logits
from gnncal.nodes import Nodes


class VectorScaling(AffineCalibrator):
    r"""Scale and shift the logit of each class; the fit is convex.

    .. math:: p_i = \mathrm{softmax}(w \odot z_i + b)

    Parameters
    ----------
    bias : bool, default=True
        Whether b is fitted. ``False`` leaves it at zero, which is what the GATS, GETS and WATS
        releases call VS.
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is Adam stopped
        early on the loss of the training nodes, as in the HoTS paper; it needs ``train_nodes``.

    Attributes
    ----------
    weight_ : ndarray of shape (n_classes,)
        The fitted w.
    bias_ : ndarray of shape (n_classes,)
        The fitted b.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where the model favours some classes, predictions may change and there is no graph. With
    a graph, ``structural-vector`` has a lower log loss on ten of the eleven graphs with at least
    100 calibration nodes (docs/evidence.md). A ridge of 1e-6 towards w = 1, b = 0 makes the optimum
    unique.

    Weights and biases are at most 50 in size. ``bias=False`` is what the releases of GATS, GETS and
    WATS run as VS. A step of the fit takes O(nK).

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks" (ICML 2017).

    Examples
    --------
    The model adds 1 to the logit of class 0, and the bias takes it back:

    >>> import numpy as np
    >>> from gnncal import VectorScaling
    >>> from gnncal.lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = 2 * sample.graph.features[:, :3] + [1, 0, 0]
    >>> calibrator = VectorScaling().fit(logits, sample.labels, nodes=range(2000))
    >>> (calibrator.bias_ - calibrator.bias_.mean()).round(1)
    array([-0.8,  0.3,  0.4])

    """

    fitting = "iterative"  # the paper stops it early although it is convex
    constraints: ClassVar[dict[str, Constraint]] = {
        "bias": FLAG,
        "protocol": PROTOCOLS,
    }
    learned: ClassVar = {"weight_": Array("K"), "bias_": Array("K"), **SOLVER_TABLE}
    weight_: FloatArray
    bias_: FloatArray

    def __init__(self, *, bias: bool = True, protocol: Protocol = "converged") -> None:
        self.bias = bias
        self.protocol = protocol

    def _fit(self, nodes: Nodes) -> None:
        check_protocol(self.protocol, nodes)
        logits, shape = nodes.calibration_logits, (nodes.n_classes,)
        check_size(logits)
        loss = self._objective(logits, nodes.labels, nodes.weights)
        if self.protocol == "paper":
            on_train = self._objective(nodes.logits[nodes.train_nodes], nodes.train_labels)
            start = np.zeros(2 * nodes.n_classes)
            solution = solve_like_the_paper(loss, lambda theta: on_train(theta)[0], start)
        else:
            # The ridge makes the optimum unique even for separable nodes.
            unique = self._objective(logits, nodes.labels, nodes.weights, ridge=RIDGE / 2)
            one = np.repeat([1.0, 0.0], nodes.n_classes)
            solution = self._minimise(unique, -BOUND - one, BOUND - one)
        self._set_affine(solution, shape)
        if self.protocol == "paper":
            self.posterior_ = {}  # it was stopped early, so it is not the most probable one
        else:
            precision = nodes.total_weight * RIDGE
            self._remember(self._labelled(nodes), np.full(self._parameters().size, precision))
        loss_after = loss(solution.parameters)[0]
        is_free = self.protocol == "converged"
        self.fit_report_ = self._report(nodes, loss_after, self.weight_, has_free_weights=is_free)

    def _objective(
        self,
        logits: FloatArray,
        labels: IntArray,
        weights: FloatArray | None = None,
        *,
        ridge: float = 0.0,
    ) -> Objective:
        penalty = np.full(logits.shape[1], ridge)
        return affine_objective(logits, labels, penalty, ridge, weights, has_bias=self.bias)

    def _features(self, logits: FloatArray) -> FloatArray:
        return logits

    def _labelled(self, nodes: Nodes) -> AffineLabelled:
        x = nodes.calibration_logits.astype(np.float64)
        return AffineLabelled(x, nodes.labels, nodes.weights, self.weight_.shape, self.bias)

    def _parameters(self) -> FloatArray:
        return super()._parameters() if self.bias else self.weight_ - 1.0

    def _units(self, nodes: Nodes) -> FloatArray:
        return super()._units(nodes)[: self._parameters().size]

    def _set_updatable_part(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        none = np.zeros(0 if self.bias else theta.size)
        super()._set_updatable_part(name, np.append(theta, none), covariance)

    def _add_to_scores(self, shifts: FloatArray) -> None:
        if not self.bias:
            Calibrator._add_to_scores(self, shifts)  # says that it cannot
        super()._add_to_scores(shifts)

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        return vector(logits, self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype))

    def _portable(self) -> Portable:
        learned = {"weight": self.weight_, "bias": self.bias_}
        return Portable(of_logits(vector), learned, is_temperature=False, keeps_predictions=False)
