"""Weights that are learned once and used by several calibrators."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np

from gnncal import Nodes
from gnncal.calibrators.homophily import HomophilyEstimator, Weights
from gnncal_lab.arrays import FloatArray


@dataclass
class _Memory:
    """The last nodes that were learned from, and what was learned."""

    arrays: tuple[Any, ...] | None = None
    weights: Weights = field(default_factory=dict)
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Shared(HomophilyEstimator):
    """An estimator that learns once for several calibrators of the same data.

    After ``shared = Shared(Predictor())``, the calibrators ``HoTS(homophily=shared)`` and
    ``HomophilyOnly(homophily=shared)``, fitted on the same logits, labels and graph, train one
    predictor. On other data it learns again and keeps only the new result. Saved calibrators and
    records name the estimator inside.

    Parameters
    ----------
    estimator : HomophilyEstimator
        The estimator whose result is shared.

    Examples
    --------
    >>> from gnncal.calibrators.homophily import name_of
    >>> from gnncal.calibrators.homophily import Predictor
    >>> from gnncal_lab.homophily import Shared
    >>> name_of(Shared(Predictor()))
    'predictor'

    """

    estimator: HomophilyEstimator
    _memory: _Memory = field(default_factory=_Memory, init=False, repr=False, compare=False)

    @property
    def cpu_seconds(self) -> float:
        """CPU time that learning from the last data took; 0 before anything was learned."""
        return self._memory.cpu_seconds

    @property
    def saved_as(self) -> HomophilyEstimator:
        """The estimator inside."""
        return self.estimator.saved_as

    def learn(self, nodes: Nodes) -> Weights:
        """Return what was learned from these data, learning now if they are new."""
        labels = (nodes.calibration_nodes, nodes.labels, nodes.train_nodes, nodes.train_labels)
        arrays = (nodes.graph, *labels, nodes.logits)
        if self._memory.arrays is None or not _are_same(self._memory.arrays, arrays):
            started = process_time()
            self._memory.weights = self.estimator.learn(nodes)
            self._memory.cpu_seconds = process_time() - started
            self._memory.arrays = arrays
        return self._memory.weights

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return the estimate of the estimator inside."""
        return self.estimator.estimate(weights, nodes, is_fitted_graph=is_fitted_graph)


def _are_same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Whether both are the same graph and equal arrays."""
    return first[0] is second[0] and all(map(np.array_equal, first[1:], second[1:]))
