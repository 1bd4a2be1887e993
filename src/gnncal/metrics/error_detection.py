"""Error detection: does a low confidence tell which predictions are wrong?"""

from __future__ import annotations

from typing import Any

from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.risk_coverage import ranking_of


def error_auroc(labels: Any, probs: Any) -> float | None:
    """Return how often a node that is predicted wrongly is less confident than one that is right.

    Ties count half.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.

    Returns
    -------
    float or None
        The area under the ROC curve, between 0 and 1; None unless some are right and some wrong.

    References
    ----------
    Hendrycks, Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in
    neural networks" (ICLR 2017).

    Examples
    --------
    >>> from gnncal.metrics import error_auroc
    >>> error_auroc([0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    0.5

    """
    return error_auroc_of(Outcomes(labels, probs))


def error_auroc_of(outcomes: Outcomes) -> float | None:
    """:func:`error_auroc` of checked outcomes."""
    return outcomes.once(ranking_of).reversed.auroc()


def error_aupr(labels: Any, probs: Any) -> float | None:
    """Return the average precision of a low confidence as a sign of a mistake.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.

    Returns
    -------
    float or None
        The area under the precision-recall curve, mistakes as positives; None without a mistake.

    References
    ----------
    Hendrycks, Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in
    neural networks" (ICLR 2017).

    Examples
    --------
    The mistake has the second lowest confidence:

    >>> from gnncal.metrics import error_aupr
    >>> error_aupr([0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    0.5

    """
    return error_aupr_of(Outcomes(labels, probs))


def error_aupr_of(outcomes: Outcomes) -> float | None:
    """:func:`error_aupr` of checked outcomes."""
    return outcomes.once(ranking_of).reversed.average_precision()
