"""Platt scaling of each class against the rest (Platt 1999; Zadrozny, Elkan 2002)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal.calibrators import Array, Formula, Solution
from gnncal_lab.arrays import BoolArray, FloatArray
from gnncal_lab.fitting.logistic import logistic
from gnncal_lab.fitting.one_vs_rest import platt
from gnncal_lab.fitting.parts import SOLVER_STATE
from gnncal_lab.methods.one_vs_rest import OneVsRestCalibrator


class PlattScaling(OneVsRestCalibrator):
    r"""Apply a sigmoid to the log-odds of each class against the rest, then normalise each row.

    .. math:: p'_{ic} \propto \sigma(a_c s_{ic} + b_c), \qquad s_{ic} = \ln \frac{p_{ic}}{1-p_{ic}}

    Here p_ic is the uncalibrated probability of class c at node i, p'_ic the calibrated one, σ the
    sigmoid. For each class, a and b minimise the log loss of the class against the rest. The curves
    differ between classes, so the predicted class can change.

    Attributes
    ----------
    slope_, intercept_ : ndarray of shape (n_classes,)
        The fitted a and b.

    Notes
    -----
    Use it with two classes, if predictions may change. With more classes, each class is fitted
    separately; ``vs`` and ``svs`` fit all classes together.

    As in Platt's paper, the target is (n₊ + 1) / (n₊ + 2) for the n₊ nodes of the class and
    1 / (n₋ + 2) for the n₋ other nodes, which keeps the fit finite without a penalty. With
    ``sample_weight``, n₊ and n₋ are sums of weights. With two classes, the curves are mirror
    images, and the method is Platt scaling of a single score.

    References
    ----------
    Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods" (Advances in Large Margin Classifiers, 1999).

    Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates"
    (KDD 2002).

    Examples
    --------
    The log-odds are twice as large as the true ones, so the slopes are one half:

    >>> import numpy as np
    >>> from gnncal_lab import PlattScaling
    >>> generator = np.random.default_rng(0)
    >>> s = generator.normal(size=2000)
    >>> labels = generator.random(2000) < 1 / (1 + np.exp(-s))
    >>> logits = np.column_stack([np.zeros(2000), 2 * s])
    >>> PlattScaling().fit(logits, labels.astype(int)).slope_.round(1)
    array([0.5, 0.5])

    """

    learned: ClassVar = {"slope_": Array("K"), "intercept_": Array("K"), **SOLVER_STATE}
    slope_: FloatArray
    intercept_: FloatArray

    def _fit_class(
        self, own: FloatArray, others: FloatArray, is_label: BoolArray, weights: FloatArray | None
    ) -> Solution:
        counted = np.ones(len(own)) if weights is None else weights
        with_it, without_it = float(counted[is_label].sum()), float(counted[~is_label].sum())
        targets = np.where(is_label, (with_it + 1) / (with_it + 2), 1 / (without_it + 2))
        start = np.array([0.0, np.log((with_it + 1) / (without_it + 1))])
        return logistic((own - others)[:, None], targets, weights, start)

    def _set_curves(self, parameters: FloatArray) -> None:
        self.slope_, self.intercept_ = parameters.T.copy()

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        slope, intercept = (v.astype(logits.dtype) for v in (self.slope_, self.intercept_))
        return platt(logits, slope, intercept)

    def _as_formula(self) -> Formula:
        learned = {"slope": self.slope_, "intercept": self.intercept_}
        return Formula.of_logits(platt, learned, is_temperature=False, keeps_predictions=False)
