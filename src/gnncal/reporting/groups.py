"""Groups of test nodes in which a model may be less trustworthy than on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.graph import Graph
from gnncal.metrics.binning import cells_of
from gnncal.metrics.outcomes import Outcomes

DEGREE_GROUPS = 6
HOMOPHILY_GROUPS = 5
FURTHEST_HOPS = 4  # and more
MAXIMUM_HOPS = 100  # what lies further away counts as out of reach


@dataclass(frozen=True)
class Grouping:
    """A way to sort nodes into named groups."""

    name: str
    title: str  # what the groups are groups of
    labels: Sequence[str]
    group: IntArray  # (n_nodes,) position among the labels, -1 for nodes in no group


@dataclass(frozen=True)
class GroupFindings:
    """Confidence and accuracy in the groups of one grouping, worst calibrated first."""

    name: str
    group: IntArray  # (n_groups,) position in the grouping; names may be the same
    labels: Sequence[str]
    count: IntArray  # (n_groups,)
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray  # exact 95% interval of the accuracy
    high: FloatArray


def make_groupings(
    graph: Graph | None,
    predictions: IntArray,
    support: FloatArray,
    train_nodes: IntArray,
    class_names: Sequence[str],
) -> list[Grouping]:
    """Group nodes by predicted class and, with a graph, by degree, neighbours and distance."""
    by_class = Grouping("class", "predicted class", class_names, predictions)
    if graph is None:
        return [by_class]
    groupings = [by_degree(graph.in_degree), by_support(support), by_class]
    if train_nodes.size:
        groupings.append(by_distance(graph, train_nodes))
    return groupings


def by_degree(in_degree: IntArray) -> Grouping:
    """Group nodes of similar in-degree, as equal in size as whole degrees allow."""
    ends = np.quantile(
        in_degree, np.arange(1, DEGREE_GROUPS) / DEGREE_GROUPS, method="inverted_cdf"
    )
    upper = np.unique(np.append(ends, in_degree.max())).astype(np.int64)
    lower = np.append(in_degree.min(), upper[:-1] + 1)
    labels = [
        f"{low:,}" if low == high else f"{low:,} to {high:,}"
        for low, high in zip(lower.tolist(), upper.tolist(), strict=True)
    ]
    return Grouping("degree", "in-degree", labels, np.searchsorted(upper, in_degree))


def by_support(support: FloatArray) -> Grouping:
    """Group by the probability that the neighbours give to the prediction; NaN: no neighbours."""
    edges = np.arange(HOMOPHILY_GROUPS + 1) / HOMOPHILY_GROUPS
    labels = [f"{100 * a:.0f} to {100 * b:.0f}%" for a, b in pairwise(edges)]
    isolated = np.isnan(support)
    group = np.searchsorted(edges[1:-1], np.where(isolated, 0.0, support), side="right")
    group = np.where(isolated, HOMOPHILY_GROUPS, group)
    title = "support of the prediction among the neighbours"
    return Grouping("homophily", title, [*labels, "no neighbours"], group)


def by_distance(graph: Graph, train_nodes: IntArray) -> Grouping:
    """Group by the hops to the nearest training node."""
    hops = hops_from(graph, train_nodes)
    labels = ["0 hops", "1 hop", *(f"{k} hops" for k in range(2, FURTHEST_HOPS))]
    labels += [f"{FURTHEST_HOPS} hops or more", "out of reach"]
    group = np.where(hops < 0, FURTHEST_HOPS + 1, np.minimum(hops, FURTHEST_HOPS))
    return Grouping("distance", "hops to the nearest training node", labels, group)


def hops_from(graph: Graph, sources: IntArray) -> IntArray:
    """Return the hops to the nearest source along edges in either direction; -1 out of reach."""
    hops = np.full(graph.n_nodes, -1, dtype=np.int64)
    hops[sources] = 0
    sides = [_matrix(graph)] if graph.is_undirected else [_matrix(graph), _matrix(graph.reversed)]
    front = np.unique(sources)
    for distance in range(1, MAXIMUM_HOPS + 1):
        around = np.concatenate([side[front].indices for side in sides])
        hops[around[hops[around] < 0]] = distance
        front = np.flatnonzero(hops == distance)
        if not front.size:
            break
    return hops


def _matrix(graph: Graph) -> sparse.csr_array:
    """Return who sends to each node; the entries of a row are its senders."""
    ones = np.ones(graph.indices.size, dtype=np.int8)
    return sparse.csr_array((ones, graph.indices, graph.indptr), shape=(graph.n_nodes,) * 2)


def measure_groups(grouping: Grouping, outcomes: Outcomes, nodes: IntArray) -> GroupFindings:
    """Compare confidence and accuracy in each group of ``nodes``; empty groups are left out."""
    cells = cells_of(outcomes, grouping.group[nodes])
    low, high = cells.accuracy_interval()
    outside = np.maximum(cells.confidence - high, low - cells.confidence)
    order = np.lexsort((-np.abs(cells.gap), -np.maximum(outside, 0.0)))
    ordered = {
        name: each[order] for name, each in (vars(cells) | {"low": low, "high": high}).items()
    }
    labels = [grouping.labels[group] for group in ordered["group"].tolist()]
    return GroupFindings(name=grouping.name, labels=labels, **ordered)
