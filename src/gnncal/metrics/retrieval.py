"""One class that matters: does its probability find the nodes that have it?

Nodes of equal probability are averaged over their orders.
"""

from __future__ import annotations

from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import Ranking

TOP = 100  # nodes that a team looks at, unless told
PRECISION = 0.9  # at which recall is asked for, unless told


def positive_auroc_of(outcomes: Outcomes) -> float | None:
    """How often a node of the class has a higher probability of it; ties count half."""
    return outcomes.once(positive_ranking_of).auroc()


def average_precision_of(outcomes: Outcomes) -> float | None:
    """Area under the precision-recall curve, as scikit-learn defines it; None without a hit."""
    return outcomes.once(positive_ranking_of).average_precision()


def precision_among_top_of(outcomes: Outcomes, k: int = TOP) -> float:
    """Share of the class among the k nodes with the highest probability, mean over tied orders."""
    kept = min(k, len(outcomes.labels))
    return float(outcomes.once(positive_ranking_of).hits_among(kept) / kept)


def recall_among_top_of(outcomes: Outcomes, k: int = TOP) -> float | None:
    """Share of the class that is among the k nodes with the highest probability."""
    n_positive = outcomes.is_positive.sum()
    if n_positive == 0:
        return None
    kept = min(k, len(outcomes.labels))
    return float(outcomes.once(positive_ranking_of).hits_among(kept) / n_positive)


def recall_at_precision_of(outcomes: Outcomes, precision: float = PRECISION) -> float | None:
    """Largest share of the class above a threshold with this precision on these very nodes."""
    return outcomes.once(positive_ranking_of).recall_at(precision)


def positive_ranking_of(outcomes: Outcomes) -> Ranking:
    """Return the nodes in the order of their probability of the class in view, which are hits."""
    return Ranking.of(outcomes.positive_probability, outcomes.is_positive)
