"""Groups of test nodes in which a model may be less trustworthy than on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.graph import Graph
from gnncal.metrics.groups import cells_of
from gnncal.metrics.outcomes import Outcomes

DEGREE_GROUPS = 6
HOMOPHILY_GROUPS = 5
FURTHEST_HOPS = 4  # and more


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
    low: FloatArray  # exact 95 % interval of the accuracy
    high: FloatArray


def make_groupings(
    graph: Graph | None,
    predictions: IntArray,
    support: FloatArray,
    train_nodes: IntArray,
    class_names: Sequence[str],
    name_of: Callable[[int], str],
) -> list[Grouping]:
    """Group nodes by predicted class and, with a graph, by degree, neighbours and region."""
    by_class = Grouping("class", "predicted class", class_names, predictions)
    if graph is None:
        return [by_class]
    groupings = [
        by_degree(graph.in_degree),
        by_support(support),
        by_class,
        by_region(graph, name_of),
    ]
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
    labels = [f"{100 * a:.0f} to {100 * b:.0f} %" for a, b in pairwise(edges)]
    isolated = np.isnan(support)
    group = np.searchsorted(edges[1:-1], np.where(isolated, 0.0, support), side="right")
    group = np.where(isolated, HOMOPHILY_GROUPS, group)
    return Grouping(
        "homophily",
        "support of the prediction among the neighbours",
        [*labels, "no neighbours"],
        group,
    )


def by_region(graph: Graph, name_of: Callable[[int], str]) -> Grouping:
    """Group by the nearest hub."""
    hubs = find_hubs(graph)
    region = nearest_source(graph, hubs).source
    labels = [f"around {name_of(hub)}" for hub in hubs.tolist()]
    group = np.where(region < 0, len(hubs), region)
    return Grouping("region", "region: nearest hub", [*labels, "apart from all hubs"], group)


def by_distance(graph: Graph, train_nodes: IntArray) -> Grouping:
    """Group by the hops to the nearest training node."""
    hops = nearest_source(graph, train_nodes).hops
    labels = ["0 hops", "1 hop", *(f"{k} hops" for k in range(2, FURTHEST_HOPS))]
    labels += [f"{FURTHEST_HOPS} hops or more", "out of reach"]
    group = np.where(hops < 0, FURTHEST_HOPS + 1, np.minimum(hops, FURTHEST_HOPS))
    return Grouping("distance", "hops to the nearest training node", labels, group)


def measure_groups(grouping: Grouping, outcomes: Outcomes, nodes: IntArray) -> GroupFindings:
    """Compare confidence and accuracy in each group of ``nodes``; empty groups are left out."""
    cells = cells_of(outcomes, grouping.group[nodes])
    low, high = cells.accuracy_interval()
    outside = np.maximum(cells.confidence - high, low - cells.confidence)
    order = np.lexsort((-np.abs(cells.gap), -np.maximum(outside, 0.0)))
    return GroupFindings(
        grouping.name,
        cells.group[order],
        [grouping.labels[group] for group in cells.group[order].tolist()],
        cells.count[order],
        cells.confidence[order],
        cells.accuracy[order],
        low[order],
        high[order],
    )


N_REGIONS = 10
CANDIDATES = 2000  # nodes of highest degree among which hubs are looked for
MAXIMUM_HOPS = 100  # what lies further away counts as out of reach


@dataclass(frozen=True)
class Nearest:
    """The source that is nearest to each node, and how many hops away it is."""

    source: IntArray  # (n_nodes,) position among the sources, -1 out of reach
    hops: IntArray  # (n_nodes,) -1 out of reach


def nearest_source(graph: Graph, sources: IntArray) -> Nearest:
    """Walk from all sources at once, along edges in either direction."""
    nobody = len(sources)
    source = np.full(graph.n_nodes, nobody, dtype=np.int64)
    hops = np.full(graph.n_nodes, -1, dtype=np.int64)
    source[sources[::-1]] = np.arange(len(sources))[::-1]
    hops[sources] = 0
    sides = [graph] if graph.is_undirected else [graph, graph.reversed]
    front = np.flatnonzero(hops == 0)
    missing = np.flatnonzero((hops < 0) & (sum(side.in_degree for side in sides) > 0))
    for distance in range(1, MAXIMUM_HOPS + 1):
        n_edges = [sum(int(side.in_degree[e].sum()) for side in sides) for e in (front, missing)]
        if n_edges[0] < n_edges[1]:
            _reach_from(front, sides, source, hops)
        else:
            _look_around(missing, sides, source)
        is_reached = source[missing] < nobody
        front, missing = missing[is_reached], missing[~is_reached]
        hops[front] = distance
        if not front.size or not missing.size:
            break
    return Nearest(np.where(source == nobody, -1, source), hops)


def _reach_from(front: IntArray, sides: list[Graph], source: IntArray, hops: IntArray) -> None:
    """Give the neighbours of the front that nobody has reached the first of their sources."""
    for graph in sides:
        reached, _, count = _edges_of(graph, front)
        fresh = hops[reached] < 0
        np.minimum.at(source, reached[fresh], np.repeat(source[front], count)[fresh])


def _look_around(missing: IntArray, sides: list[Graph], source: IntArray) -> None:
    """Give nodes that nobody has reached the first source of their neighbours."""
    nearest = source[missing]
    for graph in sides:
        around, start, count = _edges_of(graph, missing)
        filled = count > 0
        if filled.any():
            first = np.minimum.reduceat(source[around], start[filled])
            nearest[filled] = np.minimum(nearest[filled], first)
    source[missing] = nearest


def _edges_of(graph: Graph, nodes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the senders of some nodes, where those of each node begin, and how many it has."""
    begin = graph.indptr[nodes].astype(np.int64)
    count = graph.indptr[nodes + 1] - begin
    start = np.cumsum(count) - count
    place = np.repeat(begin - start, count)
    place += np.arange(place.size)
    return graph.indices[place], start, count


def find_hubs(graph: Graph, n_hubs: int = N_REGIONS) -> IntArray:
    """Return nodes of high degree that are not neighbours of each other, highest first."""
    degree = graph.in_degree + graph.out_degree
    ranked = np.argsort(-degree, kind="stable")[:CANDIDATES]
    undirected = graph.is_undirected
    hubs: list[int] = []
    taken: set[int] = set()
    for node in ranked[degree[ranked] > 0].tolist():
        if node in taken:
            continue
        hubs.append(node)
        if len(hubs) == n_hubs:
            break
        for side in (graph,) if undirected else (graph, graph.reversed):
            taken.update(side.indices[side.indptr[node] : side.indptr[node + 1]].tolist())
    return np.array(hubs, dtype=np.int64)
