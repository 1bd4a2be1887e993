"""How alike a node's logits are to those of its neighbours, edge by edge."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gnncal import Graph
from gnncal_lab.arrays import FloatArray

NUMBERS_AT_ONCE = 1 << 20  # temporaries of that many numbers are reused quickly
LARGEST_LOGIT = 1e100  # its square still fits a float64


def neighbour_similarity(logits: FloatArray, graph: Graph) -> FloatArray:
    """Mean of sigmoid(z_i . z_j) over the senders j to each node i, 0 without any; (n_nodes,)."""
    sums, width = np.zeros(graph.n_nodes), max(NUMBERS_AT_ONCE // logits.shape[1], 1)
    for first in range(0, graph.n_edges, width):
        senders = graph.indices[first : first + width]
        edges = np.arange(first, first + len(senders))
        receivers = np.searchsorted(graph.indptr, edges, side="right") - 1
        ends = (logits[rows].astype(np.float64) for rows in (senders, receivers))
        bounded = (np.clip(end, -LARGEST_LOGIT, LARGEST_LOGIT, out=end) for end in ends)
        similar = expit(np.einsum("ek,ek->e", *bounded))
        similar[senders == receivers] = 0.0
        found = np.bincount(receivers - receivers[0], similar)
        sums[receivers[0] : receivers[0] + len(found)] += found
    return sums / np.maximum(graph.neighbour_counts(side="in"), 1)
