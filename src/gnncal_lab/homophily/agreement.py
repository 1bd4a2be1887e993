"""Agreement of predictions as homophily, and averages that rely on the training labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal import InputError, Nodes
from gnncal.calibrators import Array, softmax
from gnncal.calibrators.homophily import SIDES, HomophilyEstimator, Weights
from gnncal.data.checks import UNKNOWN, check_known_labels
from gnncal.graph.neighbours import neighbour_class_share
from gnncal_lab.arrays import FloatArray, IntArray, Side


@dataclass(frozen=True)
class Agreement(HomophilyEstimator):
    r"""Share of the neighbours whose predicted class is that of the node.

    .. math:: \hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} 1[\hat y_j = \hat y_i]

    N(i) are the neighbours of node i, and :math:`\hat y_i` is its predicted class. No labels are
    used.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="in"
        Neighbours that are averaged over: ``"in"`` the nodes that send to a node, ``"out"`` those
        it sends to, ``"both"`` all of them. Duplicate edges count each time.

    Examples
    --------
    Node 0 has two neighbours, and one of them has the same predicted class:

    >>> import numpy as np
    >>> from gnncal import Graph, Nodes
    >>> from gnncal_lab.homophily import Agreement
    >>> nodes = Nodes(np.array([[2.0, 0], [1, 0], [0, 3]]), Graph([[1, 2], [0, 0]]))
    >>> Agreement().estimate({}, nodes, is_fitted_graph=True)
    array([0.5, nan, nan])

    """

    name: ClassVar[str] = "agreement"
    side: Side = "in"

    constraints: ClassVar = {"side": SIDES}

    def learn(self, nodes: Nodes) -> Weights:
        """Learn nothing."""
        return {}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Average over the neighbours, once for these nodes."""
        return nodes.cached(agreement_of, self.side)


def agreement_of(nodes: Nodes, side: Side, votes: IntArray | None = None) -> FloatArray:
    """Share (n_nodes,) of neighbours whose class is a node's predicted one; NaN without any."""
    predictions = nodes.predictions
    votes = predictions if votes is None else votes
    return neighbour_class_share(nodes.required_graph, predictions, votes, side=side)


@dataclass(frozen=True)
class Clamped(HomophilyEstimator):
    """Base of averages in which known labels take the place of the neighbours' predictions.

    The known labels are ``known_labels`` of the nodes, or else the training labels of the fitted
    graph.
    """

    side: Side = "in"

    constraints: ClassVar = {"side": SIDES}
    learned: ClassVar = {"clamped_labels": Array("nodes", low=-1, high="K-1", whole=True)}

    def learn(self, nodes: Nodes) -> Weights:
        """Remember the training labels."""
        if nodes.train_nodes.size == 0:
            raise InputError("clamped homophily relies on training labels; pass train_nodes.")
        known = np.full(nodes.n_nodes, UNKNOWN, dtype=np.int64)
        known[nodes.train_nodes] = nodes.train_labels
        return {"clamped_labels": known}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Average over the neighbours."""
        known = nodes.known_labels
        if known is None and is_fitted_graph:
            known = check_known_labels(weights["clamped_labels"], nodes.n_nodes, nodes.n_classes)
        return self._mean(nodes, np.full(nodes.n_nodes, -1) if known is None else known)

    @abstractmethod
    def _mean(self, nodes: Nodes, known_labels: IntArray) -> FloatArray: ...


@dataclass(frozen=True)
class ClampedSupport(Clamped):
    """Like ``"support"``, but neighbours with a training label count with this label.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="in"
        Neighbours that are averaged over: ``"in"`` the nodes that send to a node, ``"out"`` those
        it sends to, ``"both"`` all of them.

    Examples
    --------
    >>> from gnncal import HoTS
    >>> from gnncal_lab.homophily import ClampedSupport
    >>> HoTS(homophily=ClampedSupport())
    HoTS(homophily=ClampedSupport(side='in'))

    """

    name: ClassVar[str] = "clamped-support"

    def _mean(self, nodes: Nodes, known_labels: IntArray) -> FloatArray:
        probs = softmax(nodes.logits)
        known = np.flatnonzero(known_labels >= 0)
        probs[known] = 0.0
        probs[known, known_labels[known]] = 1.0
        share = nodes.neighbours.class_mean(probs, nodes.predictions, self.side)
        return np.where(nodes.neighbours.counts(self.side) > 0, share, np.nan)


@dataclass(frozen=True)
class ClampedAgreement(Clamped):
    """Like ``"agreement"``, but neighbours with a training label count with this label.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="in"
        Neighbours that are averaged over: ``"in"`` the nodes that send to a node, ``"out"`` those
        it sends to, ``"both"`` all of them.

    Examples
    --------
    >>> from gnncal import HoTS
    >>> from gnncal_lab.homophily import ClampedAgreement
    >>> HoTS(homophily=ClampedAgreement("both"))
    HoTS(homophily=ClampedAgreement(side='both'))

    """

    name: ClassVar[str] = "clamped-agreement"

    def _mean(self, nodes: Nodes, known_labels: IntArray) -> FloatArray:
        votes = np.where(known_labels < 0, nodes.predictions, known_labels)
        return agreement_of(nodes, self.side, votes)
