"""Calibrators that look at a node's own logits and nothing else."""

from __future__ import annotations

from abc import abstractmethod

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.nodes import Nodes


class OwnLogitsCalibrator(Calibrator):
    """Base of calibrators whose probabilities are a function of a node's own logits.

    A subclass implements ``_fit`` and ``_probabilities``, which works on any rows of logits.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.calibrators import OwnLogitsCalibrator
    >>> class Softer(OwnLogitsCalibrator):
    ...     preserves_predictions, fitting = True, "closed form"
    ...     def _fit(self, nodes):
    ...         self.fit_report_ = gnncal.calibrators.FitReport.of(nodes, loss_after=float("nan"))
    ...     def _probabilities(self, logits):
    ...         return 0.9 * gnncal.calibrators.softmax(logits) + 0.1 / logits.shape[1]
    >>> Softer().fit([[9.0, 0.0], [0.0, 9.0]], [0, 1]).predict_proba([[9.0, 0.0]]).round(2)
    array([[0.95, 0.05]])

    """

    def _predict(self, nodes: Nodes) -> FloatArray:
        return self._probabilities(nodes.logits)

    def _predict_rows(self, nodes: Nodes, rows: IntArray) -> FloatArray:
        return self._probabilities(nodes.logits[rows])

    @abstractmethod
    def _probabilities(self, logits: FloatArray) -> FloatArray:
        """(n, n_classes) of logits (n, n_classes), in their precision."""
