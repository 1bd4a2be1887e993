"""The predictor's network: a two-layer GCN with hand-written gradients.

.. math:: \\hat h = \\sigma(\\hat A \\, \\mathrm{ReLU}(\\hat A X W_1 + b_1) w_2 + b_2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Features, Graph
from gnncal.homophily.base import CannotLearnError, Weights

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
