"""Calibrators that look at a node's own logits and nothing else."""

from __future__ import annotations

from abc import abstractmethod

from gnncal.calibrators.base import Calibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.nodes import Nodes


class OwnLogitsCalibrator(Calibrator):
    """Base of calibrators whose probabilities are a function of a node's own logits.

    A subclass implements ``_fit`` and ``_probabilities``, which works on any rows of logits.
    """

    def _predict(self, nodes: Nodes) -> FloatArray:
        return self._probabilities(nodes.logits)

    def _predict_rows(self, nodes: Nodes, rows: IntArray) -> FloatArray:
        return self._probabilities(nodes.logits[rows])

    @abstractmethod
    def _probabilities(self, logits: FloatArray) -> FloatArray:
        """(n, n_classes) of logits (n, n_classes), in their precision."""
