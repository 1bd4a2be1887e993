"""Spline calibration of the top class (Gupta et al., ICLR 2021)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import Array, FitReport, PointwiseCalibrator, integer
from gnncal_lab.arrays import BoolArray, FloatArray
from gnncal_lab.fitting.formulas import softmax


class SplineCalibration(PointwiseCalibrator):
    r"""Recalibrate the confidence by the derivative of a spline through the summed errors.

    With the distinct confidences :math:`s_1 < \dots < s_n` and the mean correctness
    :math:`a_j` at each, a natural cubic spline f with equally spaced knots is fitted by least
    squares to :math:`\frac1n \sum_{l \le j} (a_l - s_l)` at :math:`t_j = (j - 1) / (n - 1)`.

    .. math:: c'(s_j) = s_j + f'(t_j)

    Confidences in between are interpolated, those outside extrapolated linearly, all kept within
    [0, 1]. The other classes share 1 - c' as they shared 1 - c. Where c' is small another class
    can overtake the predicted one.

    Parameters
    ----------
    n_knots : int, default=7
        Number of knots of f; not more than there are distinct confidences.

    Attributes
    ----------
    curve_ : ndarray of shape (2, n)
        Confidences s in the first row and c'(s) in the second.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where only the confidence in the predicted class matters and the shape of its error is
    smooth.

    Seven knots and the top class only, as in the GATS release: t counts distinct confidences. One
    distinct confidence gives its accuracy. A fit takes O(n log n).

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
    >>> calibrator = SplineCalibration().fit(logits, sample.labels, nodes=range(300))
    >>> round(float(np.interp(0.9, *calibrator.curve_)), 2)  # what a confidence of 0.9 becomes
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
