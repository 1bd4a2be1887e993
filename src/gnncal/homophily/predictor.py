"""The paper's homophily predictor: a two-layer GCN with hand-written gradients.

.. math:: \\hat h = \\sigma(\\hat A \\, \\mathrm{ReLU}(\\hat A X W_1 + b_1) w_2 + b_2)

trained by Adam on the mean squared error against the homophily among observed labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import expit

from gnncal.core.adam import Checkpoint, adam
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.errors import InputError
from gnncal.core.graph import Features, Graph, Side
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.share import neighbour_class_share

SPARSITY_BUDGET = 2.0  # keep sparse Â X only while it has at most this many times the entries of X
SAMPLED_ROWS = 500  # enough to see how much Â X fills in


class NoTargetError(InputError):
    """The labels at hand give the predictor nothing to learn from."""


@dataclass(frozen=True)
class Predictor(HomophilyEstimator):
    """The auxiliary GCN exactly as the paper trains it, on training and calibration labels.

    Its estimates at calibration nodes have seen those nodes' labels; at test nodes they have
    not. ``"cross-fitted"`` removes that difference.
    """

    side: Side = "out"
    add_self_loops: bool = True
    checkpoint: Checkpoint = "matched"
    seed: int = 0
    hidden: int = 32
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    max_epochs: int = 200
    patience: int = 30

    def learn(self, data: FitData) -> Weights:
        """Train on every observed label."""
        assert data.graph is not None
        propagation = Propagation(data.graph, add_self_loops=self.add_self_loops)
        return self.train(propagation, data.graph, data.known_label_vector())

    def train(self, propagation: Propagation, graph: Graph, known_labels: IntArray) -> Weights:
        """Fit the network to the homophily among ``known_labels`` (-1 where unknown)."""
        targets = masked_targets(graph, known_labels, side=self.side)
        supervised = np.flatnonzero(~np.isnan(targets))
        if supervised.size == 0:
            raise NoTargetError("no labelled node has a labelled neighbour")
        network = Network(propagation, self.hidden)
        loss = network.loss(supervised, targets[supervised])
        run = adam(
            loss,
            network.initial(np.random.default_rng(self.seed)),
            max_epochs=self.max_epochs,
            patience=self.patience,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            checkpoint=self.checkpoint,
        )
        return network.named(run.parameters)

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Run the trained network on the situation's graph and features."""
        propagation = Propagation(situation.graph, add_self_loops=self.add_self_loops)
        return self.run(weights, propagation)

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


def masked_targets(graph: Graph, known_labels: IntArray, *, side: Side) -> FloatArray:
    """Share of a labelled node's labelled neighbours with its label; NaN where there is none."""

    def column(c: int) -> FloatArray:
        return (known_labels == c).astype(np.float64)

    return neighbour_class_share(graph, known_labels, column, side=side, counted=known_labels >= 0)


class Propagation:
    """Products with Â X that never multiply a dense N x F matrix by the graph twice.

    Dense features: Â X is computed once. Sparse ones: kept as sparse Â X only while that stays
    about as sparse as X, otherwise Â (X W) and its transpose are formed in turn.
    """

    def __init__(self, graph: Graph, *, add_self_loops: bool) -> None:
        if graph.features is None:
            raise InputError(
                "the homophily predictor needs node features and this graph has none; pass "
                "Graph(..., features=x) or use homophily='support'."
            )
        self.adjacency = graph.normalised_adjacency(add_self_loops=add_self_loops)
        self.transposed = self.adjacency.T.tocsr()  # the backward pass reads it row by row
        features: Features = graph.features.astype(np.float32)
        self.n_features = int(features.shape[1])
        self.product: Features | None = None  # Â X where it is worth keeping
        self.features = features
        if not isinstance(features, sparse.csr_array) or self._stays_sparse(features):
            self.product = self.adjacency @ features

    def _stays_sparse(self, features: sparse.csr_array) -> bool:
        rows = np.unique(np.linspace(0, features.shape[0] - 1, SAMPLED_ROWS).astype(np.int64))
        entries = (self.adjacency[rows] @ features).nnz / len(rows)
        return bool(entries <= SPARSITY_BUDGET * max(features.nnz / features.shape[0], 1.0))

    def forward(self, weight: FloatArray) -> FloatArray:
        """Â X W, shape (n_nodes, hidden)."""
        if self.product is not None:
            return self.product @ weight
        return self.adjacency @ (self.features @ weight)

    def backward(self, gradient: FloatArray) -> FloatArray:
        """(Â X)^T G, shape (n_features, hidden)."""
        if self.product is not None:
            return self.product.T @ gradient
        return self.features.T @ (self.transposed @ gradient)


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
        """One vector from named arrays."""
        return np.concatenate([weights[name].ravel() for name in self.shapes]).astype(np.float32)

    def named(self, theta: FloatArray) -> Weights:
        """Views of a vector under their names."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(shape) for (name, shape), part in named}

    def forward(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The estimates (n_nodes,) and the hidden layer (n_nodes, hidden)."""
        weights = self.named(theta)
        hidden = self.propagation.forward(weights["input_weight"])
        hidden += weights["input_bias"]
        np.maximum(hidden, 0.0, out=hidden)
        output = self.propagation.adjacency @ (hidden @ weights["output_weight"])
        return expit(output + weights["output_bias"]), hidden

    def loss(self, supervised: IntArray, targets: FloatArray) -> _Loss:
        """Mean squared error at the supervised nodes, as an objective for Adam."""
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
