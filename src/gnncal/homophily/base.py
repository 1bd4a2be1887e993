"""The contract of a homophily estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy.typing as npt

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import Constraint
from gnncal.core.errors import InputError
from gnncal.core.learned import LearnedTable
from gnncal.nodes import Nodes

Weights = dict[str, npt.NDArray[Any]]


class CannotLearnError(InputError):
    """The data lack what an estimator learns from; the message says what is missing."""


class HomophilyEstimator(ABC):
    """Base of estimators of the share of each node's neighbours that have its class.

    A subclass is a frozen dataclass whose fields are plain values. ``learn`` reads the labels that
    a fit may see and returns weights; ``estimate`` turns weights and nodes into estimates.

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
    >>> from gnncal.homophily.base import HomophilyEstimator
    >>> @dataclass(frozen=True)
    ... class Constant(HomophilyEstimator):
    ...     value: float = 0.8
    ...     def learn(self, nodes):
    ...         return {}
    ...     def estimate(self, weights, nodes, *, is_fitted_graph):
    ...         return np.full(nodes.n_nodes, self.value)
    >>> Constant(0.6)
    Constant(value=0.6)

    """

    constraints: ClassVar[dict[str, Constraint]] = {}
    learned: ClassVar[LearnedTable] = {}

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if field.name in self.constraints:
                self.constraints[field.name].check(field.name, getattr(self, field.name))

    @property
    def saved_as(self) -> HomophilyEstimator:
        """The estimator that files and records name; a wrapper gives the one inside."""
        return self

    def __sklearn_clone__(self) -> Self:
        return self  # it cannot change, so a clone of its calibrator may hold it too

    @abstractmethod
    def learn(self, nodes: Nodes) -> Weights:
        """Learn what ``estimate`` needs from the labels that a fit may see.

        Parameters
        ----------
        nodes : Nodes
            Logits, graph, and the labels of calibration and training nodes.

        Returns
        -------
        dict of str to ndarray
            Named arrays, all that ``estimate`` needs and all that is saved.

        Raises
        ------
        CannotLearnError
            If the nodes lack what the estimator needs.

        """

    @abstractmethod
    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return the estimated homophily h^ of each node.

        Parameters
        ----------
        weights : dict of str to ndarray
            What ``learn`` has returned.
        nodes : Nodes
            Logits and graph on which the estimate is wanted, and labels to rely on.
        is_fitted_graph : bool
            Whether this is the graph the weights were learned on.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Numbers in [0, 1]; NaN where there is nothing to estimate from.

        Raises
        ------
        InputError
            If the estimator cannot be used on this graph.

        """
