"""What support and agreement share: a mean over neighbours, with known labels in it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.checks import check_known_labels
from gnncal.core.constraints import FLAG, choice
from gnncal.core.errors import InputError
from gnncal.core.graph import Side
from gnncal.core.learned import Array
from gnncal.homophily.base import HomophilyEstimator, Weights
from gnncal.nodes import Nodes

CLAMPED_LABELS = Array("nodes", low=-1, high="K-1", whole=True)


@dataclass(frozen=True)
class NeighbourMean(HomophilyEstimator):
    """Base of estimators that average over neighbours, in one pass over the edges of each side.

    Labels that are known stand in place of predictions: those given, else the training labels of
    the fitted graph with ``clamp_train_labels``. A subclass implements ``_mean``.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="in"
        Whether senders, receivers or both are averaged over.
    clamp_train_labels : bool, default=False
        Use the training nodes' labels in place of their predictions.

    Examples
    --------
    >>> from gnncal.homophily import NeighbourMean, Support
    >>> issubclass(Support, NeighbourMean)
    True

    """

    side: Side = "in"
    clamp_train_labels: bool = False

    constraints: ClassVar = {"side": choice("in", "out", "both"), "clamp_train_labels": FLAG}

    def learn(self, nodes: Nodes) -> Weights:
        """Remember the training labels, if they are to be used."""
        if not self.clamp_train_labels:
            return {}
        if nodes.train_nodes.size == 0:
            raise InputError("clamp_train_labels=True relies on training labels; pass train_nodes.")
        return {"clamped_labels": nodes.train_label_vector()}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Average over the neighbours; without labels to rely on, once for these nodes."""
        known = nodes.known_labels
        if known is None and is_fitted_graph and "clamped_labels" in weights:
            known = check_known_labels(weights["clamped_labels"], nodes.n_nodes, nodes.n_classes)
        return self._mean(nodes, known)

    @abstractmethod
    def _mean(self, nodes: Nodes, known_labels: IntArray | None) -> FloatArray: ...
