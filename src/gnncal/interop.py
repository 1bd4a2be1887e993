"""Graphs from the libraries people already use. None of them is imported here."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gnncal.core.arrays import as_numpy
from gnncal.core.checks import warn_about_edge_weights
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph


def from_pyg(data: Any) -> Graph:
    """A graph from a PyTorch Geometric ``Data``: ``edge_index``, ``num_nodes`` and ``x``.

    Data of the transform ``ToSparseTensor`` has ``adj_t`` instead of ``edge_index``.
    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None and getattr(data, "adj_t", None) is not None:
        edge_index = _edges_of_adjacency(data.adj_t)
    if edge_index is None:
        raise InputError(
            f"the {type(data).__name__} has neither edge_index nor adj_t; convert a HeteroData "
            "with to_homogeneous()."
        )
    attributes = getattr(data, "edge_attr", None)
    if getattr(data, "edge_weight", None) is not None:
        warn_about_edge_weights("edge_weight")
    elif attributes is not None and attributes.ndim == 1:
        warn_about_edge_weights("edge_attr")
    return Graph(edge_index, getattr(data, "num_nodes", None), getattr(data, "x", None))


def _edges_of_adjacency(adj_t: Any) -> Any:
    """(2, n_edges) of a transposed adjacency: entry (i, j) is an edge from j to i."""
    if hasattr(adj_t, "coo"):  # a SparseTensor of torch_sparse
        receivers, senders, weights = adj_t.coo()
    elif "sparse_csr" in str(adj_t.layout):
        degrees = np.diff(as_numpy(adj_t.crow_indices()))
        receivers, senders = np.repeat(np.arange(len(degrees)), degrees), adj_t.col_indices()
        weights = adj_t.values()
    else:
        entries = adj_t.to_sparse_coo().coalesce()
        (receivers, senders), weights = entries.indices(), entries.values()
    if weights is not None and not (as_numpy(weights) == 1).all():
        warn_about_edge_weights("adj_t")
    return np.stack([as_numpy(senders), as_numpy(receivers)])


def from_dgl(graph: Any, *, feature_key: str = "feat") -> Graph:
    """A graph from a homogeneous ``DGLGraph``; features from ``ndata[feature_key]``."""
    senders, receivers = (as_numpy(end) for end in graph.edges())
    if "w" in graph.edata or "weight" in graph.edata:
        warn_about_edge_weights("edata")
    edges = np.stack([senders, receivers])
    return Graph(edges, int(graph.num_nodes()), graph.ndata.get(feature_key))


def from_networkx(graph: Any) -> Graph:
    """A graph from NetworkX; nodes are numbered in the order of ``graph.nodes``.

    An undirected graph gives both directions of each edge; parallel edges of a multigraph count.
    """
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
    """A graph from a square sparse matrix: entry (i, j) is an edge from i to j."""
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
