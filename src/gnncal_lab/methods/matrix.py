"""Matrix scaling (Guo et al., ICML 2017): a linear map of the logits and a shift."""

from __future__ import annotations

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import AffineCalibrator, Formula
from gnncal_lab.arrays import FloatArray
from gnncal_lab.methods.vector import vector


class MatrixScaling(AffineCalibrator):
    r"""Map the logits linearly and shift them; the fit is convex.

    .. math:: p_i = \mathrm{softmax}(W z_i + b)

    Here z_i are the logits of node i.

    Attributes
    ----------
    weight_ : ndarray of shape (n_classes, n_classes)
        The fitted W.
    bias_ : ndarray of shape (n_classes,)
        The fitted b.

    Notes
    -----
    Use it to compare with the literature. For K classes it fits K² + K parameters with almost no
    penalty, and it overfits unless there are many more calibration nodes than parameters. ``sms``
    and ``dirichlet`` have a penalty.

    A ridge of 1e-6 towards W = I, b = 0 makes the optimum unique. With at most 30 classes, weights
    and biases stay within ±50. Adding a constant to all logits of a node changes the result.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks" (ICML 2017).

    Examples
    --------
    The model swaps classes 0 and 1, and W swaps them back. Accuracy before and after:

    >>> import numpy as np
    >>> from gnncal_lab import MatrixScaling
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = 2 * sample.graph.features[:, [1, 0, 2]]
    >>> calibrator = MatrixScaling().fit(logits, sample.labels, calibration_nodes=range(2000))
    >>> before, after = (z.argmax(axis=1) for z in (logits, calibrator.predict_proba(logits)))
    >>> [round(float(np.mean(each == sample.labels)), 2) for each in (before, after)]
    [0.34, 0.87]

    """

    weight_: FloatArray
    bias_: FloatArray

    def _fit(self, nodes: Nodes) -> None:
        n_classes = nodes.n_classes
        ridge = np.full((n_classes, n_classes), self.ridge / 2)
        self._fit_affine(nodes, ridge, self.ridge / 2)
        precision = np.full(n_classes**2 + n_classes, nodes.total_weight * self.ridge)
        self._remember(nodes, precision)
        self.fit_report_ = self._report(nodes, has_free_weights=True)

    def _features(self, logits: FloatArray) -> FloatArray:
        return logits

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        return vector(logits, self.weight_.astype(logits.dtype), self.bias_.astype(logits.dtype))

    def _as_formula(self) -> Formula:
        learned = {"weight": self.weight_, "bias": self.bias_}
        return Formula.of_logits(vector, learned, is_temperature=False, keeps_predictions=False)
