"""Warn of edges that are listed in one direction only, so that many nodes lack neighbours."""

from __future__ import annotations

import numpy as np

from gnncal.core.arrays import BoolArray, IntArray
from gnncal.core.errors import warn
from gnncal.core.graph import Graph

EDGES_LOOKED_AT = 20_000  # an even sample of them, so that the look costs milliseconds
FEWEST_EDGES = 20  # below, chance may leave every edge without its reverse
ONE_WAY_SHARE = 0.01  # directed graphs list 10 % and more of their edges in both directions
NOTICED = "_one_way_noticed"  # marks a graph whose user has been told


def warn_if_one_way(graph: Graph) -> None:
    """Warn, once for each graph, that its edges seem to be listed in one direction only."""
    if NOTICED in graph.__dict__:
        return
    graph.__dict__[NOTICED] = True  # like a cached property: it changes nothing of the graph
    share = answered_share(graph)
    only_send = _only_sending(graph)
    if share is None or share >= ONE_WAY_SHARE or only_send == 0:
        return
    warn(
        f"almost no edge of the graph is listed in both directions, so {only_send:,} of "
        f"{graph.n_nodes:,} nodes send messages but receive none; if your model made the "
        "edges symmetric, pass the same graph: graph.to_undirected(), or PyTorch Geometric's "
        "ToUndirected()(data). If your model uses the directed graph, ignore this."
    )


def answered_share(graph: Graph) -> float | None:
    """Return the share of edges whose reverse is listed too; None if there are few edges."""
    if graph.n_edges < FEWEST_EDGES:
        return None
    chosen = np.unique(np.linspace(0, graph.n_edges - 1, EDGES_LOOKED_AT).astype(np.int64))
    senders = graph.indices[chosen].astype(np.int64)
    receivers = np.searchsorted(graph.indptr, chosen, side="right") - 1
    proper = senders != receivers
    if proper.sum() < FEWEST_EDGES:
        return None
    return float(_has_edge(graph, receivers[proper], senders[proper]).mean())


def _has_edge(graph: Graph, senders: IntArray, receivers: IntArray) -> BoolArray:
    """Return whether the graph has each edge, by bisection among the receiver's senders."""
    low, high = graph.indptr[receivers].astype(np.int64), graph.indptr[receivers + 1]
    end = high = high.astype(np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        is_below = graph.indices[np.minimum(middle, graph.n_edges - 1)] < senders
        low, high = (
            np.where((low < high) & is_below, middle + 1, low),
            np.where((low < high) & ~is_below, middle, high),
        )
    return (low < end) & (graph.indices[np.minimum(low, graph.n_edges - 1)] == senders)


def _only_sending(graph: Graph) -> int:
    """Return how many nodes send to another node but receive from none."""
    hears = graph.neighbour_counts(side="in") > 0
    return int((~hears & (graph.neighbour_counts(side="out") > 0)).sum())
