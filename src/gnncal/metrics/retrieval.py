"""One class that matters: does its probability find the nodes that have it?

Nodes of equal probability are averaged over their orders.
"""

from __future__ import annotations

from typing import Any

from gnncal.core.constraints import number, whole_number
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import Ranking

TOP = 100  # nodes that a team looks at, unless told
PRECISION = 0.9  # at which recall is asked for, unless told


def positive_auroc(labels: Any, probs: Any, *, positive: int) -> float | None:
    """Return how often a node of the class has a higher probability of it than another node.

    Ties count half.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.

    Returns
    -------
    float or None
        The area under the ROC curve, between 0 and 1; None if no node or every node has the class.

    Examples
    --------
    >>> from gnncal.metrics import positive_auroc
    >>> positive_auroc([0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], positive=1)
    0.5

    """
    return positive_auroc_of(Outcomes(labels, probs, positive=positive))


def positive_auroc_of(outcomes: Outcomes) -> float | None:
    """:func:`positive_auroc` of checked outcomes."""
    return outcomes.once(positive_ranking_of).auroc()


def average_precision(labels: Any, probs: Any, *, positive: int) -> float | None:
    """Return the area under the precision-recall curve of one class, as scikit-learn defines it.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.

    Returns
    -------
    float or None
        The mean over the nodes of the class of the precision down to each; None if there are none.

    Examples
    --------
    The node of the class comes second, where the precision is one half:

    >>> from gnncal.metrics import average_precision
    >>> average_precision([0, 1, 0], [[0.7, 0.3], [0.8, 0.2], [0.9, 0.1]], positive=1)
    0.5

    """
    return average_precision_of(Outcomes(labels, probs, positive=positive))


def average_precision_of(outcomes: Outcomes) -> float | None:
    """:func:`average_precision` of checked outcomes."""
    return outcomes.once(positive_ranking_of).average_precision()


def precision_among_top(labels: Any, probs: Any, *, positive: int, k: int = TOP) -> float:
    """Return the share of the class among the k nodes with the highest probability of it.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.
    k : int, default=100
        Number of nodes; all of them if there are fewer.

    Returns
    -------
    float
        The share, averaged over the orders of tied nodes.

    Examples
    --------
    Of two nodes that tie for the second place, one has the class:

    >>> from gnncal.metrics import precision_among_top
    >>> probs = [[0.7, 0.3], [0.8, 0.2], [0.8, 0.2], [0.9, 0.1]]
    >>> precision_among_top([1, 1, 0, 0], probs, positive=1, k=2)
    0.75

    """
    whole_number(at_least=1).check("k", k)
    return precision_among_top_of(Outcomes(labels, probs, positive=positive), k)


def precision_among_top_of(outcomes: Outcomes, k: int = TOP) -> float:
    """:func:`precision_among_top` of checked outcomes."""
    kept = min(k, len(outcomes.labels))
    return float(outcomes.once(positive_ranking_of).hits_among(kept) / kept)


def recall_among_top(labels: Any, probs: Any, *, positive: int, k: int = TOP) -> float | None:
    """Return the share of all nodes of a class that are among the k with the highest probability.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.
    k : int, default=100
        Number of nodes; all of them if there are fewer.

    Returns
    -------
    float or None
        The share, averaged over the orders of tied nodes; None if no node has the class.

    Examples
    --------
    >>> from gnncal.metrics import recall_among_top
    >>> probs = [[0.7, 0.3], [0.8, 0.2], [0.8, 0.2], [0.9, 0.1]]
    >>> recall_among_top([1, 1, 0, 0], probs, positive=1, k=2)
    0.75

    """
    whole_number(at_least=1).check("k", k)
    return recall_among_top_of(Outcomes(labels, probs, positive=positive), k)


def recall_among_top_of(outcomes: Outcomes, k: int = TOP) -> float | None:
    """:func:`recall_among_top` of checked outcomes."""
    n_positive = outcomes.is_positive.sum()
    if n_positive == 0:
        return None
    kept = min(k, len(outcomes.labels))
    return float(outcomes.once(positive_ranking_of).hits_among(kept) / n_positive)


def recall_at_precision(
    labels: Any, probs: Any, *, positive: int, precision: float = PRECISION
) -> float | None:
    """Return how much of a class one threshold can find while its precision is high enough.

    The threshold is chosen on these very nodes, so this is what is possible and not a promise.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int
        Number of the class.
    precision : float, default=0.9
        The smallest share of the class among the nodes at or above the threshold.

    Returns
    -------
    float or None
        The largest share of the class that lies above such a threshold, 0.0 if there is no such
        threshold; None if no node has the class.

    Examples
    --------
    >>> from gnncal.metrics import recall_at_precision
    >>> probs = [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]
    >>> recall_at_precision([1, 0, 1, 0], probs, positive=1)
    0.5

    """
    number(above=0.0, at_most=1.0).check("precision", precision)
    return recall_at_precision_of(Outcomes(labels, probs, positive=positive), precision)


def recall_at_precision_of(outcomes: Outcomes, precision: float = PRECISION) -> float | None:
    """:func:`recall_at_precision` of checked outcomes."""
    return outcomes.once(positive_ranking_of).recall_at(precision)


def positive_ranking_of(outcomes: Outcomes) -> Ranking:
    """Return the nodes in the order of their probability of the class in view, which are hits."""
    return Ranking.of(outcomes.positive_probability, outcomes.is_positive)
