"""The model as it is: the baseline every calibrator is measured against."""

from __future__ import annotations

import numpy as np

from gnncal.calibrators.base import FitReport, TemperatureCalibrator
from gnncal.calibrators.losses import TemperatureLoss
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.graph import Graph


class Uncalibrated(TemperatureCalibrator):
    """Softmax of the logits, unchanged: T = 1 everywhere."""

    fitting = "closed form"

    def _fit(self, data: FitData) -> None:
        self.temperature_ = np.ones(data.n_nodes)
        loss = TemperatureLoss(data.logits[data.nodes], data.labels)
        self.fit_report_ = FitReport.of(data, loss.value(np.ones(data.nodes.size)))

    def _temperature(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        return np.ones(len(logits))
