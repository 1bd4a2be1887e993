"""Hypothesis strategies: small calibration tasks on every kind of graph."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import gnncal


@dataclass(frozen=True, eq=False)
class Task:
    logits: np.ndarray
    labels: np.ndarray
    edges: np.ndarray
    features: np.ndarray
    nodes: np.ndarray
    train_nodes: np.ndarray

    @property
    def graph(self):
        return gnncal.Graph(self.edges, len(self.logits), self.features)

    def fit(self, calibrator, **changes):
        arguments = {"logits": self.logits, "labels": self.labels, "graph": self.graph}
        splits = {"nodes": self.nodes, "train_nodes": self.train_nodes}
        return calibrator.fit(**{**arguments, **splits, **changes})


def _logits(kind, generator, shape):
    logits = generator.normal(size=shape)
    if kind == "sharp":
        return 50 * logits
    if kind == "extreme":
        return 1e30 * logits
    if kind == "tied":
        return np.round(logits)
    if kind == "constant":
        return np.zeros(shape)
    if kind == "float32":
        return (3 * logits).astype(np.float32)
    return 2 * logits


KINDS = ("plain", "float32", "sharp", "tied", "constant", "extreme")


@st.composite
def tasks(draw, kinds=KINDS, smallest=12, largest=40, max_classes=5, fewest=1):
    """Directed multigraphs with self-loops and isolated nodes; any split with two parts.

    There are at least ``fewest`` calibration nodes.
    """
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_nodes = draw(st.integers(smallest, largest))
    n_classes = draw(st.integers(2, max_classes))
    kind = draw(st.sampled_from(kinds))
    n_edges = draw(st.integers(0, 4 * n_nodes))
    logits = _logits(kind, generator, (n_nodes, n_classes))
    noisy = logits + np.abs(logits).mean() * generator.gumbel(size=logits.shape)
    n_train, n_val = n_nodes // 4, draw(st.integers(fewest, n_nodes // 2))
    order = generator.permutation(n_nodes)
    return Task(
        logits=logits,
        labels=noisy.argmax(axis=1),
        edges=generator.integers(0, n_nodes, size=(2, n_edges)),
        features=generator.normal(size=(n_nodes, 3)),
        nodes=np.sort(order[n_train : n_train + n_val]),
        train_nodes=np.sort(order[:n_train]),
    )


def small_task(n_nodes=60, n_classes=3, *, noise=3.0):
    """A task of fixed numbers; without noise in the labels every prediction is right."""
    generator = np.random.default_rng(7)
    logits = 2 * generator.normal(size=(n_nodes, n_classes))
    return Task(
        logits=logits,
        labels=(logits + noise * generator.normal(size=logits.shape)).argmax(axis=1),
        edges=generator.integers(0, n_nodes, size=(2, 4 * n_nodes)),
        features=generator.normal(size=(n_nodes, 4)),
        nodes=np.arange(n_nodes // 2),
        train_nodes=np.arange(n_nodes // 2, 3 * n_nodes // 4),
    )
