"""The class ``Nodes``: the checked input of a fit or a prediction."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Self, TypeVar, TypeVarTuple, cast

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.checks import (
    UNKNOWN,
    check_apart,
    check_known_labels,
    check_labels,
    check_logits,
    check_nodes,
    check_sample_weight,
    check_used_labels,
    warn_if_probabilities,
)
from gnncal.data.errors import InputError
from gnncal.data.probability import log_losses, normalised_entropy
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, as_graph, train_mask_of
from gnncal.graph.neighbours import GraphNeighbours, Neighbours

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
NO_NODES: IntArray = np.empty(0, dtype=np.int64)
NOT_TRAINED_ON = (
    "remove them from nodes, because calibration needs nodes that the model was not trained on, "
    "usually those of val_mask; if the model was trained on others, pass those as train_nodes"
)


class Nodes:
    """Checked logits, graph, labels and splits, to share between several fits and predictions.

    ``fit``, ``predict_proba`` and the functions that call them take such a record in place of
    logits and graph. Arrays are then checked once, and quantities that depend only on logits and
    graph are computed at most once.

    A record holds only the labels that a fit may use, so no method can leak other labels. Records
    are immutable: :meth:`with_labels` and :meth:`subset` return a new record that shares the arrays
    and the computed quantities.

    Parameters
    ----------
    logits : array_like of shape (n_nodes, n_classes)
        Raw scores of every node.
    graph : Graph or torch_geometric.data.Data, optional
        The graph of these nodes.
    known_labels : array_like of shape (n_nodes,), optional
        Labels that a prediction may use, -1 where unknown.
    may_be_probabilities : bool, default=False
        Whether to accept logits that look like probabilities without a warning.
    node_ids : array_like of shape (n_nodes,), optional
        Your own ids. By these ids, an update recognises nodes that a calibrator has learned from.

    Attributes
    ----------
    logits, graph, known_labels, node_ids : ndarray, Graph or None
        As given. The logits are read-only; ids that equal the row numbers are replaced by None.
    n_nodes, n_classes : int
        Number of rows and of columns of the logits.
    calibration_nodes, labels, weights : ndarray of shape (n,)
        Calibration nodes, sorted, their labels and their sample weights. In a record for
        predictions there are no such nodes; weights are None if all are 1.
    train_nodes, train_labels : ndarray of shape (m,)
        Nodes that the model was trained on, sorted, and their labels; may be empty.
    are_probabilities : bool
        Whether a warning said that the logits look like probabilities.

    Examples
    --------
    Two methods share the checked arrays and the entropy:

    >>> import gnncal
    >>> task = gnncal.example()
    >>> nodes = gnncal.Nodes(task.logits, task.graph)
    >>> for method in gnncal.calibrators.EntropyScaling(), gnncal.HoTS():
    ...     probs = method.fit(
    ...         nodes, task.labels, calibration_nodes=task.calibration_nodes
    ...     ).predict_proba(nodes)
    >>> nodes
    Nodes(n_nodes=1797, n_classes=10, n_edges=24678)

    """

    def __init__(
        self,
        logits: Any,
        graph: Any = None,
        *,
        known_labels: Any = None,
        may_be_probabilities: bool = False,
        node_ids: Any = None,
    ) -> None:
        checked = check_logits(logits)
        self.n_nodes, self.n_classes = checked.shape
        if self.n_nodes == 0:
            raise InputError("logits has no rows; pass at least one node.")
        self.are_probabilities = not may_be_probabilities and warn_if_probabilities(checked)
        self.logits: FloatArray = checked.view()
        self.logits.flags.writeable = False
        self.graph: Graph | EntityGraph | None = check_graph(graph, self.n_nodes)
        self.known_labels: IntArray | None = None
        if known_labels is not None:
            self.known_labels = check_known_labels(known_labels, *checked.shape)
        self._train_mask = train_mask_of(graph, self.n_nodes)
        self.node_ids = check_node_ids(node_ids, self.n_nodes)
        self.calibration_nodes = self.labels = self.train_nodes = self.train_labels = NO_NODES
        self.weights: FloatArray | None = None
        has_graph = self.has_neighbourhoods = self.graph is not None
        self._neighbours: Neighbours | None = GraphNeighbours(self.graph) if has_graph else None
        self._results: dict[tuple[Any, ...], Any] = {}  # by function and further arguments

    def __repr__(self) -> str:
        parts = {"n_nodes": self.n_nodes, "n_classes": self.n_classes}
        parts["n_edges"] = 0 if self.graph is None else self.graph.n_edges
        parts["n_calibration_nodes"] = self.calibration_nodes.size
        parts["n_train_nodes"] = self.train_nodes.size
        shown = ", ".join(f"{name}={value}" for name, value in parts.items() if value)
        return f"{type(self).__name__}({shown})"

    def with_labels(
        self,
        labels: Any,
        *,
        calibration_nodes: Any = None,
        train_nodes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Return a record for a fit, with the labels of calibration and training nodes only.

        Without ``calibration_nodes``, all labelled nodes outside ``train_nodes`` are used. If a
        graph is given and every node has a label, ``calibration_nodes`` is required.
        """
        all_labels = check_labels(labels, self.n_nodes)
        named = NO_NODES if train_nodes is None else train_nodes
        train = check_nodes(named, self.n_nodes, name="train_nodes")
        chosen = self._calibration_nodes(all_labels, calibration_nodes, train)
        trained = {"train_nodes": train}
        if not train.size and self._train_mask is not None:
            trained = {"train_mask of the graph": np.flatnonzero(self._train_mask)}
        check_apart("calibration_nodes", chosen, trained, advice=NOT_TRAINED_ON)
        weights = None
        if sample_weight is not None:
            every = check_sample_weight(sample_weight, self.n_nodes, chosen)
            chosen, every = chosen[every > 0], every[every > 0]
            weights = None if (every == 1).all() else every  # nothing changes to the bit
        return self._labelled(
            chosen,
            check_used_labels(all_labels, chosen, self.n_classes, "labels of calibration_nodes"),
            train,
            check_used_labels(all_labels, train, self.n_classes, "labels of train_nodes"),
            weights,
        )

    @property
    def unlabelled(self) -> Self:
        """The record for a prediction: without labels, except ``known_labels``."""
        return self if self.calibration_nodes.size == 0 else self._labelled()

    def subset(self, kept: BoolArray | IntArray) -> Self:
        """Return a record for a fit on some of the calibration nodes.

        Parameters
        ----------
        kept : ndarray
            Positions among the calibration nodes: a mask, or indices in ascending order.

        """
        return self._labelled(
            self.calibration_nodes[kept],
            self.labels[kept],
            self.train_nodes,
            self.train_labels,
            None if self.weights is None else self.weights[kept],
        )

    @property
    def without_graph(self) -> Self:
        """A record of the calibration nodes alone, for fits that use neither others nor a graph."""
        rows = np.arange(self.calibration_nodes.size)
        record = self._labelled(rows, self.labels, weights=self.weights)
        record.logits, record.n_nodes = self.calibration_logits.view(), rows.size
        record.logits.flags.writeable = False
        record.graph, record._neighbours, record.has_neighbourhoods = None, None, False
        record.known_labels, record.node_ids, record._results = None, None, {}
        return record

    def cached(
        self, function: Callable[[Nodes, *Arguments], Result], *arguments: *Arguments
    ) -> Result:
        """Return ``function(nodes, *arguments)``, computed at most once for these nodes.

        Do not change the result in place: later calls return the same object.

        Parameters
        ----------
        function : callable
            A function of a record without labels, so its result depends on logits and graph alone.
        *arguments : Any
            Further arguments, hashable.

        """
        key = (function, *arguments)
        if key not in self._results:
            bare = self._labelled()
            bare.known_labels = None
            self._results[key] = function(bare, *arguments)
        return cast(Result, self._results[key])

    @property
    def required_graph(self) -> Graph:
        """The graph; an InputError if there is none, or if it has entities instead of edges."""
        if isinstance(self.graph, EntityGraph):
            raise InputError(
                "this method needs edges between nodes, but these nodes share entities; choose one "
                "that needs only means over neighbours, such as 'structural' or 'hots'."
            )
        if self.graph is None:
            raise InputError("the graph is missing; pass the graph of these nodes.")
        return self.graph

    @property
    def neighbours(self) -> Neighbours:
        """Degrees, counts and means of neighbours, as formulas use them."""
        return self._neighbours or GraphNeighbours(self.required_graph)

    @property
    def knows_degrees(self) -> bool:
        """Whether degrees and means of neighbours can be computed, not only read from the cache."""
        return self._neighbours is not None

    @property
    def calibration_logits(self) -> FloatArray:
        """Logits (n, n_classes) of the calibration nodes."""
        return self.logits[self.calibration_nodes]

    @property
    def total_weight(self) -> float:
        """Sum of the sample weights of the calibration nodes; without weights, their number."""
        return self.calibration_nodes.size if self.weights is None else float(self.weights.sum())

    def mean(self, values: FloatArray) -> float:
        """Return the mean of values of the calibration nodes, weighted by ``weights``.

        Parameters
        ----------
        values : ndarray of shape (n,)
            A value for each calibration node.

        """
        return float(np.average(values, weights=self.weights))

    def mean_log_loss(self, probs: FloatArray) -> float:
        """Return the weighted mean of -ln p of the calibration labels; p below 1e-12 is 1e-12."""
        return self.mean(log_losses(probs, self.labels))

    @property
    def predictions(self) -> IntArray:
        """The class with the largest logit, for each node (n_nodes,)."""
        return self.cached(_predictions)

    @property
    def entropy(self) -> FloatArray:
        """Normalised entropy (n_nodes,) of softmax(logits) in [0, 1], in float64."""
        return self.cached(_entropy)

    @property
    def label_vector(self) -> IntArray:
        """The training and calibration labels (n_nodes,), -1 elsewhere; a new array."""
        vector = np.full(self.n_nodes, UNKNOWN, dtype=np.int64)
        vector[self.train_nodes] = self.train_labels
        vector[self.calibration_nodes] = self.labels
        return vector

    def _labelled(
        self,
        nodes: IntArray = NO_NODES,
        labels: IntArray = NO_NODES,
        train_nodes: IntArray = NO_NODES,
        train_labels: IntArray = NO_NODES,
        weights: FloatArray | None = None,
    ) -> Self:
        """Return a record that shares everything but the labels and weights."""
        record = copy(self)
        record.weights = weights
        record.calibration_nodes, record.labels = nodes, labels
        record.train_nodes, record.train_labels = train_nodes, train_labels
        return record

    def _calibration_nodes(self, all_labels: IntArray, nodes: Any, train: IntArray) -> IntArray:
        if nodes is not None:
            chosen = check_nodes(nodes, self.n_nodes, name="calibration_nodes")
            if chosen.size == 0:
                raise InputError("calibration_nodes is empty; pass at least one calibration node.")
            return chosen
        eligible = all_labels != UNKNOWN
        if self.graph is not None and eligible.all():
            raise InputError(
                "calibration_nodes is missing and every node of the graph has a label, so the "
                "labels of test nodes would be fitted too; pass calibration_nodes, usually the "
                "validation split, or write -1 for labels that must not be used."
            )
        eligible[train] = False
        if not eligible.any():
            raise InputError(
                "no node outside train_nodes has a label; calibration needs labelled nodes "
                "that the model was not trained on."
            )
        return np.flatnonzero(eligible)


def as_nodes(logits: Any, graph: Any = None, *, may_be_probabilities: bool = False) -> Nodes:
    """Return a record of logits and graph; a record in place of both is returned unchanged."""
    if not isinstance(logits, Nodes):
        return Nodes(logits, graph, may_be_probabilities=may_be_probabilities)
    if graph is not None and graph is not logits.graph:
        raise InputError("a gnncal.Nodes already has its graph; leave graph out.")
    return logits


def labelled_nodes(
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    calibration_nodes: Any = None,
    train_nodes: Any = None,
    sample_weight: Any = None,
) -> Nodes:
    """Return a record of the arguments of ``fit``; a labelled record is returned unchanged."""
    record = as_nodes(logits, graph)
    others = (labels, calibration_nodes, train_nodes, sample_weight)
    if record.calibration_nodes.size and all(other is None for other in others):
        return record
    return record.with_labels(
        labels,
        calibration_nodes=calibration_nodes,
        train_nodes=train_nodes,
        sample_weight=sample_weight,
    )


def check_graph(graph: Any, n_nodes: int) -> Any:
    """Check that a graph, if there is one, has as many nodes as the logits have rows."""
    checked = as_graph(graph)
    if checked is not None and checked.n_nodes != n_nodes:
        raise InputError(
            f"the graph has {checked.n_nodes} nodes but logits has {n_nodes} rows; pass the logits "
            "of every node of this graph. Logits of edges (link prediction) have a row for "
            "each edge: pass gnncal.Graph.of_edges(edge_index). For graph classification, pass a "
            "row and a label for each graph, leave graph out and set method='svs'."
        )
    return checked


def check_node_ids(node_ids: Any, n_nodes: int) -> npt.NDArray[Any] | None:
    """Return the user's ids, or None for row numbers, which do not identify nodes elsewhere."""
    if node_ids is None:
        return None
    array = as_numpy(node_ids)
    if array.shape != (n_nodes,):
        raise InputError(
            f"node_ids has shape {array.shape} but logits has {n_nodes} rows; pass one id for each "
            "node."
        )
    are_rows = array.dtype.kind in "iu" and (array == np.arange(n_nodes)).all()
    return None if are_rows else array


def with_cached(
    nodes: Nodes,
    value: Result,
    function: Callable[[Nodes, *Arguments], Result],
    *arguments: *Arguments,
) -> Nodes:
    """Return the record in which ``cached(function, *arguments)`` is known to be ``value``."""
    record = copy(nodes)
    record._results = {**nodes._results, (function, *arguments): value}
    record.has_neighbourhoods = True
    return record


def with_neighbours(nodes: Nodes, neighbours: Neighbours) -> Nodes:
    """Return the record with neighbours from another source in place of a graph."""
    record = copy(nodes)
    record._neighbours, record._results = neighbours, {}
    record.has_neighbourhoods = True
    return record


def _predictions(nodes: Nodes) -> IntArray:
    return nodes.logits.argmax(axis=1)


def _entropy(nodes: Nodes) -> FloatArray:
    return normalised_entropy(nodes.logits).astype(np.float64)
