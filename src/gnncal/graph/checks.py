"""Checks of graphs: their kind, edges in one direction only, nodes in another order."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data.arrays import IntArray, backend_of
from gnncal.data.constraints import NONE, one_of
from gnncal.data.errors import InputError, warn
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, Side
from gnncal.graph.neighbours import Neighbours

# The kinds of graph that a fit remembers; it looks for reverse edges only where both ends count.
ENTITIES, EDGES, UNDIRECTED = "entities", "edges", "undirected edges"
KIND = one_of(ENTITIES, EDGES, UNDIRECTED) | NONE

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
    if (reason := wrong_order_of_edges(graph, predictions)) is not None:
        warn(reason)


def wrong_order_of_edges(graph: Graph | EntityGraph | None, predictions: IntArray) -> str | None:
    """Return why edges seem not to follow the order of the logits; None if they seem to."""
    if not isinstance(graph, Graph):
        return None
    senders, receivers = _sampled_edges(graph)
    if senders.size < ENOUGH_EDGES:
        return None
    one, other = predictions[senders], predictions[receivers]
    agreement = float((one == other).mean())
    shares = [
        np.bincount(each, minlength=predictions.max() + 1) / one.size for each in (one, other)
    ]
    chance = float(shares[0] @ shares[1])
    error = (chance * (1.0 - chance) / one.size) ** 0.5
    if chance >= MOST_ALIKE or abs(agreement - chance) >= AGREEMENT * error:
        return None
    return (
        f"the ends of {agreement:.1%} of the edges have the same prediction, about as many as of "
        f"random pairs of nodes ({chance:.1%}), so the edges seem not to follow the order of the "
        "logits; check that edge_index numbers the nodes in the order of the rows of logits."
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


def check_kind(name: str, fitted: str | None, *, are_entities: bool) -> None:
    """Raise an InputError if a calibrator meets another kind of graph than in its fit."""
    if fitted is None or are_entities == (fitted == ENTITIES):
        return
    edges, entities = "edges between nodes (a Graph)", "shared entities (an EntityGraph)"
    was, given = (edges, entities) if are_entities else (entities, edges)
    raise InputError(
        f"{name} was fitted on {was}, and this graph has {given}; pass a graph of the same kind, "
        "or fit again on this one."
    )


def missing_reverse_edges(
    fitted: str | None, neighbours: Neighbours, reach: tuple[int, Side] | None, rows: Any = None
) -> str | None:
    """Say that nodes lack the reverse edges that the graph of the fit had, if they do.

    ``rows`` are the nodes in question, each of which must have all. If they are unknown, one node
    that has all is enough: the others may only lend their neighbourhood.
    """
    hops, side = reach or (0, "in")
    if fitted != UNDIRECTED or side != "both" or hops == 0:
        return None
    # All edges to a node are there, or none; with all their reverses it sends as many.
    lacks = neighbours.in_degree != neighbours.out_degree
    if not lacks.any():
        return None
    xp = backend_of(neighbours.in_degree)
    for _ in range(hops - 1):
        column = xp.column(xp.as_number(lacks, neighbours.in_degree))
        lacks = lacks | (neighbours.mean(column, "both")[:, 0] > 0)
    chosen = lacks[neighbours.counts("both") > 0] if rows is None else lacks[rows]
    n_lacking = int(chosen.sum())
    if n_lacking == 0 or (rows is None and n_lacking < len(chosen)):
        return None
    return (
        f"{n_lacking:,} of these {len(chosen):,} nodes depend on an edge without its reverse, and "
        "every edge of the fit had its reverse: edges seem to be missing, which changes the "
        "probabilities; pass all nodes within "
        f"{hops} hop{'s' * (hops > 1)} of the nodes in question, along edges in both directions, "
        "and all edges among them."
    )
