"""The contract of a homophily estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy.typing as npt

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import Constraint
from gnncal.core.data import FitData
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.core.learned import LearnedTable

Weights = dict[str, npt.NDArray[Any]]


class CannotLearnError(InputError):
    """The data lack what an estimator learns from; the message says what is missing."""


@dataclass(frozen=True)
class Situation:
    """The graph on which an estimate is wanted.

    Attributes
    ----------
    logits : ndarray of shape (n_nodes, n_classes)
        Raw scores of every node.
    graph : Graph
        The graph of these nodes.
    known_labels : ndarray of shape (n_nodes,) or None
        Labels to rely on, -1 where there is none; None if they are not given.
    is_fitted_graph : bool
        Whether this is the graph the weights were learned on.

    """

    logits: FloatArray
    graph: Graph
    known_labels: IntArray | None
    is_fitted_graph: bool


class HomophilyEstimator(ABC):
    """Base of estimators of the share of each node's neighbours that have its class.

    A subclass is a frozen dataclass whose fields are plain values. ``learn`` reads the labels that
    a fit may see and returns weights; ``estimate`` turns weights and a situation into estimates.

    Attributes
    ----------
    constraints : dict
        What each field may be.
    learned : dict
        Names and shapes of the weights.

    Examples
    --------
    An estimator that gives every node the same homophily:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from gnncal.homophily import HomophilyEstimator
    >>> @dataclass(frozen=True)
    ... class Constant(HomophilyEstimator):
    ...     value: float = 0.8
    ...     def learn(self, data):
    ...         return {}
    ...     def estimate(self, weights, situation):
    ...         return np.full(len(situation.logits), self.value)
    >>> Constant(0.6)
    Constant(value=0.6)

    """

    constraints: ClassVar[dict[str, Constraint]] = {}
    learned: ClassVar[LearnedTable] = {}

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if field.name in self.constraints:
                self.constraints[field.name].check(field.name, getattr(self, field.name))

    def __sklearn_clone__(self) -> Self:
        return self  # it cannot change, so a clone of its calibrator may hold it too

    @abstractmethod
    def learn(self, data: FitData) -> Weights:
        """Learn what ``estimate`` needs from the labels that a fit may see.

        Parameters
        ----------
        data : FitData
            Logits, graph, and the labels of calibration and training nodes.

        Returns
        -------
        dict of str to ndarray
            Named arrays, all that ``estimate`` needs and all that is saved.

        Raises
        ------
        CannotLearnError
            If the data lack what the estimator needs.

        """

    @abstractmethod
    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Return the estimated homophily h^ of each node.

        Parameters
        ----------
        weights : dict of str to ndarray
            What ``learn`` has returned.
        situation : Situation
            The graph on which the estimate is wanted.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Numbers in [0, 1]; NaN where there is nothing to estimate from.

        Raises
        ------
        InputError
            If the estimator cannot be used on this graph.

        """
