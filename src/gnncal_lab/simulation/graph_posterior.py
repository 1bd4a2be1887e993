r"""The exact class probabilities of a node, given the features and edges around it.

In this block model every node has its own homophily, one of a few equally frequent levels, which
is not known. With :math:`\tilde h = (K h - 1)/(K - 1)`, a node that draws a neighbour takes its
own class with probability :math:`\tilde h` and otherwise any class, all alike:

.. math:: \psi(y_r, h_r; y_s, h_s) = (1 - \tilde h)/K + \tilde h \, [y_r = y_s]

In a directed graph :math:`\tilde h` is that of the receiver, which draws its senders. In an
undirected graph it is not known which node drew the other, and it is the mean of both ends. What
is known of a node's class and level is passed along the edges (belief propagation): r rounds give
every node the posterior given all features and edges within r steps. On a tree that is exact. On a
graph it is exact but for short cycles, which are rare where the degree is small against the number
of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import normalised_homophily
from gnncal.graph.graph import Graph
from gnncal_lab.simulation.csbm import CSBM

SMALLEST_MESSAGE = 1e-300  # keeps ln 0 away where a level says that all neighbours are alike


@dataclass(frozen=True)
class Edges:
    """Every edge once, with what an edge says at each pair of levels."""

    senders: IntArray  # (n_edges,)
    receivers: IntArray  # (n_edges,)
    copying: FloatArray  # (n_levels, n_levels) h~ by the receiver's and the sender's level

    @classmethod
    def of(cls, graph: Graph, levels: FloatArray, n_classes: int) -> Edges:
        """Read the edges of a graph; an undirected one lists each of its edges twice."""
        normalised = normalised_homophily(levels, n_classes)
        senders, receivers = graph.edge_index
        if graph.is_undirected:
            once = senders < receivers
            copying = (normalised[:, None] + normalised) / 2.0
            return cls(senders[once], receivers[once], copying)
        copying = np.repeat(normalised[:, None], len(normalised), axis=1)
        return cls(senders, receivers, copying)

    def both_ways(self) -> tuple[IntArray, IntArray]:
        """Return senders and receivers of the messages along every edge, then back."""
        return (
            np.concatenate([self.senders, self.receivers]),
            np.concatenate([self.receivers, self.senders]),
        )


def feature_log_likelihood(model: CSBM, features: FloatArray) -> FloatArray:
    """ln p(x | y = c) up to a number that is the same for all classes, (n_nodes, n_classes)."""
    return features.astype(np.float64) @ model.class_means.T / model.sigma**2


def graph_posterior(
    model: CSBM, graph: Graph, levels: tuple[float, ...], *, radius: int
) -> FloatArray:
    """P(y_i = c | features and edges within ``radius`` steps of i), (n_nodes, n_classes)."""
    assert graph.features is not None
    log_likelihood = feature_log_likelihood(model, graph.features)
    edges = Edges.of(graph, np.array(levels), model.n_classes)
    return propagate(log_likelihood, edges, radius).sum(axis=2)


def propagate(log_likelihood: FloatArray, edges: Edges, rounds: int) -> FloatArray:
    """P(y, level) of every node after some rounds of messages, (n_nodes, n_classes, n_levels)."""
    n_nodes, n_classes = log_likelihood.shape
    n_levels = len(edges.copying)
    own = np.repeat(log_likelihood[:, :, None], n_levels, axis=2)  # levels are equally frequent
    origin, target = edges.both_ways()
    collect = sparse.csr_array(
        (np.ones(len(target)), (target, np.arange(len(target)))), shape=(n_nodes, len(target))
    )
    beliefs = own
    messages = np.zeros((len(target), *own.shape[1:]))  # logarithms
    for _ in range(rounds):
        backwards = np.roll(messages, len(edges.senders), axis=0)  # what came over the same edge
        messages = _messages(_normalised(beliefs[origin] - backwards), edges)
        flat = messages.reshape(len(target), n_classes * n_levels)
        beliefs = own + (collect @ flat).reshape(own.shape)
    return _normalised(beliefs)


def _messages(known: FloatArray, edges: Edges) -> FloatArray:
    """Return ln of the sum of psi over the sender's states, for each state of the receiver."""
    n_edges, n_classes = len(edges.senders), known.shape[1]
    heard = np.empty_like(known)
    for part, copying in (
        (slice(None, n_edges), edges.copying),  # the receiver hears the sender
        (slice(n_edges, None), edges.copying.T),
    ):
        copied = known[part] @ copying.T
        heard[part] = copied + (1.0 - copied.sum(axis=1, keepdims=True)) / n_classes
    return np.log(np.maximum(heard, SMALLEST_MESSAGE))


def _normalised(log_weights: FloatArray) -> FloatArray:
    """Return probabilities that sum to one over the last two axes."""
    weights = np.exp(log_weights - log_weights.max(axis=(1, 2), keepdims=True))
    weights /= weights.sum(axis=(1, 2), keepdims=True)
    return weights
