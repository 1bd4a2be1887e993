"""Curves of each class against the rest: the base of platt and beta."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import FitReport, PointwiseCalibrator, Solution
from gnncal_lab.arrays import BoolArray, FloatArray
from gnncal_lab.fitting.one_vs_rest import log_chances


class OneVsRestCalibrator(PointwiseCalibrator):
    """A logistic curve of each class's probability; rows are normalised after it.

    Each curve is fitted alone, to whether a node has its class. That loss is convex. A subclass
    implements ``_fit_class`` and ``_set_curves``.
    """

    preserves_predictions = False
    uses_sample_weight = True
    zeroes_unseen_classes = True
    converged_: bool
    n_iter_: int

    def _fit(self, nodes: Nodes) -> None:
        own, others = log_chances(nodes.calibration_logits.astype(np.float64))
        fits = [
            self._fit_class(own[:, c], others[:, c], nodes.labels == c, nodes.weights)
            for c in range(nodes.n_classes)
        ]
        self._set_curves(np.array([fit.parameters for fit in fits]))
        self.converged_ = all(fit.converged for fit in fits)
        self.n_iter_ = max(fit.n_iter for fit in fits)
        probs = self._probabilities(nodes.calibration_logits)
        loss = nodes.mean_log_loss(probs)
        is_label = nodes.labels[:, None] == np.arange(nodes.n_classes)
        reasons = self._undetermined(own - others, is_label)
        self.fit_report_ = FitReport.of(nodes, loss, undetermined=reasons)

    @abstractmethod
    def _fit_class(
        self, own: FloatArray, others: FloatArray, is_label: BoolArray, weights: FloatArray | None
    ) -> Solution:
        """Fit the curve of a class to ln p (n,), ln(1 - p) (n,) and who has it."""

    def _undetermined(self, log_odds: FloatArray, is_label: BoolArray) -> tuple[str, ...]:
        """Return why the labels do not determine the curves; a hook."""
        return ()

    @abstractmethod
    def _set_curves(self, parameters: FloatArray) -> None:
        """Take over the parameters (K, p) of all curves."""
