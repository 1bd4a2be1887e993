"""Agreement: the share of neighbours that are predicted to be of a node's predicted class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import FLAG, choice
from gnncal.core.data import FitData
from gnncal.core.graph import Side
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.clamping import clamped_labels, labels_to_rely_on
from gnncal.homophily.share import neighbour_class_share


@dataclass(frozen=True)
class Agreement(HomophilyEstimator):
    r"""Homophily estimated by the share of neighbours with the same predicted class.

    .. math:: \hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} 1[\hat y_j = \hat y_i]

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
    Node 0 has two neighbours, and one of them predicts the same class:

    >>> import numpy as np
    >>> from gnncal import Graph
    >>> from gnncal.homophily import Agreement
    >>> from gnncal.homophily.base import Situation
    >>> graph = Graph([[1, 2], [0, 0]])
    >>> situation = Situation(np.array([[2.0, 0], [1, 0], [0, 1]]), graph, None, True)
    >>> Agreement().estimate({}, situation)
    array([0.5, nan, nan])

    """

    side: Side = "in"
    clamp_train_labels: bool = False

    constraints: ClassVar = {"side": choice("in", "out", "both"), "clamp_train_labels": FLAG}

    def learn(self, data: FitData) -> Weights:
        """Remember the training labels, if they are to be used."""
        return clamped_labels(data) if self.clamp_train_labels else {}

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Count neighbours of the same class in one pass over the edges of each side."""
        predictions, known = situation.logits.argmax(axis=1), labels_to_rely_on(weights, situation)
        votes = np.where(known < 0, predictions, known)

        def column(c: int) -> FloatArray:
            return (votes == c).astype(np.float64)

        return neighbour_class_share(situation.graph, predictions, column, side=self.side)
