"""Conformity scores: how strange each class would be for each node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import Constraint
from gnncal.core.graph import Graph


class ConformalScore(ABC):
    """Base of the scores. A subclass is a frozen dataclass of plain values.

    The score of a class must depend on a node's probabilities, its own random number and the
    graph only, never on a label: then calibration nodes and other nodes are treated alike.
    """

    needs_graph: ClassVar[bool] = False
    constraints: ClassVar[dict[str, Constraint]] = {}  # what each field may be

    def check(self) -> None:
        """Raise an InputError that names the first field that cannot be used."""
        for name, constraint in self.constraints.items():
            constraint.check(f"{name} of {type(self).__name__}", getattr(self, name))

    @abstractmethod
    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes); small is likely.

        ``uniform`` (n_nodes,) has one random number in [0, 1) for each node.
        """


def ranked_mass(probs: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Order classes from the most to the least probable, earlier columns first among equals.

    Returns
    -------
    order : (n_nodes, n_classes) classes by rank.
    ordered : (n_nodes, n_classes) their probabilities.
    mass : (n_nodes, n_classes) their sums up to and including each rank.

    """
    order = np.argsort(-probs, axis=1, kind="stable")
    ordered = np.take_along_axis(probs, order, axis=1).astype(np.float64)
    return order, ordered, np.cumsum(ordered, axis=1)


def by_class(order: IntArray, ranked: FloatArray) -> FloatArray:
    """Values by rank as values by class, both (n_nodes, n_classes)."""
    values = np.empty_like(ranked)
    np.put_along_axis(values, order, ranked, axis=1)
    return values
