"""Soft support: how much probability a node's neighbours give to its predicted class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Side
from gnncal.formulas.probability import softmax
from gnncal.homophily.clamping import NeighbourMean
from gnncal.nodes import Nodes


@dataclass(frozen=True)
class Support(NeighbourMean):
    r"""Homophily estimated by the probability that neighbours give to a node's predicted class.

    .. math:: \hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} p_{j,\hat y_i}

    """

    def _mean(self, nodes: Nodes, known_labels: IntArray | None) -> FloatArray:
        if known_labels is None:
            return nodes.once(support_of, self.side)
        return support_of(nodes, self.side, known_labels)


def support_of(nodes: Nodes, side: Side, known_labels: IntArray | None = None) -> FloatArray:
    """Mean probability (n_nodes,) that neighbours give to a node's predicted class."""
    probs = softmax(nodes.logits)
    if known_labels is None:
        share = nodes.neighbours.class_mean(probs, nodes.predictions, side)
        return np.where(nodes.neighbours.counts(side) > 0, share, np.nan)
    known = np.flatnonzero(known_labels >= 0)
    probs[known] = 0.0
    probs[known, known_labels[known]] = 1.0
    return neighbour_class_share(nodes.required_graph, nodes.predictions, probs, side=side)
