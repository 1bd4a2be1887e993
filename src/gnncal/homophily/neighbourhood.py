"""What the neighbours of a node say about its prediction, as a few numbers without a scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.nodes import Nodes
from gnncal.core.probability import unchecked_softmax
from gnncal.homophily.normalised import normalised_homophily
from gnncal.homophily.share import neighbour_class_share

COVARIATES = (
    "support",  # normalised mean probability that the neighbours give to the predicted class
    "two_hop_support",  # the same among the neighbours' neighbours
    "neighbour_entropy",  # mean entropy of the neighbours' predictions
    "relative_confidence",  # confidence minus the neighbours' mean confidence
    "log_in_degree",  # ln(1 + in-degree) / 4
    "log_out_degree",  # ln(1 + out-degree) / 4
)
DEGREE_SCALE = 4.0  # brings the logarithm of a degree to the size of the others


@dataclass(frozen=True)
class Neighbourhood:
    """Every node's prediction and what its neighbours say about it."""

    predictions: IntArray  # (n_nodes,)
    entropy: FloatArray  # (n_nodes,) normalised entropy of the node's own prediction
    covariates: FloatArray  # (n_nodes, 6) in the order of COVARIATES; NaN without neighbours
    mean_probs: FloatArray  # (n_nodes, n_classes) of the neighbours; uniform without neighbours


def describe_neighbourhoods(nodes: Nodes) -> Neighbourhood:
    """Look at the senders and receivers of each node together.

    One sparse product of size nodes x classes for each direction of the edges, and a pass over
    the edges for two hops. An undirected graph has one direction.
    """
    graph, n_classes = nodes.required_graph, nodes.n_classes
    side, every = graph.all_sides, np.arange(nodes.n_nodes)
    predictions, entropy = nodes.predictions, nodes.entropy
    probs = unchecked_softmax(nodes.logits)  # after the entropy, which needs as much memory
    confidence = probs[every, predictions].astype(np.float64)
    probs = _columns(probs, entropy, confidence)
    means = graph.neighbour_mean(probs, side=side)
    del probs
    mean_probs = means[:, :n_classes]
    mean_entropy, mean_confidence = means[:, n_classes:].astype(np.float64).T
    isolated = graph.neighbour_counts(side=side) == 0
    mean_probs[isolated] = 1.0 / n_classes
    support = mean_probs[every, predictions].astype(np.float64)
    two_hops = neighbour_class_share(graph, predictions, lambda c: mean_probs[:, c], side=side)
    covariates = np.stack(
        [
            np.where(isolated, np.nan, normalised_homophily(support, n_classes)),
            normalised_homophily(two_hops, n_classes),
            mean_entropy,
            confidence - mean_confidence,
            np.log1p(graph.in_degree) / DEGREE_SCALE,
            np.log1p(graph.out_degree) / DEGREE_SCALE,
        ],
        axis=1,
    )
    return Neighbourhood(predictions, entropy, covariates, mean_probs)


def _columns(probs: FloatArray, *more: FloatArray) -> FloatArray:
    """Put more columns beside the probabilities, in their precision."""
    return np.column_stack([probs, *(column.astype(probs.dtype) for column in more)])
