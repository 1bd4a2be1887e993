"""Multi-class isotonic regression (Zhang, Kailkhura, Han, ICML 2020)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal.calibrators.base import PointwiseCalibrator
from gnncal.calibrators.fit_report import FitReport
from gnncal.data.arrays import FloatArray
from gnncal.data.constraints import Array
from gnncal.data.nodes import Nodes
from gnncal.data.probability import keep_predictions, softmax

STEPS = Array("2 *", low=0, high=1, rising="first row")
TIE_BREAKER = 1e-9  # times p: keeps rows above zero, and in float64 the order within a step


class MultiClassIsotonic(PointwiseCalibrator):
    r"""Apply one monotone curve to all probabilities (multi-class isotonic regression, IRM).

    .. math:: p'_{ic} \propto g(p_{ic}) + 10^{-9} p_{ic}

    Here p_ic is the uncalibrated probability of class c at node i, p'_ic the calibrated one. The
    curve g is the isotonic regression of 1[y_i = c] on p_ic, over all classes c and all calibration
    nodes i with labels y_i. ``steps_`` has two rows: values of p and of g(p). Zhang, Kailkhura,
    Han, "Mix-n-Match: ensemble and compositional methods for uncertainty calibration in deep
    learning" (ICML 2020).

    Notes
    -----
    Use it if you have no graph, predictions must stay, and ECE matters more than log loss.

    """

    preserves_predictions = True
    learned: ClassVar = {"steps_": STEPS}
    steps_: FloatArray

    def _fit(self, nodes: Nodes) -> None:
        from sklearn.isotonic import IsotonicRegression  # here because it takes long to import

        probs = softmax(nodes.calibration_logits).astype(np.float64)
        is_label = nodes.labels[:, None] == np.arange(nodes.n_classes)
        regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        regression.fit(probs.ravel(), is_label.ravel().astype(np.float64))
        self.steps_ = np.stack([regression.X_thresholds_, regression.y_thresholds_])
        calibrated = self._probabilities(nodes.calibration_logits)
        self.fit_report_ = FitReport.of(nodes, nodes.mean_log_loss(calibrated))

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        probs, predictions = softmax(logits), logits.argmax(axis=1)
        mapped = np.interp(probs, *self.steps_).astype(probs.dtype) + TIE_BREAKER * probs
        # Interpolation may round the largest p below the second largest, by one unit.
        mapped[np.arange(len(mapped)), predictions] = mapped.max(axis=1)
        mapped /= mapped.sum(axis=1, keepdims=True)
        return keep_predictions(mapped, predictions)
