"""Graphs from the libraries people already use. None of them is imported here."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gnncal.core.arrays import as_numpy
from gnncal.core.checks import warn_about_edge_weights
from gnncal.core.errors import InputError, shown
from gnncal.core.graph import Graph
from gnncal.core.pyg import from_pyg

__all__ = ["from_dgl", "from_networkx", "from_pyg", "from_scipy"]


def from_dgl(graph: Any, *, feature_key: str = "feat") -> Graph:
    """Make a graph from a homogeneous ``DGLGraph``.

    Parameters
    ----------
    graph : dgl.DGLGraph
        The graph; edge weights are ignored with a warning.
    feature_key : str, default="feat"
        Features are taken from ``graph.ndata[feature_key]``, if they exist.

    Returns
    -------
    Graph
        The same edges in gnncal's form.

    Raises
    ------
    InputError
        If it is no ``DGLGraph``.

    Examples
    --------
    >>> import dgl, gnncal  # doctest: +SKIP
    >>> gnncal.from_dgl(dgl.graph(([0, 1], [1, 2]))).n_edges  # doctest: +SKIP
    2

    """
    _check_kind(graph, ("edges", "num_nodes", "ndata", "edata"), "a DGLGraph")
    senders, receivers = (as_numpy(end) for end in graph.edges())
    if "w" in graph.edata or "weight" in graph.edata:
        warn_about_edge_weights("edata")
    edges = np.stack([senders, receivers])
    return Graph(edges, int(graph.num_nodes()), graph.ndata.get(feature_key))


def from_networkx(graph: Any) -> Graph:
    """Make a graph from NetworkX; nodes are numbered in the order of ``graph.nodes``.

    An undirected graph gives both directions of each edge; parallel edges of a multigraph count.

    Parameters
    ----------
    graph : networkx.Graph
        The graph, directed or not; edge weights are ignored with a warning.

    Returns
    -------
    Graph
        The same edges in gnncal's form.

    Raises
    ------
    InputError
        If it is no graph of NetworkX.

    Examples
    --------
    >>> import networkx as nx
    >>> from gnncal import from_networkx
    >>> from_networkx(nx.path_graph(3)).n_edges
    4

    """
    _check_kind(graph, ("nodes", "edges", "is_directed"), "a NetworkX graph")
    number = {node: i for i, node in enumerate(graph.nodes)}
    pairs = np.array([(number[u], number[v]) for u, v in graph.edges()], dtype=np.int64)
    edges = pairs.reshape(-1, 2).T
    if not graph.is_directed():
        proper = edges[0] != edges[1]  # a self-loop is its own reverse
        edges = np.concatenate([edges, edges[::-1, proper]], axis=1)
    if any(weight != 1 for _, _, weight in graph.edges(data="weight", default=1)):
        warn_about_edge_weights("weight")
    return Graph(edges, len(number))


def from_scipy(adjacency: Any, *, features: Any = None) -> Graph:
    """Make a graph from a square sparse matrix, whose entry (i, j) is an edge from i to j.

    Parameters
    ----------
    adjacency : scipy sparse matrix or array of shape (n_nodes, n_nodes)
        Non-zero entries are edges; weights other than 1 are ignored with a warning.
    features : array_like or sparse matrix of shape (n_nodes, n_features), optional
        Features of the nodes.

    Returns
    -------
    Graph
        The same edges in gnncal's form.

    Raises
    ------
    InputError
        If the matrix is not sparse or not square.

    Examples
    --------
    >>> from scipy import sparse
    >>> from gnncal import from_scipy
    >>> from_scipy(sparse.csr_array([[0, 1], [0, 0]])).in_degree
    array([0, 1], dtype=int32)

    """
    if not sparse.issparse(adjacency):
        raise InputError(
            f"adjacency is a {type(adjacency).__name__}; expected a SciPy sparse matrix."
        )
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"adjacency has shape {adjacency.shape}; expected a square matrix.")
    entries = sparse.coo_array(adjacency)
    entries.eliminate_zeros()
    if entries.nnz and not (entries.data == 1).all():
        warn_about_edge_weights("entries other than 1")
    return Graph(np.stack(entries.coords), adjacency.shape[0], features)


def _check_kind(graph: Any, attributes: tuple[str, ...], expected: str) -> None:
    if isinstance(graph, type) or not all(hasattr(graph, name) for name in attributes):
        raise InputError(f"graph is {shown(graph)}; expected {expected}.")
