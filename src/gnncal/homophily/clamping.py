"""Labels that support and agreement use in place of a node's prediction."""

from __future__ import annotations

from gnncal.core.arrays import IntArray
from gnncal.core.checks import check_known_labels
from gnncal.core.errors import InputError
from gnncal.core.learned import Array
from gnncal.core.nodes import Nodes
from gnncal.homophily.base import Weights

CLAMPED_LABELS = Array("nodes", low=-1, high="K-1", whole=True)


def clamped_labels(nodes: Nodes) -> Weights:
    """Return the training labels, to be recalled on the fitted graph."""
    if nodes.train_nodes.size == 0:
        raise InputError("clamp_train_labels=True relies on training labels; pass train_nodes.")
    return {"clamped_labels": nodes.train_label_vector()}


def labels_to_rely_on(weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> IntArray | None:
    """(n_nodes,) the labels given, else those recalled on the fitted graph; None without any."""
    if nodes.known_labels is not None:
        return nodes.known_labels
    if is_fitted_graph and "clamped_labels" in weights:
        return check_known_labels(weights["clamped_labels"], nodes.n_nodes, nodes.n_classes)
    return None
