"""Labels that support and agreement use in place of a node's prediction."""

from __future__ import annotations

import numpy as np

from gnncal.core.arrays import IntArray
from gnncal.core.checks import check_known_labels
from gnncal.core.data import FitData
from gnncal.core.errors import InputError
from gnncal.core.learned import Array
from gnncal.homophily.base import Situation, Weights

CLAMPED_LABELS = Array("nodes", low=-1, high="K-1", whole=True)


def clamped_labels(data: FitData) -> Weights:
    """Return the training labels, to be recalled on the fitted graph."""
    if data.train_nodes.size == 0:
        raise InputError("clamp_train_labels=True relies on training labels; pass train_nodes.")
    return {"clamped_labels": data.train_label_vector()}


def labels_to_rely_on(weights: Weights, situation: Situation) -> IntArray:
    """(n_nodes,) the labels given, else those recalled on the fitted graph; -1 where none."""
    if situation.known_labels is not None:
        return situation.known_labels
    if situation.is_fitted_graph and "clamped_labels" in weights:
        n_nodes, n_classes = situation.logits.shape
        return check_known_labels(weights["clamped_labels"], n_nodes, n_classes)
    return np.full(len(situation.logits), -1)
