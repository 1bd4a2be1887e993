"""Selective classification: answer only where confidence is high.

Nodes with equal confidence cannot be told apart, so every curve is the average over the orders of
tied nodes; relabelling nodes never changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import whole_number
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.proportions import clopper_pearson
from gnncal.metrics.ranking import Ranking


@dataclass(frozen=True)
class RiskCoverage:
    """Error rate among the most confident nodes, for every number of them or some of these.

    Attributes
    ----------
    coverage : ndarray of shape (n_points,)
        Shares of the nodes, ascending; the last is 1.
    risk : ndarray of shape (n_points,)
        Share of mistakes among that many nodes.
    n_nodes : int
        Number of nodes.

    Examples
    --------
    >>> from gnncal.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    >>> curve.risk.round(2), curve.optimal_risk.round(2)
    (array([0.  , 0.5 , 0.33]), array([0.  , 0.  , 0.33]))

    """

    coverage: FloatArray
    risk: FloatArray
    n_nodes: int

    @property
    def optimal_risk(self) -> FloatArray:
        """The risk if every correct node came before every mistake, shape (n_points,).

        No confidence can do better with these predictions.
        """
        mistakes = self.risk[-1]
        return np.maximum(self.coverage - (1.0 - mistakes), 0.0) / self.coverage

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the Clopper-Pearson interval of the risk at each coverage on its own.

        It is about the nodes above a confidence that was chosen beforehand. The lowest point of
        the curve, picked after looking, seems better than it is.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the interval.

        Returns
        -------
        tuple of ndarray of shape (n_points,)
            Lower and upper ends.

        """
        kept = np.rint(self.coverage * self.n_nodes).astype(np.int64)
        mistakes = np.rint(self.risk * kept).astype(np.int64)
        return clopper_pearson(mistakes, kept, level=level)

    def thinned(self, max_points: int = 500) -> RiskCoverage:
        """Return the same curve at fewer coverages, about evenly spaced.

        Parameters
        ----------
        max_points : int, default=500
            Largest number of points.

        Returns
        -------
        RiskCoverage
            The thinned curve.

        """
        whole_number(at_least=1).check("max_points", max_points)
        n = len(self.coverage)
        if n <= max_points:
            return self
        chosen = -(-np.arange(1, max_points + 1) * n // max_points) - 1  # the last one is kept
        return RiskCoverage(self.coverage[chosen], self.risk[chosen], self.n_nodes)


def risk_coverage_curve(labels: Any, probs: Any) -> RiskCoverage:
    """Return the error rate of the most confident nodes, for every number of them.

    Nodes of equal confidence are averaged over their orders.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.

    Returns
    -------
    RiskCoverage
        Coverage and risk, most confident nodes first.

    References
    ----------
    Geifman, El-Yaniv, "Selective classification for deep neural networks" (NeurIPS 2017).

    Examples
    --------
    >>> from gnncal.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    >>> curve.coverage.round(2), curve.risk.round(2)
    (array([0.33, 0.67, 1.  ]), array([0.  , 0.5 , 0.33]))

    """
    outcomes = Outcomes(labels, probs)
    return curve_of(outcomes.confidence, outcomes.correct)


def curve_of(confidence: FloatArray, correct: FloatArray) -> RiskCoverage:
    """Return the curve from each node's confidence and whether it is right, both (n_nodes,)."""
    return _curve(Ranking.of(confidence, 1.0 - correct))


def _curve(mistakes: Ranking) -> RiskCoverage:
    """Return the curve of nodes that are ranked by confidence, with the mistakes as hits."""
    n = int(mistakes.size.sum())
    kept = np.arange(1, n + 1)
    return RiskCoverage(kept / n, mistakes.hits_among(kept) / kept, n)


def ranking_of(outcomes: Outcomes) -> Ranking:
    """Return the nodes in the order of their confidence; hits are the mistakes."""
    return Ranking.of(outcomes.confidence, 1.0 - outcomes.correct)


def aurc_of(outcomes: Outcomes) -> float:
    """Area under the risk-coverage curve (Geifman et al., ICLR 2019): the mean risk."""
    return float(_curve(outcomes.once(ranking_of)).risk.mean())


def selective_accuracy_of(
    outcomes: Outcomes, coverages: Sequence[float] | FloatArray
) -> FloatArray:
    """Accuracy among the most confident ceil(coverage * n) nodes, for each coverage."""
    wanted = np.asarray(coverages, dtype=np.float64)
    risk = _curve(outcomes.once(ranking_of)).risk
    kept = np.ceil(wanted * len(risk) - 1e-9)  # 0.07 * 100 is 7, not 8
    return 1.0 - risk[np.maximum(kept, 1).astype(np.int64) - 1]
