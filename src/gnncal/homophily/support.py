"""Soft support: how much probability a node's neighbours give to its predicted class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import FLAG, choice
from gnncal.core.data import FitData
from gnncal.core.graph import Side
from gnncal.core.probability import softmax
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.clamping import clamped_labels, labels_to_rely_on
from gnncal.homophily.share import neighbour_class_share


@dataclass(frozen=True)
class Support(HomophilyEstimator):
    r"""Homophily estimated by the probability that neighbours give to a node's predicted class.

    .. math:: \hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} p_{j,\hat y_i}

    Nothing is learned, so calibration and test nodes are treated alike and nothing can leak.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="in"
        ``"in"`` averages over the nodes that send to a node, ``"out"`` over those it sends to,
        ``"both"`` over both together. Multi-edges count as often as they are listed.
    clamp_train_labels : bool, default=False
        Use the training nodes' labels in place of their predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import HoTS
    >>> from gnncal.homophily import Support
    >>> from gnncal.lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(400, 0.8))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = HoTS(homophily=Support(side="both"))
    >>> calibrator = calibrator.fit(logits, sample.labels, graph, nodes=range(200))
    >>> round(float(calibrator.homophily_.mean()), 2)  # the true one is 0.8
    0.65

    """

    side: Side = "in"
    clamp_train_labels: bool = False

    constraints: ClassVar = {"side": choice("in", "out", "both"), "clamp_train_labels": FLAG}

    def learn(self, data: FitData) -> Weights:
        """Remember the training labels, if they are to be used."""
        return clamped_labels(data) if self.clamp_train_labels else {}

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Average the neighbours' probabilities in one pass over the edges of each side."""
        probs, known = softmax(situation.logits), labels_to_rely_on(weights, situation)

        def column(c: int) -> FloatArray:
            return np.where(known < 0, probs[:, c], known == c)

        predictions = situation.logits.argmax(axis=1)
        return neighbour_class_share(situation.graph, predictions, column, side=self.side)
