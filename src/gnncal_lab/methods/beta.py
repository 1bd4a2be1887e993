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

    .. math:: p'_{ic} \propto \sigma(a_c \ln p_{ic} - b_c \ln(1 - p_{ic}) + c_c), \qquad
        a_c, b_c \ge 0

    The curves are those that two beta distributions give, one of the nodes of the class and one of
    the others. Normalising different curves can change which class is largest.

    Attributes
    ----------
    own_weight_ : ndarray of shape (n_classes,)
        The fitted a.
    rest_weight_ : ndarray of shape (n_classes,)
        The fitted b.
    intercept_ : ndarray of shape (n_classes,)
        The fitted c.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it with two classes, where small and large probabilities err differently and predictions
    may change: ``platt`` has a = b, which is one bend less. With more classes it fits each alone.

    The fit minimises the cross-entropy of each class against the rest with a and b at least 0, so
    that no curve falls. The authors' release fits without that limit, and again without ln p if a
    is negative, or else without ln(1 - p) if b is. That gives the same curve if only one of them is
    negative and what is fitted again is not. A ridge of 1e-6 towards a = b = 1, c = 0 makes the
    optimum unique. With sample_weight each node counts by its weight. p and 1 - p are kept above
    1.2e-38. A fit takes O(nK).

    References
    ----------
    Kull, Silva Filho, Flach, "Beta calibration: a well-founded and easily implemented improvement
    on logistic calibration for binary classifiers" (AISTATS 2017).

    Examples
    --------
    Small probabilities are right here and large ones are too large: a = 1 and b = 0.4.

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
