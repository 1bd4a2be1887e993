"""Small calibration tasks on every kind of graph, on which laws are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gnncal.calibrators.base import AnyCalibrator, Calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.graph import Graph

Kind = Literal["plain", "float32", "sharp", "tied", "constant", "extreme"]
KINDS: tuple[Kind, ...] = ("plain", "float32", "sharp", "tied", "constant", "extreme")
LARGEST = 40  # nodes of a random task
MOST_CLASSES = 5
N_FEATURES = 3


@dataclass(frozen=True, eq=False)
class Task:
    """Logits and labels of the nodes of a graph, and a split of these nodes.

    Attributes
    ----------
    logits, labels, edges, features, calibration_nodes, train_nodes : ndarray
        The arguments of ``fit``; ``edges`` and ``features`` make up the ``graph``.

    """

    logits: FloatArray
    labels: IntArray
    edges: IntArray
    features: FloatArray
    calibration_nodes: IntArray
    train_nodes: IntArray

    @property
    def graph(self) -> Graph:
        """A new graph object in each access."""
        return Graph(self.edges, len(self.logits), self.features)

    def fit(self, calibrator: AnyCalibrator, **changes: Any) -> AnyCalibrator:
        """Fit a calibrator to this task; ``changes`` replace arguments of its ``fit``."""
        names = ("logits", "labels", "graph", "calibration_nodes", "train_nodes")
        return calibrator.fit(**{**{name: getattr(self, name) for name in names}, **changes})

    def probs(self, calibrator: Calibrator, **changes: Any) -> FloatArray:
        """Fit a calibrator and return its probabilities; ``changes`` as in :meth:`fit`."""
        fitted = self.fit(calibrator, **changes)
        given = changes.get("logits", self.logits), changes.get("graph", self.graph)
        return fitted.predict_proba(*given)


@dataclass(frozen=True)
class TaskFamily:
    """The random tasks on which a law is checked."""

    kinds: tuple[Kind, ...] = KINDS  # of logits
    smallest: int = 12  # nodes
    fewest: int = 1  # calibration nodes


def random_task(seed: int, family: TaskFamily | None = None) -> Task:
    """Return a small random calibration task, which the seed determines.

    The graph is directed and may have isolated nodes, self-loops and repeated edges.

    Parameters
    ----------
    seed : int
        Seed of the task; successive seeds give different kinds of logits.
    family : TaskFamily or None
        Kinds of logits and smallest sizes; None allows all.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.testing.random_task(3)
    >>> task.labels.shape == (len(task.logits),)
    True

    """
    family = TaskFamily() if family is None else family
    generator = np.random.default_rng(seed)
    n_nodes = int(generator.integers(family.smallest, LARGEST, endpoint=True))
    return make_task(
        generator,
        n_nodes,
        n_classes=int(generator.integers(2, MOST_CLASSES, endpoint=True)),
        kind=family.kinds[seed % len(family.kinds)],
        n_edges=int(generator.integers(0, 4 * n_nodes, endpoint=True)),
        n_calibration=int(generator.integers(family.fewest, n_nodes // 2, endpoint=True)),
    )


def make_task(
    generator: np.random.Generator,
    n_nodes: int,
    n_classes: int,
    kind: Kind,
    n_edges: int,
    n_calibration: int,
) -> Task:
    """A task of these sizes: a directed multigraph, noisy labels, a quarter of training nodes."""
    logits = _logits(kind, generator, (n_nodes, n_classes))
    noisy = logits + np.abs(logits).mean() * generator.gumbel(size=logits.shape)
    n_train = n_nodes // 4
    order = generator.permutation(n_nodes)
    return Task(
        logits=logits,
        labels=noisy.argmax(axis=1),
        edges=generator.integers(0, n_nodes, size=(2, n_edges)),
        features=generator.normal(size=(n_nodes, N_FEATURES)),
        calibration_nodes=np.sort(order[n_train : n_train + n_calibration]),
        train_nodes=np.sort(order[:n_train]),
    )


def small_task(n_nodes: int = 60, n_classes: int = 3, *, noise: float = 3.0) -> Task:
    """Return a task of fixed numbers; without noise in the labels every prediction is right."""
    generator = np.random.default_rng(7)
    logits = 2 * generator.normal(size=(n_nodes, n_classes))
    return Task(
        logits=logits,
        labels=(logits + noise * generator.normal(size=logits.shape)).argmax(axis=1),
        edges=generator.integers(0, n_nodes, size=(2, 4 * n_nodes)),
        features=generator.normal(size=(n_nodes, 4)),
        calibration_nodes=np.arange(n_nodes // 2),
        train_nodes=np.arange(n_nodes // 2, 3 * n_nodes // 4),
    )


def _logits(kind: Kind, generator: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    logits = generator.normal(size=shape)
    if kind == "tied":
        return np.round(logits)
    if kind == "float32":
        return (3 * logits).astype(np.float32)
    if kind == "constant":
        return np.zeros(shape)
    return {"sharp": 50, "extreme": 1e30, "plain": 2}[kind] * logits
