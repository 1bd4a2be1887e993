"""Proper scores, accuracy, and how many predictions change."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal import probability
from gnncal.core.arrays import FloatArray
from gnncal.core.checks import check_logits
from gnncal.core.errors import InputError
from gnncal.metrics.outcomes import Outcomes

NODES_PER_BLOCK = 1 << 14


def log_losses(outcomes: Outcomes) -> FloatArray:
    """-ln p of each node's label, with p clipped below at 1e-12; shape (n_nodes,)."""
    return probability.log_losses(outcomes.probs, outcomes.labels)


def squared_errors(outcomes: Outcomes) -> FloatArray:
    """Sum over classes of (p - onehot)^2 for each node; shape (n_nodes,)."""
    errors = np.empty(len(outcomes.labels))
    for start in range(0, len(errors), NODES_PER_BLOCK):  # a float64 copy of all would be large
        block = slice(start, start + NODES_PER_BLOCK)
        residual = outcomes.probs[block].astype(np.float64)
        residual[np.arange(len(residual)), outcomes.labels[block]] -= 1.0
        errors[block] = np.einsum("ik,ik->i", residual, residual)
    return errors


def negative_log_likelihood(labels: Any, probs: Any) -> float:
    """NLL: the mean of -ln p of the true class, also called log loss or cross-entropy.

    A probability below 1e-12 counts as 1e-12.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.

    Returns
    -------
    float
        The loss in nats; lower is better.

    Examples
    --------
    >>> from gnncal.metrics import negative_log_likelihood
    >>> round(negative_log_likelihood([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 2)
    0.86

    """
    return nll_of(Outcomes(labels, probs))


def nll_of(outcomes: Outcomes) -> float:
    """:func:`negative_log_likelihood` of checked outcomes."""
    return float(log_losses(outcomes).mean())


def brier_score(labels: Any, probs: Any) -> float:
    r"""Return the Brier score: the mean squared distance between probabilities and the true class.

    .. math:: \tfrac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.

    Returns
    -------
    float
        The score, between 0 and 2; lower is better.

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability" (Monthly Weather Review
    1950).

    Examples
    --------
    >>> from gnncal.metrics import brier_score
    >>> round(brier_score([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 2)
    0.65

    """
    return brier_of(Outcomes(labels, probs))


def brier_of(outcomes: Outcomes) -> float:
    """:func:`brier_score` of checked outcomes."""
    return float(squared_errors(outcomes).mean())


def accuracy(labels: Any, probs: Any) -> float:
    """Return the share of nodes whose most probable class is their label.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.

    Returns
    -------
    float
        The accuracy, between 0 and 1.

    Examples
    --------
    >>> from gnncal.metrics import accuracy
    >>> accuracy([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    0.5

    """
    return accuracy_of(Outcomes(labels, probs))


def accuracy_of(outcomes: Outcomes) -> float:
    """:func:`accuracy` of checked outcomes."""
    return float(outcomes.correct.mean())


def prediction_change_rate(before: Any, after: Any) -> float:
    """Return the share of nodes whose predicted class differs before and after.

    Parameters
    ----------
    before : array_like of shape (n_nodes, n_classes)
        Logits or probabilities before calibration.
    after : array_like of shape (n_nodes, n_classes)
        Logits or probabilities after calibration.

    Returns
    -------
    float
        A share, between 0 and 1.

    Raises
    ------
    InputError
        If the two have different shapes.

    Examples
    --------
    >>> from gnncal.metrics import prediction_change_rate
    >>> prediction_change_rate([[0.9, 0.1], [0.6, 0.4]], [[0.8, 0.2], [0.4, 0.6]])
    0.5

    """
    first, second = check_logits(before, name="before"), check_logits(after, name="after")
    if first.shape != second.shape or len(first) == 0:
        raise InputError(
            f"before has shape {first.shape} and after {second.shape}; expected the same rows, at "
            "least one, and the same columns."
        )
    return float((first.argmax(axis=1) != second.argmax(axis=1)).mean())
