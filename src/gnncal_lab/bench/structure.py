"""Do structural statistics say anything about correctness that confidence and degree do not?

Statistics of nodes, their partial correlation with correctness, and the accuracy of nodes of
equal confidence but different homophily. True labels serve this diagnosis only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.data.probability import normalised_homophily
from gnncal.graph.graph import Graph

DAMPING = 0.85  # of PageRank
PAGERANK_TOLERANCE = 1e-12
PATHS_PER_BLOCK = 1 << 24  # two-step paths held at once when triangles are counted
LINKED = "homophily, nodes that send to some"
STATISTICS = ("homophily", LINKED, "clustering", "pagerank", "curvature")


def oracle_homophily(graph: Graph, labels: IntArray) -> FloatArray:
    """Return the share of a node's class among the nodes it sends to, self-loops included."""
    senders, receivers = graph.edge_index
    same = np.bincount(
        senders, weights=labels[senders] == labels[receivers], minlength=graph.n_nodes
    )
    count = graph.out_degree
    return np.divide(same, count, out=np.zeros(graph.n_nodes), where=count > 0)


def node_statistics(graph: Graph, labels: IntArray, n_classes: int) -> dict[str, FloatArray]:
    """Return the statistics of every node; NaN where one is not defined."""
    adjacency = undirected(graph)
    degree = np.diff(adjacency.indptr).astype(np.float64)
    triangles, total_degree = _common_neighbours(adjacency), adjacency @ degree
    linked = degree > 0
    pairs = degree * (degree - 1.0)
    clustering = np.divide(triangles, pairs, out=np.zeros_like(pairs), where=pairs > 0)
    mean_over_edges = np.divide(
        3.0 * triangles - total_degree, degree, out=np.full_like(degree, np.nan), where=linked
    )
    homophily = normalised_homophily(oracle_homophily(graph, labels), n_classes)
    return {
        "homophily": homophily,
        LINKED: np.where(graph.out_degree > 0, homophily, np.nan),
        "clustering": clustering,
        "pagerank": _pagerank(adjacency, degree),
        "curvature": 4.0 - degree + mean_over_edges,
    }


def undirected(graph: Graph) -> sparse.csr_array:
    """Return a matrix with ones where two different nodes share an edge in either direction."""
    matrix = graph.adjacency()
    matrix = sparse.csr_array(matrix + matrix.T)
    matrix.setdiag(0.0)
    matrix.eliminate_zeros()
    matrix.data[:] = 1.0
    return matrix


def _common_neighbours(adjacency: sparse.csr_array) -> FloatArray:
    """Sum over each node's edges of the number of common neighbours: twice its triangles."""
    degree = np.diff(adjacency.indptr)
    paths = np.cumsum(adjacency @ degree.astype(np.float64))
    cuts = np.flatnonzero(np.diff(paths // PATHS_PER_BLOCK)) + 1
    blocks = np.split(np.arange(len(degree)), cuts)
    return np.concatenate(
        [(adjacency[rows] @ adjacency).multiply(adjacency[rows]).sum(axis=1) for rows in blocks]
    )


def _pagerank(adjacency: sparse.csr_array, degree: FloatArray) -> FloatArray:
    n = len(degree)
    rank = np.full(n, 1.0 / n)
    share = np.divide(1.0, degree, out=np.zeros(n), where=degree > 0)
    while True:
        stranded = rank[degree == 0].sum() / n
        update = (1.0 - DAMPING) / n + DAMPING * (adjacency @ (rank * share) + stranded)
        if np.abs(update - rank).sum() < PAGERANK_TOLERANCE:
            return update
        rank = update


@dataclass(frozen=True)
class ResidualMoments:
    """Sums of squares and products of residuals: what correlations over many runs need."""

    n_nodes: int
    statistic: float
    correctness: float
    product: float


def residual_moments(
    statistic: FloatArray, correct: FloatArray, confidence: FloatArray, in_degree: IntArray
) -> ResidualMoments:
    """Return the moments after regressing both on an intercept, confidence and log(1 + in-
    degree)."""
    known = ~np.isnan(statistic)
    controls = np.stack(
        [np.ones(known.sum()), confidence[known], np.log1p(in_degree[known])], axis=1
    )
    both = np.stack([statistic[known], correct[known]], axis=1)
    fitted = controls @ np.linalg.lstsq(controls, both, rcond=None)[0]
    ours, theirs = (both - fitted).T
    return ResidualMoments(
        int(known.sum()), float(ours @ ours), float(theirs @ theirs), float(ours @ theirs)
    )


def correlation(moments: Iterable[ResidualMoments]) -> float:
    """Return the correlation of the residuals of all runs; NaN when one of them never varies."""
    total = np.sum([(m.statistic, m.correctness, m.product) for m in moments], axis=0)
    spread = np.sqrt(total[0] * total[1])
    return float(total[2] / spread) if spread > 0 else float("nan")


@dataclass(frozen=True)
class HomophilySplit:
    """Accuracy of nodes by confidence (rows) and, within it, by homophily (columns)."""

    confidence: list[float]  # (n_bins,) means
    accuracy: list[list[float]]  # (n_bins, n_groups), lowest homophily first
    gap: float  # mean over bins of highest minus lowest


def homophily_split(
    confidence: FloatArray,
    correct: FloatArray,
    homophily: FloatArray,
    *,
    n_groups: int,
    n_bins: int = 5,
) -> HomophilySplit:
    """Sort nodes into confidence quantiles, and each by rank of homophily into equal groups."""
    if len(confidence) < n_bins * n_groups:
        raise InputError(
            f"there are {len(confidence)} test nodes; {n_bins} quantiles of {n_groups} groups need "
            f"at least {n_bins * n_groups}."
        )
    by_confidence = np.argsort(confidence, kind="stable")
    means, accuracy = [], []
    for nodes in np.array_split(by_confidence, n_bins):
        nodes = np.sort(nodes)
        ranked = nodes[np.argsort(homophily[nodes], kind="stable")]
        means.append(float(confidence[nodes].mean()))
        accuracy.append(
            [float(correct[group].mean()) for group in np.array_split(ranked, n_groups)]
        )
    gap = float(np.mean([row[-1] - row[0] for row in accuracy]))
    return HomophilySplit(means, accuracy, gap)
