"""Proper scores and accuracy."""

from __future__ import annotations

import numpy as np

from gnncal import probability
from gnncal.core.arrays import FloatArray
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


def nll_of(outcomes: Outcomes) -> float:
    """NLL, the mean log loss in nats; a probability below 1e-12 counts as 1e-12."""
    return float(log_losses(outcomes).mean())


def brier_of(outcomes: Outcomes) -> float:
    """Brier score (1950): the mean squared distance of the probabilities from the true class."""
    return float(squared_errors(outcomes).mean())


def accuracy_of(outcomes: Outcomes) -> float:
    """Share of nodes whose most probable class is their label."""
    return float(outcomes.correct.mean())
