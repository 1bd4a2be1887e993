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
    >>> import gnncal
    >>> task = gnncal.example()
    >>> calibrator = gnncal.HoTS(homophily=gnncal.homophily.Support(side="both"))
    >>> calibrator = calibrator.fit(task.logits, task.labels, task.graph, nodes=task.nodes)
    >>> round(float(calibrator.homophily_.mean()), 1)
    0.8

    """

    def _mean(self, nodes: Nodes, known_labels: IntArray | None) -> FloatArray:
        if known_labels is None:
            return nodes.once(support_of, self.side)
        return support_of(nodes, self.side, known_labels)


def support_of(nodes: Nodes, side: Side, known_labels: IntArray | None = None) -> FloatArray:
    """Mean probability (n_nodes,) that neighbours give to a node's predicted class.

    A neighbour with a known label gives all of it to that class. NaN without neighbours.
    """
    probs = softmax(nodes.logits)
    if known_labels is not None:
        known = np.flatnonzero(known_labels >= 0)
        probs[known] = 0.0
        probs[known, known_labels[known]] = 1.0
    return neighbour_class_share(nodes.required_graph, nodes.predictions, probs, side=side)
