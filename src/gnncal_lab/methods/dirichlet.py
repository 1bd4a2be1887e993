"""Dirichlet calibration with ODIR regularisation (Kull et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import AffineCalibrator, Formula, backend_of, number
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import NONE
from gnncal_lab.methods.vector import affine_scores

SMALLEST_NORMAL = 1.1754943508222875e-38  # of float32; a probability whose logarithm is -87.3
FEW_CLASSES = 8
PENALTIES = (10.0, 1e3)  # with few and with many classes


class DirichletCalibration(AffineCalibrator):
    r"""Map the log-probabilities linearly, with a penalty on off-diagonal weights and the bias.

    .. math:: p' = \mathrm{softmax}(W \ln p + b), \qquad \min_{W, b} \; \mathrm{CE}
        + \frac{\lambda}{K(K-1)} \sum_{j \ne k} W_{jk}^2 + \frac{\lambda}{K} \sum_j b_j^2

    Here p are the uncalibrated probabilities of a node, p' the calibrated ones, K is the number of
    classes and CE the mean log loss of the calibration nodes.

    Parameters
    ----------
    penalty : float, optional
        The value of λ. By default 10 with at most eight classes and 1000 with more.

    Attributes
    ----------
    weight_ : ndarray of shape (n_classes, n_classes)
        The fitted W.
    bias_ : ndarray of shape (n_classes,)
        The fitted b.

    Notes
    -----
    Use it with many calibration nodes, if predictions may change. ``sms`` has no penalty to
    choose and had a lower mean log loss.

    The fit is run to convergence. A ridge of 1e-6 towards W = I,
    b = 0 makes the optimum unique. p is at least 1.2e-38, so that ln p is finite. With at
    most 30 classes, weights and biases stay within ±50.

    References
    ----------
    Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach, "Beyond temperature scaling: obtaining
    well-calibrated multiclass probabilities with Dirichlet calibration" (NeurIPS 2019).

    Examples
    --------
    These logits are twice those of the Bayes classifier, so the diagonal of W is about one half:

    >>> import numpy as np
    >>> from gnncal_lab import DirichletCalibration
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = 4 * sample.graph.features[:, :3]
    >>> calibrator = DirichletCalibration().fit(
    ...     logits, sample.labels, calibration_nodes=range(2000)
    ... )
    >>> calibrator.weight_.round(1) + 0.0
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 0.5]])

    """

    constraints: ClassVar = {"penalty": number(at_least=0) | NONE}
    weight_: FloatArray
    bias_: FloatArray

    def __init__(self, *, penalty: float | None = None) -> None:
        self.penalty = penalty

    def _fit(self, nodes: Nodes) -> None:
        n_classes, penalty = nodes.n_classes, self.penalty
        if penalty is None:
            penalty = PENALTIES[n_classes > FEW_CLASSES]
        weights = np.full(
            (n_classes, n_classes), penalty / (n_classes * (n_classes - 1)) + self.ridge
        )
        np.fill_diagonal(weights, self.ridge)
        mu = penalty / n_classes + self.ridge
        self._fit_affine(nodes, weights, mu)
        # The penalty is one of the mean loss, and its curvature twice as large.
        ridge = np.append(weights.ravel(), np.full(n_classes, mu))
        self._remember(nodes, 2.0 * nodes.total_weight * ridge)
        self.fit_report_ = self._report(nodes, has_free_weights=True)

    def _features(self, logits: FloatArray) -> FloatArray:
        return log_probabilities(logits)

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        weight, bias = self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype)
        return dirichlet(logits, weight, bias)

    def _as_formula(self) -> Formula:
        learned = {"weight": self.weight_, "bias": self.bias_}
        return Formula.of_logits(dirichlet, learned, is_temperature=False, keeps_predictions=False)


def log_probabilities(z: Any) -> Any:
    """Dirichlet calibration's x = ln softmax(z), finite."""
    xp = backend_of(z)
    return xp.log(xp.maximum(softmax(z), SMALLEST_NORMAL))


def dirichlet(z: Any, weight: Any, bias: Any) -> Any:
    """Dirichlet calibration: softmax(W ln p + b)."""
    return softmax(affine_scores(log_probabilities(z), weight, bias))
