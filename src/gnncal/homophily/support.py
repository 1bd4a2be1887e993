"""Soft support: how much probability a node's neighbours give to its predicted class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.data import FitData
from gnncal.core.graph import Side
from gnncal.core.probability import softmax
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.share import neighbour_class_share


@dataclass(frozen=True)
class Support(HomophilyEstimator):
    r""":math:`\hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} p_{j,\hat y_i}`, known labels clamped.

    Nothing is learned, so calibration and test nodes are treated alike and nothing can leak.
    """

    side: Side = "in"

    def learn(self, data: FitData) -> Weights:
        """Nothing to learn."""
        return {}

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """One pass over the edges."""
        probs, known = softmax(situation.logits), situation.known_labels

        def column(c: int) -> FloatArray:
            return np.where(known < 0, probs[:, c], known == c)

        predictions = situation.logits.argmax(axis=1)
        return neighbour_class_share(situation.graph, predictions, column, side=self.side)
