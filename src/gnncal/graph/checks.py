"""Warnings about graphs: edges in one direction only, nodes in another order."""

from __future__ import annotations

import numpy as np

from gnncal.data.arrays import IntArray
from gnncal.data.errors import warn
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph

EDGES_LOOKED_AT = 20_000  # an even sample of them, so that the look costs milliseconds
FEWEST_EDGES = 20  # below, chance may leave every edge without its reverse
ONE_WAY_SHARE = 0.01  # directed graphs list 10% and more of their edges in both directions
ENOUGH_EDGES = 2_000  # to tell neighbours from nodes drawn at random
AGREEMENT = 2.0  # standard errors; on eight real graphs predictions without the graph had 4 to 200
MOST_ALIKE = 0.98  # chance of two equal predictions beyond which neighbours cannot show anything


def warn_about_graph(graph: Graph | EntityGraph, predictions: IntArray) -> None:
    """Warn, once for each graph, of edges in one direction only or of nodes in another order."""
    if isinstance(graph, EntityGraph) or "_is_known" in graph.__dict__:
        return
    graph.__dict__["_is_known"] = True  # like a cached property: it changes nothing of the graph
    senders, receivers = _sampled_edges(graph)
    share = reciprocal_edge_share(graph)
    hears, sends = graph.neighbour_counts(side="in") > 0, graph.neighbour_counts(side="out") > 0
    only_send = int((sends & ~hears).sum())
    if share is not None and share < ONE_WAY_SHARE and only_send:
        warn(
            f"almost no edge of the graph is listed in both directions, so {only_send:,} of "
            f"{graph.n_nodes:,} nodes send messages but receive none; if your model made the "
            "edges symmetric, pass the same graph: graph.to_undirected(), or PyTorch Geometric's "
            "ToUndirected()(data). If your model uses the directed graph, ignore this."
        )
    if senders.size < ENOUGH_EDGES:
        return
    one, other = predictions[senders], predictions[receivers]
    agreement = float((one == other).mean())
    shares = [
        np.bincount(each, minlength=predictions.max() + 1) / one.size for each in (one, other)
    ]
    chance = float(shares[0] @ shares[1])
    error = (chance * (1.0 - chance) / one.size) ** 0.5
    if chance < MOST_ALIKE and abs(agreement - chance) < AGREEMENT * error:
        warn(
            f"the ends of {agreement:.1%} of the edges have the same prediction, about as many as "
            f"of random pairs of nodes ({chance:.1%}), so graph and logits seem unrelated; check "
            "that edge_index numbers the nodes in the order of the rows of logits."
        )


def _sampled_edges(graph: Graph) -> tuple[IntArray, IntArray]:
    """Return senders and receivers of an even sample of the edges, self-loops left out."""
    chosen = np.linspace(0, graph.n_edges - 1, min(EDGES_LOOKED_AT, graph.n_edges)).astype(np.int64)
    senders = graph.indices[chosen].astype(np.int64)
    receivers = np.searchsorted(graph.indptr, chosen, side="right") - 1
    proper = senders != receivers
    return senders[proper], receivers[proper]


def reciprocal_edge_share(graph: Graph) -> float | None:
    """Return the share of edges whose reverse is listed too; None if there are few edges."""
    senders, receivers = _sampled_edges(graph)
    if senders.size < FEWEST_EDGES:
        return None
    return float(graph.adjacency(np.bool_)[senders, receivers].mean())
