"""Calibration nodes as decisions see them: how confident each is, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.core.arrays import BoolArray, FloatArray, IntArray, row_maxima
from gnncal.core.checks import (
    UNKNOWN,
    check_labels,
    check_nodes,
    check_probs,
    check_used_labels,
)
from gnncal.core.constraints import Constraint
from gnncal.core.errors import InputError

# A threshold that no node reaches, or that every class stays below.
INFINITE = Constraint("infinity", lambda value: type(value) is float and value == np.inf)


@dataclass(frozen=True)
class RankedNodes:
    """Calibration nodes from the most to the least confident."""

    confidence: FloatArray  # (n,) falling
    mistakes: IntArray  # (n,) wrong predictions among the first 1, 2, ..., n nodes
    end: IntArray  # (n,) how many nodes are at least as confident as this one

    @classmethod
    def of(cls, confidence: FloatArray, correct: BoolArray) -> RankedNodes:
        """Sort nodes by confidence; those of equal confidence end together."""
        order = np.argsort(-confidence, kind="stable")
        ranked = confidence[order]
        end = np.searchsorted(-ranked, -ranked, side="right")
        return cls(ranked, np.cumsum(~correct[order]), end)


def confidences(probs: FloatArray) -> FloatArray:
    """Return the confidence of each node, (n_nodes,), in float64 so that thresholds are exact."""
    return row_maxima(probs).astype(np.float64)


def sums_above(
    thresholds: FloatArray, confidence: FloatArray, amounts: FloatArray | None = None
) -> npt.NDArray[Any]:
    """Return how many nodes reach each threshold, or the sum of their amounts; (n_thresholds,)."""
    order = np.argsort(thresholds, kind="stable")
    n_below = np.searchsorted(thresholds[order], confidence, side="right")
    sums = np.bincount(n_below, amounts, thresholds.size + 1)
    above = np.empty(thresholds.size, dtype=sums.dtype)
    above[order] = np.cumsum(sums[::-1])[::-1][1:]
    return above


def check_calibration(probs: Any, labels: Any, nodes: Any) -> tuple[FloatArray, IntArray, IntArray]:
    """Return checked probabilities, the calibration nodes (sorted) and their labels only.

    Without ``nodes`` these are all nodes whose label is not -1.
    """
    checked = check_probs(probs)
    n_nodes, n_classes = checked.shape
    all_labels = check_labels(labels, n_nodes)
    chosen = check_nodes(all_labels != UNKNOWN if nodes is None else nodes, n_nodes)
    if chosen.size == 0:
        raise InputError(
            "there is no calibration node; pass nodes with known labels that the model and its "
            "calibrator have not seen."
        )
    return checked, chosen, check_used_labels(all_labels, chosen, n_classes, "labels of nodes")


def rank_nodes(probs: FloatArray, nodes: IntArray, labels: IntArray) -> RankedNodes:
    """Rank the calibration nodes; ``labels`` (n,) are those of ``nodes`` (n,)."""
    chosen = probs[nodes]
    return RankedNodes.of(confidences(chosen), chosen.argmax(axis=1) == labels)
