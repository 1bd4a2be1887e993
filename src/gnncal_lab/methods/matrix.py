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

    Attributes
    ----------
    weight_ : ndarray of shape (n_classes, n_classes)
        The fitted W.
    bias_ : ndarray of shape (n_classes,)
        The fitted b.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it to compare with the literature. It has K² + K parameters and almost no penalty, so
    it overfits unless there are many more calibration nodes; ``sms`` and ``dirichlet`` map
    log-probabilities with a penalty instead.

    A ridge of 1e-6 towards W = I, b = 0 makes the optimum unique. Weights and biases are at most 50
    in size. It maps the logits as they are: a number added to all logits of a node changes the
    result. A step of the fit takes O(nK²). Beyond 30 classes the matrix is fitted by Newton's
    method in the row space of z, (n + 2) K numbers instead of K² + K, and without the bound of ±50.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks" (ICML 2017).

    Examples
    --------
    The model takes class 1 for class 0 and class 0 for class 1, and W exchanges them:

    >>> import numpy as np
    >>> from gnncal_lab import MatrixScaling
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(2000, 0.8))
    >>> logits = 2 * sample.graph.features[:, [1, 0, 2]]
    >>> calibrator = MatrixScaling().fit(logits, sample.labels, nodes=range(2000))
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
