"""Agreement: the share of neighbours that are predicted to be of a node's predicted class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.data import FitData
from gnncal.core.graph import Side
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.share import neighbour_class_share


@dataclass(frozen=True)
class Agreement(HomophilyEstimator):
    r""":math:`\hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} 1[\hat y_j = \hat y_i]`, labels clamped.

    Nothing is learned, so calibration and test nodes are treated alike and nothing can leak.
    """

    side: Side = "in"

    def learn(self, data: FitData) -> Weights:
        """Nothing to learn."""
        return {}

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """One pass over the edges."""
        predictions, known = situation.logits.argmax(axis=1), situation.known_labels
        votes = np.where(known < 0, predictions, known)

        def column(c: int) -> FloatArray:
            return (votes == c).astype(np.float64)

        return neighbour_class_share(situation.graph, predictions, column, side=self.side)
