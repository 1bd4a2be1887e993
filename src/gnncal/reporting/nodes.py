"""Single nodes: those whose confidence changed most, and the neighbours around each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.graph import Graph
from gnncal.graph.neighbours import neighbour_class_share
from gnncal.math.structural import Neighbourhood, centred, entropy_temperature

LISTED_NODES = 300
DRAWN_NEIGHBOURS = 24


@dataclass(frozen=True)
class NodeView:
    """What is known of some nodes; every array has one entry for each node."""

    node: IntArray  # index in the graph
    name: Sequence[str]
    split: Sequence[str]  # train, calibration, test, or nothing
    prediction: IntArray  # of the model
    label: IntArray  # -1 unknown
    in_degree: IntArray
    entropy: FloatArray
    support: FloatArray  # NaN without neighbours
    confidence: FloatArray  # of the model
    calibrated: Mapping[str, FloatArray]  # by method: probability of the model's prediction
    predicted: Mapping[str, IntArray]  # by method that may change predictions
    temperature: Mapping[str, FloatArray]  # by method that has one


@dataclass(frozen=True)
class Surroundings:
    """A listed node with its neighbours; numbers are positions in the view of the drawn nodes."""

    centre: int
    neighbours: IntArray  # (n_drawn,)
    edges: IntArray  # (2, n) among the neighbours
    n_neighbours: int  # of which some may not be drawn


def most_changed(before: FloatArray, after: FloatArray, n_listed: int = LISTED_NODES) -> IntArray:
    """Return the nodes by the size of the change, largest first; equal changes by position."""
    change = np.abs(after - before)
    n_listed = min(n_listed, len(change))
    smallest = np.partition(change, len(change) - n_listed)[len(change) - n_listed]
    candidates = np.flatnonzero(change >= smallest)
    return candidates[np.argsort(-change[candidates], kind="stable")][:n_listed]


def look_around(
    graph: Graph, nodes: IntArray, *, random_state: int = 0
) -> tuple[IntArray, list[Surroundings]]:
    """Return the nodes to draw, and the surroundings of each of ``nodes`` among them."""
    generator = np.random.default_rng(random_state)
    circles = []
    for node in nodes.tolist():
        around = _neighbours(graph, node)
        n_neighbours = len(around)
        if n_neighbours > DRAWN_NEIGHBOURS:
            around = np.sort(generator.choice(around, DRAWN_NEIGHBOURS, replace=False))
        circles.append((node, around, n_neighbours))
    drawn = np.unique(np.concatenate([nodes, *(around for _, around, _ in circles)]))
    surroundings = [
        Surroundings(
            int(np.searchsorted(drawn, node)),
            np.searchsorted(drawn, around),
            np.searchsorted(drawn, _edges_among(graph, around)),
            n_neighbours,
        )
        for node, around, n_neighbours in circles
    ]
    return drawn, surroundings


def _neighbours(graph: Graph, node: int) -> IntArray:
    """Return the other nodes that send to a node or receive from it, sorted."""
    sides = (graph,) if graph.is_undirected else (graph, graph.reversed)
    ends = [side.indices[side.indptr[node] : side.indptr[node + 1]] for side in sides]
    around = np.unique(np.concatenate(ends)).astype(np.int64)
    return around[around != node]


def _edges_among(graph: Graph, nodes: IntArray) -> IntArray:
    """(2, n) edges between some nodes, each pair once."""
    pairs = []
    for receiver in nodes.tolist():
        senders = graph.indices[graph.indptr[receiver] : graph.indptr[receiver + 1]]
        inside = senders[np.isin(senders, nodes)]  # no sort: a hub has many senders
        pairs += [(min(s, receiver), max(s, receiver)) for s in inside.tolist() if s != receiver]
    return np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2).T


COVARIATE_TITLES = (
    "support among the neighbours",
    "support two hops away",
    "neighbours' uncertainty",
    "confidence relative to the neighbours",
    "in-degree",
    "out-degree",
)


@dataclass(frozen=True)
class Explanation:
    """A temperature as a product of parts, for some nodes."""

    parts: tuple[str, ...]  # what each factor is
    factors: FloatArray  # (n_nodes, n_parts) their product is the temperature
    note: str


def explain(
    calibrator: Calibrator, around: Neighbourhood, temperature: FloatArray, nodes: IntArray
) -> Explanation | None:
    """Take the temperatures of ``nodes`` apart, or return None for methods without a law."""
    for kind, explained in _LAWS.items():
        if isinstance(calibrator, kind):
            return explained(calibrator, around, temperature, nodes)
    return None


def _one_for_all(
    calibrator: TemperatureScaling,
    around: Neighbourhood,
    temperature: FloatArray,
    nodes: IntArray,
) -> Explanation:
    return Explanation(
        ("one temperature for every node",),
        temperature[nodes, None],
        "This method does not look at the node or its neighbours.",
    )


def _structural(
    calibrator: Structural, around: Neighbourhood, temperature: FloatArray, nodes: IntArray
) -> Explanation:
    entropy = around.entropy[nodes]
    certain, uncertain = calibrator.certain_temperature_, calibrator.uncertain_temperature_
    level = entropy_temperature(entropy, certain, uncertain)
    s = centred(around.covariates[nodes], calibrator.centre_)
    neighbourhood = np.exp(s * calibrator.weights_)
    offset = np.exp(calibrator.class_offsets_[around.predictions[nodes]])
    return Explanation(
        ("the model's own certainty", *COVARIATE_TITLES, "predicted class"),
        np.column_stack([level, neighbourhood, offset]),
        "Factors above 1 lower the confidence, factors below 1 raise it. A typical neighbourhood "
        f"has factors of 1. The product is kept between 1/148 and 148.{_ceiling(calibrator)}",
    )


def _ceiling(calibrator: Structural) -> str:
    """Say how confident the floor lets a node be, unless that is 100.0 %."""
    highest = f"{100 * (1 - calibrator.floor_.sum() + calibrator.floor_.max()):.1f} %"
    if highest == "100.0 %":
        return ""
    return f" No confidence is above {highest}: the labels of the fit cannot show more."


def _homophily(
    calibrator: HoTS, around: Neighbourhood, temperature: FloatArray, nodes: IntArray
) -> Explanation:
    base = calibrator.base_temperature_
    return Explanation(
        ("base temperature", "certainty and homophily"),
        np.column_stack([np.full(len(nodes), base), temperature[nodes] / base]),
        "The less the neighbours agree and the more certain the model is, the higher the second "
        "factor.",
    )


_LAWS: dict[type, Callable[..., Explanation]] = {
    Structural: _structural,
    HoTS: _homophily,
    TemperatureScaling: _one_for_all,
}


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
