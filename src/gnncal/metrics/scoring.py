"""Proper scores and what happens to predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.core import probability
from gnncal.core.arrays import FloatArray
from gnncal.core.checks import check_logits
from gnncal.core.errors import InputError
from gnncal.metrics.binning import check_outcomes


def log_losses(labels: Any, probs: Any) -> FloatArray:
    """-ln p of each node's label, with p clipped below at 1e-12; shape (n_nodes,)."""
    all_labels, checked = check_outcomes(labels, probs)
    return probability.log_losses(checked, all_labels)


def squared_errors(labels: Any, probs: Any) -> FloatArray:
    """Sum over classes of (p - onehot)^2 for each node; shape (n_nodes,)."""
    all_labels, checked = check_outcomes(labels, probs)
    residual = checked.astype(np.float64)
    residual[np.arange(len(residual)), all_labels] -= 1.0
    return np.einsum("ik,ik->i", residual, residual)


def negative_log_likelihood(labels: Any, probs: Any) -> float:
    """NLL: the mean of :func:`log_losses`."""
    return float(log_losses(labels, probs).mean())


def brier_score(labels: Any, probs: Any) -> float:
    """The mean of :func:`squared_errors`, between 0 and 2."""
    return float(squared_errors(labels, probs).mean())


def accuracy(labels: Any, probs: Any) -> float:
    """Share of nodes whose most probable class is their label."""
    all_labels, checked = check_outcomes(labels, probs)
    return float((checked.argmax(axis=1) == all_labels).mean())


def prediction_change_rate(before: Any, after: Any) -> float:
    """Share of nodes whose arg max differs; logits or probabilities on either side."""
    first, second = check_logits(before, name="before"), check_logits(after, name="after")
    if first.shape != second.shape or len(first) == 0:
        raise InputError(
            f"before has shape {first.shape} and after {second.shape}; expected the same rows, at "
            "least one, and the same columns."
        )
    return float((first.argmax(axis=1) != second.argmax(axis=1)).mean())
