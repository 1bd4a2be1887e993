"""The paper's homophily predictor: a GCN trained on the homophily among observed labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import FLAG, Constraint, choice, number, whole_number
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph, Side
from gnncal.core.learned import Array
from gnncal.fitting.adam import Checkpoint, adam
from gnncal.homophily.base import CannotLearnError, HomophilyEstimator, Weights
from gnncal.homophily.network import Network, Propagation
from gnncal.nodes import Nodes


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
    >>> task = gnncal.example()
    >>> calibrator = gnncal.HoTS(homophily=gnncal.homophily.Predictor(max_epochs=50))
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
        return self.train(propagation, graph, nodes.label_vector())

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Run the trained network on the graph and its features."""
        return self.run(weights, self.propagation(nodes.required_graph))
