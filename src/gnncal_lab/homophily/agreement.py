"""Agreement: the share of neighbours that are predicted to be of a node's predicted class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal import Nodes
from gnncal.calibrators.homophily import NeighbourMean
from gnncal.graph.neighbours import neighbour_class_share
from gnncal_lab.arrays import FloatArray, IntArray, Side


@dataclass(frozen=True)
class Agreement(NeighbourMean):
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
    >>> from gnncal import Graph, Nodes
    >>> from gnncal_lab.homophily import Agreement
    >>> nodes = Nodes(np.array([[2.0, 0], [1, 0], [0, 3]]), Graph([[1, 2], [0, 0]]))
    >>> Agreement().estimate({}, nodes, is_fitted_graph=True)
    array([0.5, nan, nan])

    """

    def _mean(self, nodes: Nodes, known_labels: IntArray | None) -> FloatArray:
        if known_labels is None:
            return nodes.cached(agreement_of, self.side)
        return agreement_of(nodes, self.side, known_labels)


def agreement_of(nodes: Nodes, side: Side, known_labels: IntArray | None = None) -> FloatArray:
    """Share (n_nodes,) of neighbours whose class is a node's predicted one; NaN without any."""
    predictions = nodes.predictions
    votes = predictions if known_labels is None else known_labels
    votes = np.where(votes < 0, predictions, votes)
    return neighbour_class_share(nodes.required_graph, predictions, votes, side=side)
