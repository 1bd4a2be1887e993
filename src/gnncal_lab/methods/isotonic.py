"""Isotonic regression of each class against the rest (Zadrozny, Elkan 2002)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import Array, FitReport, PointwiseCalibrator
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import PerClass

STEPS = Array("2 *", low=0, high=1, rising="first row")
TIE_BREAKER = 1e-9  # times p: keeps rows above zero, and in float64 the order within a step


class IsotonicCalibration(PointwiseCalibrator):
    r"""Apply a monotone step curve to each class's probability, then normalise each row.

    .. math:: p'_{ic} \propto g_c(p_{ic}) + 10^{-9} p_{ic}

    Here p_ic is the uncalibrated probability of class c at node i, p'_ic the calibrated one. g_c is
    the isotonic regression of 1[y_i = c] on p_ic over the calibration nodes i with labels y_i. It
    is interpolated linearly between the steps. The curves differ between classes, so the predicted
    class can change.

    Attributes
    ----------
    steps_ : tuple of ndarray of shape (2, n_steps)
        For each class, p_c in the first row and g_c(p_c) in the second.

    Notes
    -----
    Use it with many calibration nodes, if predictions may change and ECE matters more than log
    loss. It can give a class almost no probability, which makes the log loss large.

    References
    ----------
    Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates"
    (KDD 2002).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import IsotonicCalibration
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(600, 0.8))
    >>> logits = 4 * sample.graph.features[:, :3]
    >>> report = IsotonicCalibration().fit(
    ...     logits, sample.labels, calibration_nodes=range(300)
    ... ).fit_report_
    >>> round(report.loss_before, 2), round(report.loss_after, 2)
    (0.37, 0.26)

    """

    preserves_predictions = False
    zeroes_unseen_classes = True
    learned: ClassVar = {"steps_": PerClass(STEPS)}
    steps_: tuple[FloatArray, ...]

    def _fit(self, nodes: Nodes) -> None:
        probs = softmax(nodes.calibration_logits)
        self.steps_ = tuple(_steps(p, nodes.labels == c) for c, p in enumerate(probs.T))
        calibrated = self._probabilities(nodes.calibration_logits)
        self.fit_report_ = FitReport.of(nodes, nodes.mean_log_loss(calibrated))

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        probs = softmax(logits)
        for c, steps in enumerate(self.steps_):
            probs[:, c] = np.interp(probs[:, c], *steps) + TIE_BREAKER * probs[:, c]
        probs /= probs.sum(axis=1, keepdims=True)
        return probs


def _steps(probs: FloatArray, is_label: FloatArray) -> FloatArray:
    """Return the corners of the isotonic regression of outcomes on probabilities, (2, n_steps)."""
    from sklearn.isotonic import IsotonicRegression  # here because it takes long to import

    regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    regression.fit(probs.astype(np.float64), is_label.astype(np.float64))
    return np.stack([regression.X_thresholds_, regression.y_thresholds_])
