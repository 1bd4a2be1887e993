"""The data that a fit may see, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.checks import (
    UNKNOWN,
    check_labels,
    check_logits,
    check_nodes,
    check_used_labels,
    warn_if_probabilities,
)
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.core.pyg import as_graph


@dataclass(frozen=True)
class FitData:
    """Logits of every node, labels of the calibration and training nodes only.

    Labels of other nodes are not in here, so no method can leak them.
    """

    logits: FloatArray  # (n_nodes, n_classes)
    graph: Graph | None
    nodes: IntArray  # (n,) calibration nodes, sorted
    labels: IntArray  # (n,) their labels
    train_nodes: IntArray  # (m,) training nodes, sorted; may be empty
    train_labels: IntArray  # (m,)

    @property
    def n_classes(self) -> int:
        """K, the number of columns of the logits."""
        return int(self.logits.shape[1])

    @property
    def n_nodes(self) -> int:
        """N, the number of rows of the logits."""
        return int(self.logits.shape[0])

    def train_label_vector(self) -> IntArray:
        """Return the training labels (n_nodes,), -1 elsewhere."""
        return self._vector(self.train_nodes, self.train_labels)

    def known_label_vector(self) -> IntArray:
        """Return the training and calibration labels (n_nodes,), -1 elsewhere."""
        known = self.train_label_vector()
        known[self.nodes] = self.labels
        return known

    def _vector(self, nodes: IntArray, labels: IntArray) -> IntArray:
        vector = np.full(self.n_nodes, -1, dtype=np.int64)
        vector[nodes] = labels
        return vector


def check_fit_data(logits: Any, labels: Any, graph: Any, nodes: Any, train_nodes: Any) -> FitData:
    """Check everything a user hands to ``fit`` and keep only what it may see."""
    checked = check_logits(logits)
    n_nodes, n_classes = checked.shape
    if n_nodes == 0:
        raise InputError("logits has 0 sample(s), that is no nodes; pass at least one.")
    warn_if_probabilities(checked)
    graph = check_graph(graph, n_nodes)  # first: logits of some nodes only are a common mistake
    all_labels = check_labels(labels, n_nodes)
    train = check_nodes([] if train_nodes is None else train_nodes, n_nodes, name="train_nodes")
    if nodes is None:
        eligible = all_labels != UNKNOWN
        if graph is not None and eligible.all():
            raise InputError(
                "nodes is missing and every node of the graph has a label, so the labels of test "
                "nodes would be fitted too; pass the calibration nodes, usually the validation "
                "split, as nodes, or write -1 for labels that must not be used."
            )
        eligible[train] = False
        chosen: IntArray = np.flatnonzero(eligible)
        if chosen.size == 0:
            raise InputError(
                "no node outside train_nodes has a label; calibration needs labelled nodes "
                "that the model was not trained on."
            )
    else:
        chosen = check_nodes(nodes, n_nodes)
        if chosen.size == 0:
            raise InputError("nodes is empty; pass at least one calibration node.")
    shared = np.intersect1d(chosen, train, assume_unique=True) if train.size else train
    if shared.size:
        raise InputError(
            f"nodes and train_nodes share {shared.size} nodes (first: {int(shared[0])}); a model "
            "is calibrated on nodes it was not trained on, so remove them from one of the two."
        )
    return FitData(
        logits=checked,
        graph=graph,
        nodes=chosen,
        labels=check_used_labels(all_labels, chosen, n_classes, "labels of nodes"),
        train_nodes=train,
        train_labels=check_used_labels(all_labels, train, n_classes, "labels of train_nodes"),
    )


def check_graph(graph: Any, n_nodes: int) -> Graph | None:
    """Check that a graph, if there is one, has as many nodes as the logits have rows."""
    checked = as_graph(graph)
    if checked is not None and checked.n_nodes != n_nodes:
        raise InputError(
            f"the graph has {checked.n_nodes} nodes but logits has {n_nodes} rows; pass the logits "
            "of every node of this very graph. Logits of edges (link prediction) have a row for "
            "each edge: leave graph out, pass a label for each edge and method='hts'."
        )
    return checked
