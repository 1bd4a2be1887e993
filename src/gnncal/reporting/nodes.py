"""The nodes of a report: in a few numbers, and one by one with their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.nodes import Nodes
from gnncal.graph.graph import Graph
from gnncal.graph.neighbours import neighbour_class_share
from gnncal.reporting.input import ReportInput

LISTED_NODES = 300
DRAWN_NEIGHBOURS = 24


def most_changed(before: FloatArray, after: FloatArray, n_listed: int = LISTED_NODES) -> IntArray:
    """Return the nodes by the size of the change, largest first; equal changes by position."""
    return np.argsort(-np.abs(after - before), kind="stable")[:n_listed]


def neighbourhoods_to_draw(graph: Graph, nodes: IntArray) -> tuple[IntArray, list[dict[str, Any]]]:
    """Return the nodes to draw, and what is around each of ``nodes``, by position among them."""
    generator = np.random.default_rng(0)
    sides = (graph,) if graph.is_undirected else (graph, graph.reversed)
    circles = []
    for node in nodes.tolist():
        ends = [side.indices[side.indptr[node] : side.indptr[node + 1]] for side in sides]
        around = np.setdiff1d(np.concatenate(ends), [node]).astype(np.int64)
        n_neighbours = len(around)
        if n_neighbours > DRAWN_NEIGHBOURS:
            around = np.sort(generator.choice(around, DRAWN_NEIGHBOURS, replace=False))
        circles.append((node, around, n_neighbours))
    drawn = np.unique(np.concatenate([nodes, *(around for _, around, _ in circles)]))
    return drawn, [
        {
            "centre": int(np.searchsorted(drawn, node)),
            "neighbours": np.searchsorted(drawn, around),
            "edges": np.searchsorted(drawn, _edges_among(graph, around)),  # (2, n)
            "n_neighbours": n_neighbours,  # of which some may not be drawn
        }
        for node, around, n_neighbours in circles
    ]


def _edges_among(graph: Graph, nodes: IntArray) -> IntArray:
    """(2, n) edges between some nodes, each pair once."""
    pairs = []
    for receiver in nodes.tolist():
        senders = graph.indices[graph.indptr[receiver] : graph.indptr[receiver + 1]]
        inside = senders[np.isin(senders, nodes)]  # no sort: a hub has many senders
        pairs += [(min(s, receiver), max(s, receiver)) for s in inside.tolist() if s != receiver]
    return np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2).T


def explain_nodes(
    calibrator: Calibrator, record: Nodes, nodes: IntArray, before: FloatArray, after: FloatArray
) -> dict[str, Any]:
    """Take the confidence of ``nodes`` apart: changes (n, n_parts) add up to the one after."""
    parts = tuple(calibrator.explain(record, node=int(nodes[0])).steps)
    changes = np.column_stack([before, after - before])  # of a method of one part
    if len(parts) > changes.shape[1]:
        found = [calibrator.explain(record, node=node).changes for node in nodes.tolist()]
        pairs = zip(found, record.predictions[nodes].tolist(), strict=True)
        changes = np.array([[change[c] for change in each.values()] for each, c in pairs])
    return {"parts": parts, "changes": changes}


def describe_nodes(given: ReportInput) -> dict[str, Any]:
    """Nodes, their classes, splits and edges in a few numbers, for the page."""
    labels, splits, graph = given.labels, given.splits, given.graph
    n_classes, structure = len(given.class_names), None
    classes: dict[str, Any] = {"name": given.class_names}
    for name, nodes in splits.items():
        known = labels[nodes][labels[nodes] >= 0]
        classes[name] = np.bincount(known, minlength=n_classes)[:n_classes]
    classes["predicted"] = np.bincount(given.record.predictions, minlength=n_classes)
    if graph is not None:
        side = graph.all_sides
        homophily = neighbour_class_share(graph, labels, labels, side=side, counted=labels >= 0)
        found = homophily[~np.isnan(homophily)]
        structure = {
            "n_edges": graph.n_edges,
            "n_isolated": int((graph.neighbour_counts(side=side) == 0).sum()),
            "undirected": graph.is_undirected,
            "mean_degree": graph.n_edges / graph.n_nodes,
            "mean_label_homophily": float(found.mean()) if found.size else None,
        }
    return {
        "n_nodes": len(labels),
        "n_classes": n_classes,
        **{f"n_{name}": len(nodes) for name, nodes in splits.items()},
        "classes": classes,
        "structure": structure,
    }
