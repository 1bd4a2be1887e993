"""Conformity scores: how unlikely each class is for each node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray, as_numpy
from gnncal.core.compiled import in_parallel
from gnncal.core.constraints import Constraint
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph

ROWS_AT_ONCE = 1 << 12


class ConformalScore(ABC):
    """Base of the scores that prediction sets are made of.

    A subclass is a frozen dataclass of plain values. The score of a class must depend on a node's
    probabilities, its own random number and the graph only, never on a label: then calibration
    nodes and other nodes are treated alike.

    Attributes
    ----------
    needs_graph : bool
        Whether the score looks at the graph.
    constraints : dict
        What each field may be.

    Examples
    --------
    A score that is one minus the probability:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from gnncal.decisions import ConformalClassifier, ConformalScore
    >>> @dataclass(frozen=True)
    ... class Improbability(ConformalScore):
    ...     def scores(self, probs, uniform, graph):
    ...         return 1 - probs
    >>> conformal = ConformalClassifier(score=Improbability(), coverage=0.5)
    >>> conformal = conformal.fit([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], [0, 0, 0])
    >>> round(conformal.threshold_, 2)
    0.2

    """

    needs_graph: ClassVar[bool] = False
    constraints: ClassVar[dict[str, Constraint]] = {}

    def check(self) -> None:
        """Check the fields, which ``ConformalClassifier.fit`` does first.

        Raises
        ------
        InputError
            If a field cannot be used; the message names the first one.

        """
        for name, constraint in self.constraints.items():
            constraint.check(f"{name} of {type(self).__name__}", getattr(self, name))

    @abstractmethod
    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class; small is likely.

        Parameters
        ----------
        probs : ndarray of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        uniform : ndarray of shape (n_nodes,)
            One random number in [0, 1) for each node.
        graph : Graph or None
            The graph of these nodes.

        Returns
        -------
        ndarray of shape (n_nodes, n_classes)
            Scores.

        Raises
        ------
        InputError
            If the score needs a graph and there is none.

        """


def check_scores(score: ConformalScore, scores: Any, shape: tuple[int, int]) -> FloatArray:
    """Return what a score has computed, a number for each class of each node, or say what it is.

    A comparison with NaN is false, so that such a class would silently be in no set.
    """
    name, array = type(score).__name__, as_numpy(scores)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise InputError(
            f"the scores of {name} have shape {array.shape} and dtype {array.dtype}; expected one "
            f"number for each node and class, shape {shape}."
        )
    nan = np.isnan(array)
    if nan.any():
        bad = nan.any(axis=1)
        raise InputError(
            f"the scores of {name} are NaN for {int(bad.sum())} of {len(array)} nodes (first: row "
            f"{int(bad.argmax())}); a score must be a number for every class."
        )
    return array


def by_rows(
    function: Callable[[FloatArray, FloatArray], FloatArray], probs: FloatArray, uniform: FloatArray
) -> FloatArray:
    """Return scores that look at each row alone, computed for some rows after the other.

    Every core takes part, and temporaries stay in the cache.
    """
    scores = np.empty(probs.shape)
    starts = range(0, len(probs), ROWS_AT_ONCE)

    def work(start: int) -> None:
        rows = slice(start, start + ROWS_AT_ONCE)
        scores[rows] = function(probs[rows], uniform[rows])

    in_parallel(work, starts)
    return scores


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
