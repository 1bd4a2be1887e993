"""The nodes of a report: in a few numbers, and one by one with their neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.nodes import Nodes
from gnncal.graph.graph import Graph
from gnncal.graph.neighbours import neighbour_class_share

LISTED_NODES = 300
DRAWN_NEIGHBOURS = 24


@dataclass(frozen=True)
class EgoGraph:
    """A listed node with its neighbours; numbers are positions in the view of the drawn nodes."""

    centre: int
    neighbours: IntArray  # (n_drawn,)
    edges: IntArray  # (2, n) among the neighbours
    n_neighbours: int  # of which some may not be drawn


def most_changed(before: FloatArray, after: FloatArray, n_listed: int = LISTED_NODES) -> IntArray:
    """Return the nodes by the size of the change, largest first; equal changes by position."""
    return np.argsort(-np.abs(after - before), kind="stable")[:n_listed]


def neighbourhoods_to_draw(
    graph: Graph, nodes: IntArray, *, random_state: int = 0
) -> tuple[IntArray, list[EgoGraph]]:
    """Return the nodes to draw, and each of ``nodes`` with its neighbours among them."""
    generator = np.random.default_rng(random_state)
    circles = []
    for node in nodes.tolist():
        around = _neighbours(graph, node)
        n_neighbours = len(around)
        if n_neighbours > DRAWN_NEIGHBOURS:
            around = np.sort(generator.choice(around, DRAWN_NEIGHBOURS, replace=False))
        circles.append((node, around, n_neighbours))
    drawn = np.unique(np.concatenate([nodes, *(around for _, around, _ in circles)]))
    return drawn, [
        EgoGraph(
            int(np.searchsorted(drawn, node)),
            np.searchsorted(drawn, around),
            np.searchsorted(drawn, _edges_among(graph, around)),
            n_neighbours,
        )
        for node, around, n_neighbours in circles
    ]


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


@dataclass(frozen=True)
class ExplainedNodes:
    """How the model's confidence in its predictions becomes that of a method, for some nodes."""

    parts: tuple[str, ...]  # the model itself, then the parts of the method
    changes: FloatArray  # (n_nodes, n_parts) their sum is the confidence after


def explain_nodes(
    calibrator: Calibrator, record: Nodes, nodes: IntArray, before: FloatArray, after: FloatArray
) -> ExplainedNodes:
    """Take the confidence of ``nodes`` apart, (n,) before and after."""
    parts = tuple(calibrator.explain(record, node=int(nodes[0])).steps)
    changes = np.column_stack([before, after - before])  # of a method of one part
    if len(parts) > changes.shape[1]:
        found = [calibrator.explain(record, node=node).changes for node in nodes.tolist()]
        pairs = zip(found, record.predictions[nodes].tolist(), strict=True)
        changes = np.array([[change[c] for change in each.values()] for each, c in pairs])
    return ExplainedNodes(parts, changes)


def describe_nodes(
    labels: IntArray,
    predictions: IntArray,
    splits: Mapping[str, IntArray],
    class_names: Sequence[str],
    graph: Graph | None,
) -> dict[str, Any]:
    """Nodes, their classes, splits and edges in a few numbers, for the page."""
    n_classes = len(class_names)
    classes: dict[str, Any] = {"name": class_names}
    for name, nodes in splits.items():
        known = labels[nodes][labels[nodes] >= 0]
        classes[name] = np.bincount(known, minlength=n_classes)[:n_classes]
    classes["predicted"] = np.bincount(predictions, minlength=n_classes)
    return {
        "n_nodes": len(labels),
        "n_classes": n_classes,
        **{f"n_{name}": len(nodes) for name, nodes in splits.items()},
        "classes": classes,
        "structure": None if graph is None else _describe_structure(graph, labels),
    }


def _describe_structure(graph: Graph, labels: IntArray) -> dict[str, Any]:
    homophily = label_homophily(graph, labels)
    known = homophily[~np.isnan(homophily)]
    return {
        "n_edges": graph.n_edges,
        "n_isolated": int((graph.neighbour_counts(side=graph.all_sides) == 0).sum()),
        "undirected": graph.is_undirected,
        "mean_degree": graph.n_edges / graph.n_nodes,
        "mean_label_homophily": float(known.mean()) if known.size else None,
    }


def label_homophily(graph: Graph, labels: IntArray) -> FloatArray:
    """Return the share of a node's labelled neighbours with its label; NaN if unknown."""
    side, counted = graph.all_sides, labels >= 0
    return neighbour_class_share(graph, labels, labels, side=side, counted=counted)
