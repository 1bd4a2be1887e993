"""Vector scaling (Guo et al., ICML 2017): a scale and a shift for each class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import (
    AffineCalibrator,
    Array,
    Formula,
    backend_of,
    lbfgs,
    solve_like_the_paper,
)
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import FLAG, PROTOCOLS, SOLVER_STATE, Protocol


class VectorScaling(AffineCalibrator):
    r"""Scale and shift the logit of each class; the fit is convex.

    .. math:: p_i = \mathrm{softmax}(w \odot z_i + b)

    Here z_i are the logits of node i; w and b have one entry for each class.

    Parameters
    ----------
    bias : bool, default=True
        Whether b is fitted. ``False`` leaves it at zero, which is VS in the releases of GATS, GETS
        and WATS.
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the log loss of the calibration nodes. ``"paper"``
        minimises it by Adam and stops early on the log loss of the training nodes, as in the HoTS
        paper; it needs ``train_nodes``.

    Attributes
    ----------
    weight_, bias_ : ndarray of shape (n_classes,)
        The fitted w and b.

    Notes
    -----
    Use it without a graph, if the model favours some classes and predictions may change. With a
    graph, ``structural-vector`` had a lower mean log loss (docs/evidence.md).

    In converged fits, a ridge of 1e-6 towards w = 1, b = 0 makes the optimum unique, and weights
    and biases stay within ±50.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks" (ICML 2017).

    Examples
    --------
    The logit of class 0 is too large by 1, so its fitted bias is about 1 lower than the others:

    >>> import numpy as np
    >>> from gnncal_lab import VectorScaling
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = 2 * sample.graph.features[:, :3] + [1, 0, 0]
    >>> calibrator = VectorScaling().fit(logits, sample.labels, calibration_nodes=range(2000))
    >>> (calibrator.bias_ - calibrator.bias_.mean()).round(1)
    array([-0.8,  0.3,  0.4])

    """

    constraints: ClassVar = {
        "bias": FLAG,
        "protocol": PROTOCOLS,
    }
    learned: ClassVar = {"weight_": Array("K"), "bias_": Array("K"), **SOLVER_STATE}
    weight_: FloatArray
    bias_: FloatArray

    def __init__(self, *, bias: bool = True, protocol: Protocol = "converged") -> None:
        self.bias = bias
        self.protocol = protocol

    def _fit(self, nodes: Nodes) -> None:
        logits, shape = self._checked_features(nodes.calibration_logits), (nodes.n_classes,)
        none, weights = np.zeros(shape), nodes.weights
        loss = self._objective(logits, nodes.labels, none, 0.0, weights)
        if self.protocol == "paper":
            train_logits = nodes.logits[nodes.train_nodes]
            on_train = self._objective(train_logits, nodes.train_labels, none, 0.0)
            start = np.zeros(2 * nodes.n_classes)
            solution = solve_like_the_paper(loss, lambda theta: on_train(theta)[0], start)
        else:
            # The ridge makes the optimum unique even for separable nodes.
            ridge = np.full(shape, self.ridge / 2)
            unique = self._objective(logits, nodes.labels, ridge, self.ridge / 2, weights)
            one = np.repeat([1.0, 0.0], nodes.n_classes)
            lower, upper = -self.bound - one, self.bound - one
            solution = lbfgs(unique, np.zeros(len(one)), lower, upper)
        self._set_affine(solution, shape)
        if self.protocol == "paper":
            self.posterior_ = {}  # it was stopped early, so it is not the most probable one
        else:
            precision = nodes.total_weight * self.ridge
            n_parameters = (1 + self.bias) * nodes.n_classes
            self._remember(nodes, np.full(n_parameters, precision))
        report = self._report(nodes, has_free_weights=self.protocol == "converged")
        self.fit_report_ = replace(report, loss_after=loss(solution.parameters)[0])

    @property
    def has_bias(self) -> bool:
        """Whether b is fitted."""
        return self.bias

    def _features(self, logits: FloatArray) -> FloatArray:
        return logits

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        return vector(logits, self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype))

    def _as_formula(self) -> Formula:
        learned = {"weight": self.weight_, "bias": self.bias_}
        return Formula.of_logits(vector, learned, is_temperature=False, keeps_predictions=False)


def vector(z: Any, weight: Any, bias: Any) -> Any:
    """VS: softmax(w z + b); with a full matrix (K, K) in place of w, matrix scaling."""
    return softmax(affine_scores(z, weight, bias))


def affine_scores(x: Any, weight: Any, bias: Any) -> Any:
    """W x + b of each row, finite; a weight (K,) is the diagonal of W."""
    xp = backend_of(x)
    return xp.finite_(xp.product(x, weight) + bias)
