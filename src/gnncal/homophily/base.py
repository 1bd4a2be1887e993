"""The contract of a homophily estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.graph import Graph

Weights = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Situation:
    """Where an estimate is wanted."""

    logits: FloatArray  # (n_nodes, n_classes)
    graph: Graph
    known_labels: IntArray  # (n_nodes,) labels to rely on, -1 where none
    is_fitted_graph: bool  # whether this is the graph the weights were learned on


class HomophilyEstimator(ABC):
    """Learns weights from the labels a fit may see; turns a situation into estimates."""

    @abstractmethod
    def learn(self, data: FitData) -> Weights:
        """Named arrays, all that ``estimate`` needs and all that is saved."""

    @abstractmethod
    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """h^ of shape (n_nodes,), in [0, 1]; NaN where there is nothing to estimate from."""
