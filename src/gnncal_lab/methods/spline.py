"""Spline calibration of the top class (Gupta et al., ICLR 2021)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import Array, FitReport, PointwiseCalibrator, integer
from gnncal_lab.arrays import BoolArray, FloatArray
from gnncal_lab.fitting.formulas import softmax


class SplineCalibration(PointwiseCalibrator):
    r"""Correct the confidence by the derivative of a spline fitted to the cumulative errors.

    Let :math:`s_1 < \dots < s_n` be the distinct confidences of the calibration nodes, :math:`a_j`
    the accuracy at :math:`s_j`, and :math:`t_j = (j - 1) / (n - 1)`. A natural cubic spline f with
    equally spaced knots is fitted by least squares to the sums
    :math:`\frac1n \sum_{l \le j} (a_l - s_l)` at the places :math:`t_j`. The calibrated confidence
    is

    .. math:: c'(s_j) = s_j + f'(t_j)

    It is interpolated linearly between the :math:`s_j`, extrapolated linearly outside them, and
    limited to [0, 1]. The other classes share the rest in their old proportions. If c' is small,
    another class can become the predicted one. If all confidences are equal, c' is the accuracy.

    Parameters
    ----------
    n_knots : int, default=7
        Number of knots of f, at most the number of distinct confidences. The default is that of the
        code released with GATS.

    Attributes
    ----------
    curve_ : ndarray of shape (2, n)
        Confidences s in the first row and c'(s) in the second.

    Notes
    -----
    Use it where only the confidence in the predicted class matters and its error is a smooth
    function of the confidence.

    References
    ----------
    Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley, "Calibration of neural networks using
    splines" (ICLR 2021).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import SplineCalibration
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(600, 0.8))
    >>> logits = 4 * sample.graph.features[:, :3]
    >>> calibrator = SplineCalibration().fit(logits, sample.labels, calibration_nodes=range(300))
    >>> round(float(np.interp(0.9, *calibrator.curve_)), 2)  # the calibrated confidence at 0.9
    0.72

    """

    preserves_predictions = False
    constraints: ClassVar = {"n_knots": integer(at_least=2)}
    learned: ClassVar = {"curve_": Array("2 *", rising="first row")}
    curve_: FloatArray

    def __init__(self, *, n_knots: int = 7) -> None:
        self.n_knots = n_knots

    def _fit(self, nodes: Nodes) -> None:
        logits = nodes.calibration_logits
        correct = logits.argmax(axis=1) == nodes.labels
        confidence = softmax(logits).max(axis=1).astype(np.float64)
        self.curve_ = _curve(confidence, correct, self.n_knots)
        calibrated = self._probabilities(logits)
        self.fit_report_ = FitReport.of(nodes, nodes.mean_log_loss(calibrated))

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        probs, rows, top = softmax(logits), np.arange(len(logits)), logits.argmax(axis=1)
        confidence = _along(self.curve_, probs[rows, top].astype(np.float64))
        confidence = np.clip(confidence, 0.0, 1.0).astype(probs.dtype)
        probs[rows, top] = 0.0
        rest = probs.sum(axis=1, keepdims=True)
        uniform = np.full_like(probs, 1.0 / (probs.shape[1] - 1))
        probs = np.divide(probs, rest, out=uniform, where=rest > 0)
        probs *= 1.0 - confidence[:, None]
        probs[rows, top] = confidence
        return probs


def _curve(confidence: FloatArray, correct: BoolArray, n_knots: int) -> FloatArray:
    s, group, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    a = np.bincount(group, weights=correct) / counts
    if len(s) == 1:
        return np.stack([s, a])
    from scipy.interpolate import CubicSpline  # here because it takes long to import

    t, knots = np.linspace(0, 1, len(s)), np.linspace(0, 1, min(n_knots, len(s)))
    basis = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")  # one for each knot
    weights, *_ = np.linalg.lstsq(basis(t), np.cumsum(a - s) / len(s))
    return np.stack([s, s + basis(t, 1) @ weights])


def _along(curve: FloatArray, confidence: FloatArray) -> FloatArray:
    """Linear between the points of the curve and beyond its ends; constant if it has one."""
    if curve.shape[1] == 1:
        return np.full(len(confidence), curve[1, 0])
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(*curve, k=1)(confidence)
