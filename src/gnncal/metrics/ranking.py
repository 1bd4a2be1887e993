"""Nodes in the order of a score, with nodes of one score together.

Nodes with equal scores cannot be told apart, so what is said about the first k of them is the
average over the orders of tied nodes. Relabelling nodes never changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.metrics.outcomes import Outcomes, clopper_pearson

ROUNDING = 1e-9  # of a share: 0.9 of ten nodes is nine, not a little more


@dataclass(frozen=True, eq=False)
class Ranking:
    """How many nodes have each score, and how many of them are hits; the highest score first."""

    size: FloatArray
    hits: FloatArray

    @classmethod
    def of(cls, score: FloatArray, hit: FloatArray) -> Ranking:
        """Return the ranking of nodes by a score; ``hit`` is 1.0 or 0.0 for each."""
        ranked = np.sort(-score)
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        size = np.diff(np.append(starts, ranked.size))
        # Sorting numbers is faster than sorting the nodes by them, and hits are looked up.
        block = np.searchsorted(ranked[starts], np.sort(-score[hit > 0]))
        hits = np.bincount(block, minlength=starts.size)
        return cls(size.astype(np.float64), hits.astype(np.float64))

    @property
    def reversed(self) -> Ranking:
        """The same nodes and hits, the lowest score first."""
        return Ranking(self.size[::-1], self.hits[::-1])

    def hits_among(self, k: IntArray | int) -> FloatArray:
        """Return the number of hits among the first k nodes, for one k or several."""
        ends = np.concatenate([[0.0], np.cumsum(self.size)])
        return np.interp(k, ends, np.concatenate([[0.0], np.cumsum(self.hits)]))

    def auroc(self) -> float | None:
        """Return how often a hit ranks before a miss, ties as half; None without hits or misses."""
        misses = self.size - self.hits
        pairs = self.hits.sum() * misses.sum()
        if pairs == 0:
            return None
        after = misses.sum() - np.cumsum(misses) + 0.5 * misses
        return float(self.hits @ after / pairs)

    def average_precision(self) -> float | None:
        """Return the average precision, with ties as one threshold; None without hits."""
        n_hits = self.hits.sum()
        return None if n_hits == 0 else float(self.hits @ self._precision() / n_hits)

    def recall_at(self, precision: float) -> float | None:
        """Return the largest recall at this precision or a higher one; None without hits."""
        n_hits = self.hits.sum()
        if n_hits == 0:
            return None
        n_found = np.cumsum(self.hits)[self._precision() >= precision - ROUNDING]
        return float(n_found[-1] / n_hits) if n_found.size else 0.0

    def _precision(self) -> FloatArray:
        """Return the share of hits among the nodes of each score and all higher ones."""
        return np.cumsum(self.hits) / np.cumsum(self.size)


TOP = 100  # default number of nodes that a team reviews
PRECISION = 0.9  # default precision at which the recall is computed


def precision_among_top_of(outcomes: Outcomes, k: int = TOP) -> float:
    """Share of the class among the k nodes with the highest probability, mean over tied orders."""
    kept = min(k, len(outcomes.labels))
    return float(outcomes.cached(positive_ranking_of).hits_among(kept) / kept)


def recall_among_top_of(outcomes: Outcomes, k: int = TOP) -> float | None:
    """Share of the class that is among the k nodes with the highest probability."""
    n_positive = outcomes.is_positive.sum()
    found = outcomes.cached(positive_ranking_of).hits_among(min(k, len(outcomes.labels)))
    return float(found / n_positive) if n_positive else None


def positive_ranking_of(outcomes: Outcomes) -> Ranking:
    """Return the nodes by their probability of the positive class, and which are hits."""
    return Ranking.of(outcomes.positive_probability, outcomes.is_positive)


@dataclass(frozen=True)
class RiskCoverage:
    """Error rate (risk) of the most confident nodes, by their share of all nodes (coverage).

    Attributes
    ----------
    coverage, risk : ndarray of shape (n_points,)
        Share of nodes, ascending to 1, and the error rate of that share of most confident nodes.
    n_nodes : int
        Number of nodes.

    """

    coverage: FloatArray
    risk: FloatArray
    n_nodes: int

    @property
    def optimal_risk(self) -> FloatArray:
        """The lowest possible risk: all correct predictions have more confidence than mistakes."""
        mistakes = self.risk[-1]
        return np.maximum(self.coverage - (1.0 - mistakes), 0.0) / self.coverage

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the Clopper-Pearson interval of the risk at each coverage separately.

        An interval is valid for a threshold on the confidence that was chosen before seeing these
        labels. For a point that was chosen from the curve, the interval is too optimistic.
        """
        kept = np.rint(self.coverage * self.n_nodes).astype(np.int64)
        mistakes = np.rint(self.risk * kept).astype(np.int64)
        return clopper_pearson(mistakes, kept, level=level)

    def thinned(self, max_points: int = 500) -> RiskCoverage:
        """Return the same curve at fewer coverages, about evenly spaced; the last one is kept."""
        n = len(self.coverage)
        if n <= max_points:
            return self
        chosen = -(-np.arange(1, max_points + 1) * n // max_points) - 1
        return RiskCoverage(self.coverage[chosen], self.risk[chosen], self.n_nodes)


def risk_coverage_curve(labels: Any, probs: Any) -> RiskCoverage:
    """Return the error rate of the k most confident nodes, for every k.

    Among nodes with equal confidence, the result is the average over all orders.

    References
    ----------
    Geifman, El-Yaniv, "Selective classification for deep neural networks" (NeurIPS 2017).

    Examples
    --------
    >>> from gnncal.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    >>> curve.coverage.round(2), curve.risk.round(2), curve.optimal_risk.round(2)
    (array([0.33, 0.67, 1.  ]), array([0.  , 0.5 , 0.33]), array([0.  , 0.  , 0.33]))

    """
    return curve_of(Outcomes(labels, probs))


def curve_of(outcomes: Outcomes) -> RiskCoverage:
    """:func:`risk_coverage_curve` of checked outcomes."""
    n = len(outcomes.labels)
    kept = np.arange(1, n + 1)
    return RiskCoverage(kept / n, outcomes.cached(mistake_ranking_of).hits_among(kept) / kept, n)


def mistake_ranking_of(outcomes: Outcomes) -> Ranking:
    """Return the nodes in the order of their confidence; hits are the mistakes."""
    return Ranking.of(outcomes.confidence, 1.0 - outcomes.correct)
