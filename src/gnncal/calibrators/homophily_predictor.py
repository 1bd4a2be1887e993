"""The predictor's network: a two-layer GCN with hand-written gradients.

.. math:: \\hat h = \\sigma(\\hat A \\, \\mathrm{ReLU}(\\hat A X W_1 + b_1) w_2 + b_2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import expit

from gnncal.calibrators.homophily import CannotLearnError, HomophilyEstimator, Weights
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import FLAG, Array, Constraint, choice, number, whole_number
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.graph.graph import Features, Graph, Side
from gnncal.graph.neighbours import neighbour_class_share
from gnncal.math.solvers import Checkpoint, adam

SAMPLED_ROWS = 500  # enough to see how much Â X fills in
SPARSITY_BUDGET = 2.0  # keep sparse Â X only while it has at most this many times the entries of X


class Propagation:
    """Â of a graph, and products with Â X."""

    def __init__(self, graph: Graph, *, add_self_loops: bool) -> None:
        if graph.features is None:
            raise CannotLearnError("the graph has no features")
        self.adjacency = graph.normalised_adjacency(add_self_loops=add_self_loops)
        self.transposed = self.adjacency.T.tocsr()  # the backward pass reads it row by row
        features = graph.features.astype(np.float32)
        self.n_features = int(features.shape[1])
        self.factors = _propagated(self.adjacency, features)

    def forward(self, weight: FloatArray) -> FloatArray:
        """Â X W, shape (n_nodes, hidden)."""
        for factor in reversed(self.factors):
            weight = factor @ weight
        return weight

    def backward(self, gradient: FloatArray) -> FloatArray:
        """(Â X)^T G, shape (n_features, hidden)."""
        for factor in self.factors:
            gradient = factor.T @ gradient
        return gradient


class Network:
    """The two-layer GCN on a flat float32 parameter vector, with its analytic gradient."""

    def __init__(self, propagation: Propagation, hidden: int) -> None:
        self.propagation = propagation
        n_features = propagation.n_features
        self.shapes = {
            "input_weight": (n_features, hidden),
            "input_bias": (hidden,),
            "output_weight": (hidden,),
            "output_bias": (1,),
        }

    def initial(self, generator: np.random.Generator) -> FloatArray:
        """Glorot-uniform weights, zero biases."""
        n_features, hidden = self.shapes["input_weight"]
        first, second = np.sqrt(6 / (n_features + hidden)), np.sqrt(6 / (hidden + 1))
        weights = {
            "input_weight": generator.uniform(-first, first, (n_features, hidden)),
            "input_bias": np.zeros(hidden),
            "output_weight": generator.uniform(-second, second, hidden),
            "output_bias": np.zeros(1),
        }
        return self.flat(weights)

    def flat(self, weights: Weights) -> FloatArray:
        """Return one vector that holds the named arrays."""
        return np.concatenate([weights[name].ravel() for name in self.shapes]).astype(np.float32)

    def named(self, theta: FloatArray) -> Weights:
        """Views of a vector under their names."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(shape) for (name, shape), part in named}

    def forward(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the estimates (n_nodes,) and the hidden layer (n_nodes, hidden)."""
        weights = self.named(theta)
        hidden = self.propagation.forward(weights["input_weight"])
        hidden += weights["input_bias"]
        np.maximum(hidden, 0.0, out=hidden)
        output = self.propagation.adjacency @ (hidden @ weights["output_weight"])
        return expit(output + weights["output_bias"]), hidden

    def loss(self, supervised: IntArray, targets: FloatArray) -> _Loss:
        """Return the mean squared error at the supervised nodes, as an objective for Adam."""
        return _Loss(self, supervised, targets.astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Loss:
    network: Network
    supervised: IntArray
    targets: FloatArray

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        network, weights = self.network, self.network.named(theta)
        estimates, hidden = network.forward(theta)
        chosen = estimates[self.supervised]
        error = chosen - self.targets
        output = np.zeros_like(estimates)  # dL / d(pre-sigmoid output)
        output[self.supervised] = 2.0 / error.size * error * chosen * (1.0 - chosen)
        sent = network.propagation.transposed @ output
        at_hidden = np.outer(sent, weights["output_weight"])
        at_hidden *= hidden > 0
        gradient = {
            "input_weight": network.propagation.backward(at_hidden),
            "input_bias": at_hidden.sum(axis=0),
            "output_weight": sent @ hidden,
            "output_bias": output.sum(keepdims=True),
        }
        return float(np.mean(error**2)), network.flat(gradient)


def _propagated(matrix: sparse.csr_array, features: Features) -> tuple[Any, ...]:
    """Matrices whose product, in this order, is Â X: either Â X itself, or Â and X."""
    if sparse.issparse(features):
        rows = np.unique(np.linspace(0, matrix.shape[0] - 1, SAMPLED_ROWS).astype(np.int64))
        entries = (matrix[rows] @ features).nnz / len(rows)
        if entries > SPARSITY_BUDGET * max(features.nnz / features.shape[0], 1.0):
            return matrix, features
    return (matrix @ features,)


@dataclass(frozen=True, kw_only=True)
class Predictor(HomophilyEstimator):
    """The paper's predictor of homophily: a GCN trained on training and calibration labels.

    Calibration labels are among its targets, so calibration nodes are estimated better than test
    nodes. ``gnncal_lab.homophily.CrossFitted`` avoids that.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="out"
        Whose labels the targets count: ``"out"`` those of the nodes that a node sends to, as
        released, ``"in"`` those of the nodes that send to it, ``"both"`` those of both together.
    add_self_loops : bool, default=True
        Give a loop to each node of the network's graph that has none.
    checkpoint : {"matched", "after-step"}, default="matched"
        Which weights are kept for the best loss: those that gave it, or those after the step, as
        released.
    random_state : int, default=0
        Seed of the initial weights and of the folds.
    hidden : int, default=32
        Width of the network's hidden layer.
    learning_rate : float, default=0.01
        Step size of Adam.
    weight_decay : float, default=0.0001
        Multiple of the weights that is added to their gradient.
    max_epochs : int, default=200
        Largest number of epochs.
    patience : int, default=30
        Epochs without a lower loss after which training ends.

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026).

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.calibrators.homophily_predictor import Predictor
    >>> task = gnncal.example()
    >>> calibrator = gnncal.HoTS(homophily=Predictor(max_epochs=50))
    >>> graph = gnncal.Graph(task.graph.edge_index, features=task.logits)
    >>> calibrator = calibrator.fit(task.logits, task.labels, graph, nodes=task.nodes)
    >>> round(float(calibrator.homophily_.mean()), 1)
    1.0

    """

    side: Side = "out"
    add_self_loops: bool = True
    checkpoint: Checkpoint = "matched"
    random_state: int = 0
    hidden: int = 32
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    max_epochs: int = 200
    patience: int = 30

    constraints: ClassVar[dict[str, Constraint]] = {
        "side": choice("in", "out", "both"),
        "add_self_loops": FLAG,
        "checkpoint": choice("matched", "after-step"),
        "random_state": whole_number(at_least=0, at_most=2**32 - 1),
        "hidden": whole_number(at_least=1),
        "learning_rate": number(above=0),
        "weight_decay": number(at_least=0),
        "max_epochs": whole_number(at_least=1),
        "patience": whole_number(at_least=1),
    }

    learned: ClassVar = {
        "input_weight": Array("features hidden"),
        "input_bias": Array("hidden"),
        "output_weight": Array("hidden"),
        "output_bias": Array("1"),
    }

    @property
    def seed(self) -> int:
        """The seed that ``random_state`` stands for in scikit-learn's manner."""
        return int(np.random.RandomState(self.random_state).randint(2**31 - 1))

    def targets(self, graph: Graph, known_labels: IntArray) -> FloatArray:
        """Return the share of a node's labelled neighbours that have its label, NaN without any.

        Parameters
        ----------
        graph : Graph
            The graph.
        known_labels : ndarray of shape (n_nodes,)
            Labels, -1 where unknown.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Shares in [0, 1]; NaN where the node or all of its neighbours are unlabelled.

        """
        is_known = known_labels >= 0
        return neighbour_class_share(
            graph, known_labels, known_labels, side=self.side, counted=is_known
        )

    def train(self, propagation: Propagation, graph: Graph, known_labels: IntArray) -> Weights:
        """Fit the network to the homophily among the labels that are known.

        Parameters
        ----------
        propagation : Propagation
            The graph and its features, prepared for the network.
        graph : Graph
            The graph itself.
        known_labels : ndarray of shape (n_nodes,)
            Labels, -1 where unknown.

        Returns
        -------
        dict of str to ndarray
            The trained weights by name.

        Raises
        ------
        CannotLearnError
            If no labelled node has a labelled neighbour.

        """
        targets = self.targets(graph, known_labels)
        supervised = np.flatnonzero(~np.isnan(targets))
        if supervised.size == 0:
            raise CannotLearnError("no labelled node has a labelled neighbour")
        network = Network(propagation, self.hidden)
        run = adam(
            network.loss(supervised, targets[supervised]),
            network.initial(np.random.default_rng(self.seed)),
            max_epochs=self.max_epochs,
            patience=self.patience,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            checkpoint=self.checkpoint,
        )
        return network.named(run.parameters)

    def propagation(self, graph: Graph) -> Propagation:
        """Prepare a graph for the network: the normalised adjacency matrix, and its product with X.

        Parameters
        ----------
        graph : Graph
            A graph with features.

        Returns
        -------
        Propagation
            What the network reads.

        Raises
        ------
        InputError
            If the graph has no features.

        """
        if graph.features is None:
            raise InputError(
                "the homophily predictor needs node features and this graph has none; pass "
                "Graph(..., features=x) or use homophily='support'."
            )
        return Propagation(graph, add_self_loops=self.add_self_loops)

    def run(self, weights: Weights, propagation: Propagation) -> FloatArray:
        """Return the homophily that a trained network predicts at every node.

        Parameters
        ----------
        weights : dict of str to ndarray
            What ``train`` has returned.
        propagation : Propagation
            What ``propagation`` has returned.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Numbers in [0, 1].

        Raises
        ------
        InputError
            If the features have another width than in training.

        """
        n_features, hidden = weights["input_weight"].shape
        if propagation.n_features != n_features:
            raise InputError(
                f"the homophily predictor was trained on {n_features} features but this graph "
                f"has {propagation.n_features}; pass the same features or use "
                "homophily='support'."
            )
        network = Network(propagation, hidden)
        return network.forward(network.flat(weights))[0]

    def learn(self, nodes: Nodes) -> Weights:
        """Train on every observed label."""
        graph = nodes.required_graph
        propagation = Propagation(graph, add_self_loops=self.add_self_loops)
        return self.train(propagation, graph, nodes.label_vector)

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Run the trained network on the graph and its features."""
        return self.run(weights, self.propagation(nodes.required_graph))
