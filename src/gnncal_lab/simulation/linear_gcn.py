"""A one-layer linear graph network: softmax regression on the mean over a node and its senders."""

from __future__ import annotations

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import softmax
from gnncal.graph.graph import Graph
from gnncal.math.solvers import adam
from gnncal_lab.datasets.splits import Split
from gnncal_lab.simulation.csbm import GraphSample
from gnncal_lab.simulation.streams import stream

EPOCHS, LEARNING_RATE = 500, 0.01  # of the paper's released code, without weight decay
SMALLEST_PROBABILITY = 1e-300


def split_nodes(
    n_nodes: int, *, train: float = 0.2, val: float = 0.1, random_state: int = 0
) -> Split:
    """Return a random split, by default the paper's 20/10/70."""
    order = stream("split", random_state).permutation(n_nodes)
    cuts = [int(train * n_nodes), int((train + val) * n_nodes)]
    return Split(*(np.sort(part) for part in np.split(order, cuts)))


def aggregate(graph: Graph) -> FloatArray:
    """x_bar_i = (x_i + sum of the senders' x_j) / (d_i + 1), shape (n_nodes, n_features)."""
    features = graph.features
    assert features is not None
    return (graph.adjacency() @ features + features) / (graph.in_degree[:, None] + 1)


def train_linear_gcn(
    sample: GraphSample, train: IntArray, n_classes: int, *, random_state: int = 0
) -> FloatArray:
    """Logits (n_nodes, n_classes) after full-batch Adam on the cross-entropy of ``train``."""
    means = aggregate(sample.graph)
    inputs = np.hstack([means, np.ones((len(means), 1))])  # the last weight is the bias
    rows, targets = inputs[train], np.eye(n_classes)[sample.labels[train]]
    shape = (inputs.shape[1], n_classes)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        probs = softmax(rows @ flat.reshape(shape))
        at_label = np.maximum((probs * targets).sum(axis=1), SMALLEST_PROBABILITY)
        return -float(np.log(at_label).mean()), (rows.T @ (probs - targets) / len(rows)).ravel()

    limit = np.sqrt(6.0 / (shape[0] - 1 + n_classes))  # Glorot
    initial = stream("weights", random_state).uniform(-limit, limit, shape)
    initial[-1] = 0.0
    run = adam(loss, initial.ravel(), max_epochs=EPOCHS, patience=None, learning_rate=LEARNING_RATE)
    return inputs @ run.parameters.reshape(shape)
