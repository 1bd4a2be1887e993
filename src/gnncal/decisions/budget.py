"""A budget: a person looks at the k most suspicious nodes. What will be found?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray
from gnncal.decisions.costs import Amount, amount
from gnncal.decisions.recalibration import Cells, Recalibration


@dataclass(frozen=True)
class BudgetOutlook:
    """What a person is expected to find among the most suspicious nodes.

    The intervals have two parts: the probabilities may be off, as far as the labels of the
    calibration nodes leave that open, and some luck.

    Attributes
    ----------
    n_reviewed : int
        Number of nodes that a person looks at; fewer than the budget if there are fewer.
    precision : Amount
        Share of them that is positive.
    recall : Amount
        Share of all positives that is among them, or is acted on.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> budget = ClassPolicy(1, budget=100).fit(probs, labels).outlook_.budget
    >>> budget.n_reviewed, round(budget.precision.expected, 1), round(budget.recall.expected, 1)
    (100, 0.6, 0.3)

    """

    n_reviewed: int
    precision: Amount
    recall: Amount


def most_suspicious(p: FloatArray, k: int) -> BoolArray:
    """Mark the k nodes with the highest probability; equal ones are drawn, always the same way."""
    draw = np.random.default_rng(0).random(p.size)
    chosen = np.zeros(p.size, dtype=np.bool_)
    chosen[np.lexsort((draw, -p))[:k]] = True
    return chosen


def hits_among_most_suspicious(p: FloatArray, is_positive: BoolArray, k: int) -> float:
    """Return how many of the k most suspicious are positive, averaged over draws of equal ones."""
    if not 0 < k < p.size:
        return float(is_positive.sum()) if k else 0.0
    limit = np.partition(p, p.size - k)[p.size - k]
    above, tied = p > limit, p == limit
    return float(is_positive[above].sum() + (k - above.sum()) * is_positive[tied].mean())


def expect_budget(
    p: FloatArray,
    reviewed: BoolArray,
    acted: BoolArray,
    recalibration: Recalibration,
    level: float,
) -> BudgetOutlook:
    """Return what is expected among the reviewed nodes, and with those that are acted on."""
    generator = np.random.default_rng(0)
    cells = Cells.of(p)
    chances = recalibration.draws(cells.p, generator)

    def hits(chosen: BoolArray) -> FloatArray:
        """Draw the number of positives among these nodes under each map."""
        counts = cells.sums(chosen.astype(np.float64)).astype(np.int64)
        here = counts > 0
        return generator.binomial(counts[here], chances[:, here]).sum(axis=1).astype(np.float64)

    reviewed_hits, n = hits(reviewed), int(reviewed.sum())
    caught = reviewed_hits + hits(acted)
    positives = caught + hits(~reviewed & ~acted)
    recall = np.divide(caught, positives, out=np.ones_like(caught), where=positives > 0)
    return BudgetOutlook(n, amount(reviewed_hits / max(n, 1), level), amount(recall, level))
