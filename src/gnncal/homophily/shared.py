"""Weights that are learned once and used by several calibrators."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import process_time

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.data import FitData
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights


@dataclass
class _Memory:
    """The last data that were learned from, and what was learned."""

    data: FitData | None = None
    weights: Weights = field(default_factory=dict)
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Shared(HomophilyEstimator):
    """An estimator that learns once for several calibrators of the same data.

    With ``shared = Shared(Predictor())``, ``HoTS(homophily=shared)`` and
    ``HomophilyOnly(homophily=shared)`` fitted on the same logits, labels and graph train one
    predictor. Other data are learned anew; only the last are remembered. A calibrator that is
    saved, or whose parameters are written down, names the estimator inside.

    Parameters
    ----------
    estimator : HomophilyEstimator
        The estimator whose result is shared.

    Examples
    --------
    >>> from gnncal.homophily import Predictor, Shared, name_of
    >>> name_of(Shared(Predictor()))
    'predictor'

    """

    estimator: HomophilyEstimator
    _memory: _Memory = field(default_factory=_Memory, init=False, repr=False, compare=False)

    @property
    def cpu_seconds(self) -> float:
        """CPU time that learning from the last data took; 0 before anything was learned."""
        return self._memory.cpu_seconds

    def learn(self, data: FitData) -> Weights:
        """Return what was learned from these data, learning now if they are new."""
        if self._memory.data is None or not _are_same(self._memory.data, data):
            started = process_time()
            self._memory.weights = self.estimator.learn(data)
            self._memory.cpu_seconds = process_time() - started
            self._memory.data = data
        return self._memory.weights

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Return the estimate of the estimator inside."""
        return self.estimator.estimate(weights, situation)


def _are_same(first: FitData, second: FitData) -> bool:
    return first.graph is second.graph and all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("nodes", "labels", "train_nodes", "train_labels", "logits")
    )
