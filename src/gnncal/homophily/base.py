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
    """The graph on which an estimate is wanted."""

    logits: FloatArray  # (n_nodes, n_classes)
    graph: Graph
    known_labels: IntArray | None  # (n_nodes,) labels to rely on, -1 where none; None: not given
    is_fitted_graph: bool  # whether this is the graph the weights were learned on


class HomophilyEstimator(ABC):
    """Estimates the share of each node's neighbours that have its class.

    A subclass is a frozen dataclass whose fields are plain values. ``learn`` reads the labels that
    a fit may see and returns weights; ``estimate`` turns weights and a situation into estimates.
    """

    constraints: ClassVar[dict[str, Constraint]] = {}  # what each field may be
    learned: ClassVar[LearnedTable] = {}  # names and shapes of the weights

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if field.name in self.constraints:
                self.constraints[field.name].check(field.name, getattr(self, field.name))

    def __sklearn_clone__(self) -> Self:
        return self  # it cannot change, so a clone of its calibrator may hold it too

    @abstractmethod
    def learn(self, data: FitData) -> Weights:
        """Named arrays, all that ``estimate`` needs and all that is saved.

        Raises a :class:`CannotLearnError` where the data lack what it needs.
        """

    @abstractmethod
    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """h^ of shape (n_nodes,), in [0, 1]; NaN where there is nothing to estimate from."""
