"""Nodes in the order of a score, with nodes of one score together.

Nodes with equal scores cannot be told apart, so what is said about the first k of them is the
average over the orders of tied nodes. Relabelling nodes never changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray

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
        """Return how often a hit stands before a miss, ties as half; None without both."""
        misses = self.size - self.hits
        pairs = self.hits.sum() * misses.sum()
        if pairs == 0:
            return None
        after = misses.sum() - np.cumsum(misses) + 0.5 * misses
        return float(self.hits @ after / pairs)

    def average_precision(self) -> float | None:
        """Return the mean over hits of the share of hits down to their score; None without one."""
        n_hits = self.hits.sum()
        return None if n_hits == 0 else float(self.hits @ self._precision() / n_hits)

    def recall_at(self, precision: float) -> float | None:
        """Return the largest share of the hits above a score where so many nodes are hits."""
        n_hits = self.hits.sum()
        if n_hits == 0:
            return None
        n_found = np.cumsum(self.hits)[self._precision() >= precision - ROUNDING]
        return float(n_found[-1] / n_hits) if n_found.size else 0.0

    def _precision(self) -> FloatArray:
        """Return the share of hits among the nodes of each score and all higher ones."""
        return np.cumsum(self.hits) / np.cumsum(self.size)
