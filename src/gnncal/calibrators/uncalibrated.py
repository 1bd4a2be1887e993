"""The model as it is: the baseline every calibrator is measured against."""

from __future__ import annotations

import numpy as np

from gnncal.calibrators.base import FitReport, TemperatureCalibrator
from gnncal.core.arrays import FloatArray
from gnncal.fitting.losses import TemperatureLoss
from gnncal.formulas.methods import Portable, one_temperature
from gnncal.nodes import Nodes


class Uncalibrated(TemperatureCalibrator):
    r"""No calibration: the softmax of the logits as they are.

    .. math:: p_i = \mathrm{softmax}(z_i)

    Attributes
    ----------
    temperature_ : ndarray of shape (n_nodes,)
        1 for each node.
    fit_report_ : FitReport
        Its two losses are equal.

    Notes
    -----
    Use it as the reference in a comparison of methods.

    Examples
    --------
    >>> from gnncal.calibrators import Uncalibrated
    >>> logits, labels = [[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1]
    >>> Uncalibrated().fit(logits, labels).predict_proba(logits).round(2)
    array([[0.88, 0.12],
           [0.27, 0.73],
           [0.73, 0.27]])

    """

    fitting = "closed form"
    uses_sample_weight = True

    def _fit(self, nodes: Nodes) -> None:
        self.temperature_ = np.ones(nodes.n_nodes)
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels, nodes.weights)
        self.fit_report_ = FitReport.of(nodes, loss.value(np.ones(nodes.calibration_nodes.size)))

    def _temperature(self, nodes: Nodes) -> FloatArray:
        return np.ones(nodes.n_nodes)

    def _portable(self) -> Portable:
        return Portable(one_temperature, {"base_temperature": 1.0})
