"""The contract of a homophily estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.checks import check_known_labels
from gnncal.data.constraints import FLAG, Array, Constraint, LearnedTable, choice
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.data.probability import softmax
from gnncal.graph.graph import Side
from gnncal.graph.neighbours import neighbour_class_share

Weights = dict[str, npt.NDArray[Any]]


class CannotLearnError(InputError):
    """The data lack what an estimator learns from; the message says what is missing."""


class HomophilyEstimator(ABC):
    """Base of estimators of the share of each node's neighbours that have its class.

    A subclass is a frozen dataclass whose fields are plain values. ``learn`` reads the labels that
    a fit may see and returns weights; ``estimate`` turns weights and nodes into estimates.

    Attributes
    ----------
    constraints : dict
        What each field may be.
    learned : dict
        Names and shapes of the weights.

    Examples
    --------
    An estimator that gives every node the same homophily:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from gnncal.calibrators.homophily import HomophilyEstimator
    >>> @dataclass(frozen=True)
    ... class Constant(HomophilyEstimator):
    ...     value: float = 0.8
    ...     def learn(self, nodes):
    ...         return {}
    ...     def estimate(self, weights, nodes, *, is_fitted_graph):
    ...         return np.full(nodes.n_nodes, self.value)
    >>> Constant(0.6)
    Constant(value=0.6)

    """

    constraints: ClassVar[dict[str, Constraint]] = {}
    learned: ClassVar[LearnedTable] = {}

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if field.name in self.constraints:
                self.constraints[field.name].check(field.name, getattr(self, field.name))

    @property
    def saved_as(self) -> HomophilyEstimator:
        """The estimator that files and records name; a wrapper gives the one inside."""
        return self

    def __sklearn_clone__(self) -> Self:
        return self  # it cannot change, so a clone of its calibrator may hold it too

    @abstractmethod
    def learn(self, nodes: Nodes) -> Weights:
        """Learn what ``estimate`` needs from the labels that a fit may see.

        Parameters
        ----------
        nodes : Nodes
            Logits, graph, and the labels of calibration and training nodes.

        Returns
        -------
        dict of str to ndarray
            Named arrays, all that ``estimate`` needs and all that is saved.

        Raises
        ------
        CannotLearnError
            If the nodes lack what the estimator needs.

        """

    @abstractmethod
    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return the estimated homophily h^ of each node.

        Parameters
        ----------
        weights : dict of str to ndarray
            What ``learn`` has returned.
        nodes : Nodes
            Logits and graph on which the estimate is wanted, and labels to rely on.
        is_fitted_graph : bool
            Whether this is the graph the weights were learned on.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Numbers in [0, 1]; NaN where there is nothing to estimate from.

        Raises
        ------
        InputError
            If the estimator cannot be used on this graph.

        """


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
    >>> from gnncal.calibrators.homophily import NeighbourMean
    >>> from gnncal.calibrators.homophily import Support
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
        return {"clamped_labels": nodes.train_label_vector}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Average over the neighbours; without labels to rely on, once for these nodes."""
        known = nodes.known_labels
        if known is None and is_fitted_graph and "clamped_labels" in weights:
            known = check_known_labels(weights["clamped_labels"], nodes.n_nodes, nodes.n_classes)
        return self._mean(nodes, known)

    @abstractmethod
    def _mean(self, nodes: Nodes, known_labels: IntArray | None) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Given(HomophilyEstimator):
    """Homophily that is known: one value for each node of the fitted graph."""

    values: Any

    def learn(self, nodes: Nodes) -> Weights:
        """Check the array; there is nothing to learn."""
        self._checked(nodes.n_nodes)
        return {}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return the array itself, on the graph it belongs to."""
        if not is_fitted_graph:
            raise InputError(
                "homophily was given as an array for the fitted graph, and this is another graph; "
                "fit with homophily='support' for predictions on new graphs."
            )
        return self._checked(nodes.n_nodes)

    def _checked(self, n_nodes: int) -> FloatArray:
        values = as_numpy(self.values)
        if values.shape != (n_nodes,) or values.dtype.kind not in "fiubO":
            raise InputError(
                f"homophily has shape {values.shape} and dtype {values.dtype} but there are "
                f"{n_nodes} nodes; pass one number for each node."
            )
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"homophily must hold numbers, NaN if unknown ({error}).") from error
        known = values[~np.isnan(values)]
        if ((known < 0) | (known > 1)).any():
            raise InputError("homophily has values outside [0, 1]; pass shares, NaN if unknown.")
        return values


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
    graph = nodes.required_graph if nodes.graph is None else nodes.graph
    return neighbour_class_share(graph, nodes.predictions, probs, side=side)
