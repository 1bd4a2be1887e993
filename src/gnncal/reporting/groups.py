"""Groups of test nodes in which a model may be less trustworthy than on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.graph import Graph
from gnncal.metrics.binning import cells_of
from gnncal.metrics.outcomes import Outcomes

DEGREE_GROUPS = 6
HOMOPHILY_GROUPS = 5


@dataclass(frozen=True)
class Grouping:
    """A way to sort nodes into named groups."""

    name: str
    title: str  # what the groups are groups of
    labels: Sequence[str]
    group: IntArray  # (n_nodes,) position among the labels, -1 for nodes in no group


def make_groupings(
    graph: Graph | None, predictions: IntArray, support: FloatArray, class_names: Sequence[str]
) -> list[Grouping]:
    """Group nodes by predicted class and, with a graph, by degree and neighbours."""
    by_class = Grouping("class", "predicted class", class_names, predictions)
    if graph is None:
        return [by_class]
    return [by_degree(graph.in_degree), by_support(support), by_class]


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
    return Grouping("homophily", "support", [*labels, "no neighbours"], group)


def measure_groups(grouping: Grouping, outcomes: Outcomes, nodes: IntArray) -> dict[str, Any]:
    """Compare confidence and accuracy in each group of ``nodes`` that has some, worst one first."""
    cells = cells_of(outcomes, grouping.group[nodes])
    low, high = cells.accuracy_interval()
    outside = np.maximum(cells.confidence - high, low - cells.confidence)
    order = np.lexsort((-np.abs(cells.gap), -np.maximum(outside, 0.0)))
    labels = [grouping.labels[group] for group in cells.group[order].tolist()]
    columns = vars(cells) | {"low": low, "high": high}
    ordered = {name: each[order] for name, each in columns.items()}
    return {"name": grouping.name, "labels": labels, **ordered}
