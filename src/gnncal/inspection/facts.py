"""What was calibrated: the nodes and their splits, the graph's degrees and its homophily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Graph

HOMOPHILY_BINS = 20


@dataclass(frozen=True)
class Histogram:
    """How many nodes lie in each interval."""

    lower: FloatArray  # (n_bins,)
    upper: FloatArray  # (n_bins,)
    count: IntArray  # (n_bins,)


@dataclass(frozen=True)
class ClassCounts:
    """How many nodes of each class there are in each split, and how many are predicted."""

    name: Sequence[str]
    train: IntArray  # (n_classes,) by label
    calibration: IntArray
    test: IntArray
    predicted: IntArray  # of all nodes


@dataclass(frozen=True)
class Structure:
    """The edges of a graph in a few numbers."""

    n_edges: int
    n_isolated: int  # nodes without any neighbour
    undirected: bool
    mean_degree: float
    degree: Histogram  # in-degrees
    support: Histogram  # of the prediction among the neighbours: the estimated homophily
    label_homophily: Histogram | None  # where a node and a neighbour of it are labelled
    mean_label_homophily: float | None


@dataclass(frozen=True)
class GraphFacts:
    """Nodes, their classes and splits in a few numbers."""

    n_nodes: int
    n_classes: int
    n_train: int
    n_calibration: int
    n_test: int
    classes: ClassCounts
    structure: Structure | None  # None without a graph


def label_homophily(graph: Graph, labels: IntArray) -> FloatArray:
    """Return the share of a node's labelled neighbours with its label; NaN if unknown."""
    known = labels >= 0
    return neighbour_class_share(
        graph,
        labels,
        labels,
        side=graph.all_sides,
        counted=known,
    )


def describe_nodes(
    labels: IntArray,
    predictions: IntArray,
    splits: dict[str, IntArray],
    class_names: Sequence[str],
    structure: Structure | None,
) -> GraphFacts:
    """Collect the facts; ``splits`` has the nodes of train, calibration and test."""
    n_classes = len(class_names)

    def counts(nodes: IntArray) -> IntArray:
        classes = labels[nodes]
        return np.bincount(classes[classes >= 0], minlength=n_classes)[:n_classes]

    return GraphFacts(
        n_nodes=len(labels),
        n_classes=n_classes,
        n_train=len(splits["train"]),
        n_calibration=len(splits["calibration"]),
        n_test=len(splits["test"]),
        classes=ClassCounts(
            class_names,
            counts(splits["train"]),
            counts(splits["calibration"]),
            counts(splits["test"]),
            np.bincount(predictions, minlength=n_classes),
        ),
        structure=structure,
    )


def describe_structure(graph: Graph, labels: IntArray, support: FloatArray) -> Structure:
    """Collect what the edges say, with the support of each prediction among its neighbours."""
    homophily = label_homophily(graph, labels)
    known = ~np.isnan(homophily)
    return Structure(
        n_edges=graph.n_edges,
        n_isolated=int((graph.neighbour_counts(side=graph.all_sides) == 0).sum()),
        undirected=graph.is_undirected,
        mean_degree=graph.n_edges / graph.n_nodes,
        degree=degree_histogram(graph.in_degree),
        support=share_histogram(support),
        label_homophily=share_histogram(homophily) if known.any() else None,
        mean_label_homophily=float(homophily[known].mean()) if known.any() else None,
    )


def share_histogram(shares: FloatArray) -> Histogram:
    """Count shares in equally wide intervals of [0, 1]; NaN is left out."""
    count, edges = np.histogram(shares[~np.isnan(shares)], HOMOPHILY_BINS, (0.0, 1.0))
    return Histogram(edges[:-1], edges[1:], count)


def degree_histogram(degree: IntArray) -> Histogram:
    """Count degrees in intervals that double: 0, 1, 2-3, 4-7, 8-15 and so on."""
    top = int(degree.max(initial=0))
    lower = np.array([0, *(1 << k for k in range(top.bit_length()))])
    upper = np.append(lower[1:], max(2 * int(lower[-1]), 1)) - 1
    count = np.bincount(np.searchsorted(lower, degree, side="right") - 1, minlength=len(lower))
    return Histogram(lower.astype(np.float64), upper.astype(np.float64), count)
