"""Beta calibration of each class against the rest (Kull, Silva Filho, Flach 2017)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal.calibrators import Array, Formula, Solution
from gnncal_lab.arrays import BoolArray, FloatArray
from gnncal_lab.fitting.logistic import logistic
from gnncal_lab.fitting.one_vs_rest import beta
from gnncal_lab.fitting.parts import SOLVER_STATE
from gnncal_lab.methods.one_vs_rest import OneVsRestCalibrator

RIDGE = 1e-6  # keeps the optimum unique and finite
IDENTITY = np.array([1.0, 1.0, 0.0])  # a, b and c that leave p as it is


class BetaCalibration(OneVsRestCalibrator):
    r"""Apply a curve of the beta family to each class's probability, then normalise each row.

    .. math:: p'_{ic} \propto \sigma(a_c \ln p_{ic} - b_c \ln(1 - p_{ic}) + d_c), \qquad
        a_c, b_c \ge 0

    Here p_ic is the uncalibrated probability of class c at node i, p'_ic the calibrated one, σ the
    sigmoid. For each class, a, b and d minimise the log loss of the class against the rest. The
    curves differ between classes, so the predicted class can change.

    Attributes
    ----------
    own_weight_, rest_weight_, intercept_ : ndarray of shape (n_classes,)
        The fitted a, b and d.

    Notes
    -----
    Use it with two classes, if predictions may change and the error differs between low and high
    probabilities. With more classes, each class is fitted separately.

    ``platt`` has a = b. With a and b at least 0, no curve falls. The authors' release has no such
    limit; it refits without the term whose coefficient is negative. A ridge of 1e-6 towards a = b =
    1, d = 0 makes the optimum unique.

    References
    ----------
    Kull, Silva Filho, Flach, "Beta calibration: a well-founded and easily implemented improvement
    on logistic calibration for binary classifiers" (AISTATS 2017).

    Examples
    --------
    Low probabilities are right here and high ones too high; the true curve has a = 1 and b = 0.4:

    >>> import numpy as np
    >>> from gnncal.calibrators import logits_from_probabilities
    >>> from gnncal_lab import BetaCalibration
    >>> generator = np.random.default_rng(0)
    >>> p = generator.uniform(size=20_000)
    >>> truth = 1 / (1 + (1 - p) ** 0.4 / p)
    >>> labels = (generator.random(20_000) < truth).astype(int)
    >>> logits = logits_from_probabilities(np.column_stack([1 - p, p]))
    >>> fitted = BetaCalibration().fit(logits, labels)
    >>> print(fitted.own_weight_[1].round(1), fitted.rest_weight_[1].round(1))
    1.1 0.4

    """

    learned: ClassVar = {
        "own_weight_": Array("K", low=0),
        "rest_weight_": Array("K", low=0),
        "intercept_": Array("K"),
        **SOLVER_STATE,
    }
    own_weight_: FloatArray
    rest_weight_: FloatArray
    intercept_: FloatArray

    def _fit_class(
        self, own: FloatArray, others: FloatArray, is_label: BoolArray, weights: FloatArray | None
    ) -> Solution:
        features = np.column_stack([own, -others])
        targets = is_label.astype(np.float64)
        return logistic(features, targets, weights, IDENTITY, ridge=RIDGE, rising=True)

    def _set_curves(self, parameters: FloatArray) -> None:
        self.own_weight_, self.rest_weight_, self.intercept_ = parameters.T.copy()

    def _undetermined(self, log_odds: FloatArray, is_label: BoolArray) -> tuple[str, ...]:
        # Every curve rises, so one that is steep enough tells such a class from the rest.
        lowest = np.where(is_label, log_odds, np.inf).min(axis=0)
        highest = np.where(is_label, -np.inf, log_odds).max(axis=0)
        alone = np.flatnonzero((lowest > highest) & is_label.any(axis=0) & ~is_label.all(axis=0))
        if alone.size == 0:
            return ()
        named = f"{'class' if alone.size == 1 else 'classes'} {', '.join(map(str, alone))}"
        return (
            f"every calibration node of {named} has a larger probability of its class than any "
            "other node, so they set no limit to the curve",
        )

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        learned = (self.own_weight_, self.rest_weight_, self.intercept_)
        return beta(logits, *(values.astype(logits.dtype) for values in learned))

    def _as_formula(self) -> Formula:
        learned = {
            "own_weight": self.own_weight_,
            "rest_weight": self.rest_weight_,
            "intercept": self.intercept_,
        }
        return Formula.of_logits(beta, learned, is_temperature=False, keeps_predictions=False)
