"""The paper's homophily predictor: a GCN trained on the homophily among observed labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state

from gnncal.core.adam import Checkpoint, adam
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import FLAG, Constraint, choice, number, whole_number
from gnncal.core.data import FitData
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph, Side
from gnncal.core.learned import Array
from gnncal.homophily.base import CannotLearnError, HomophilyEstimator, Situation, Weights
from gnncal.homophily.network import Network, Propagation
from gnncal.homophily.share import neighbour_class_share


@dataclass(frozen=True, kw_only=True)
class TrainedPredictor(HomophilyEstimator):
    """What the estimators share that train the paper's network, by Adam on the squared error.

    Parameters
    ----------
    side : whose labels the targets count: ``"out"`` of the nodes that a node sends to, as
        released, ``"in"`` of those that send to it, ``"both"`` of both together.
    add_self_loops : give a loop to each node of the network's graph that has none.
    checkpoint : which weights are kept for the best loss: those that gave it (``"matched"``) or
        those after the step (``"after-step"``, as released).
    random_state : seed of the initial weights and of the folds.
    hidden, learning_rate, weight_decay, max_epochs, patience : of the network and its training.

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

    @property
    def seed(self) -> int:
        """The seed that ``random_state`` stands for in scikit-learn's manner."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def train(self, propagation: Propagation, graph: Graph, known_labels: IntArray) -> Weights:
        """Fit the network to the homophily among ``known_labels`` (-1 where unknown)."""
        targets = masked_targets(graph, known_labels, side=self.side)
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
        """Â and Â X of a graph to predict on."""
        if graph.features is None:
            raise InputError(
                "the homophily predictor needs node features and this graph has none; pass "
                "Graph(..., features=x) or use homophily='support'."
            )
        return Propagation(graph, add_self_loops=self.add_self_loops)

    def run(self, weights: Weights, propagation: Propagation) -> FloatArray:
        """h^ at every node."""
        n_features, hidden = weights["input_weight"].shape
        if propagation.n_features != n_features:
            raise InputError(
                f"the homophily predictor was trained on {n_features} features but this graph "
                f"has {propagation.n_features}; pass the same features or use "
                "homophily='support'."
            )
        network = Network(propagation, hidden)
        return network.forward(network.flat(weights))[0]


@dataclass(frozen=True, kw_only=True)
class Predictor(TrainedPredictor):
    """The auxiliary GCN exactly as the paper trains it, on training and calibration labels.

    Its estimates at calibration nodes have seen those nodes' labels; at test nodes they have
    not. :class:`CrossFitted` removes that difference. Parameters are those of
    :class:`TrainedPredictor`.
    """

    learned: ClassVar = {
        "input_weight": Array("features hidden"),
        "input_bias": Array("hidden"),
        "output_weight": Array("hidden"),
        "output_bias": Array("1"),
    }

    def learn(self, data: FitData) -> Weights:
        """Train on every observed label."""
        assert data.graph is not None
        propagation = Propagation(data.graph, add_self_loops=self.add_self_loops)
        return self.train(propagation, data.graph, data.known_label_vector())

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Run the trained network on the situation's graph and features."""
        return self.run(weights, self.propagation(situation.graph))


def masked_targets(graph: Graph, known_labels: IntArray, *, side: Side) -> FloatArray:
    """Share of a labelled node's labelled neighbours with its label; NaN where there is none."""

    def column(c: int) -> FloatArray:
        return (known_labels == c).astype(np.float64)

    return neighbour_class_share(graph, known_labels, column, side=side, counted=known_labels >= 0)
