"""Edges, number of nodes and features of other libraries' graphs. None of them is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from gnncal.data.arrays import IntArray, as_numpy
from gnncal.data.checks import suggestion, warn_about_edge_weights
from gnncal.data.errors import InputError, short_repr

Parts = tuple[Any, int | None, Any]  # edges, number of nodes and features, as Graph takes them


def of_pyg(data: Any) -> Parts:
    """Return the parts of a PyTorch Geometric ``Data``."""
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None and getattr(data, "adj_t", None) is not None:
        edge_index = edges_of_adjacency(data.adj_t)
    if edge_index is None and hasattr(data, "node_types"):
        own = [kind for kind in data.edge_types if kind[0] == kind[-1]]
        example = next((kind[0] for kind in (*own, *data.edge_types)), "account")
        raise InputError(
            f"the {type(data).__name__} has nodes of several types and logits are of one; name it "
            f"with gnncal.Graph.of_type(data, {example!r}), or leave graph out and choose a method "
            "that needs none, such as method='svs'."
        )
    if edge_index is None:
        raise InputError(
            f"the {type(data).__name__} has neither edge_index nor adj_t; pass a graph with edges."
        )
    attributes = getattr(data, "edge_attr", None)
    if getattr(data, "edge_weight", None) is not None:
        warn_about_edge_weights("edge_weight")
    elif attributes is not None and attributes.ndim == 1:
        warn_about_edge_weights("edge_attr")
    return edge_index, getattr(data, "num_nodes", None), getattr(data, "x", None)


def of_hetero(
    data: Any, node_type: str, through: Sequence[Any] | None
) -> tuple[Any, dict[str, IntArray], int, Any]:
    """Return the edges among the nodes of a type, or the nodes of other types that they touch."""
    if not hasattr(data, "node_types"):
        raise InputError(
            f"the graph is a {type(data).__name__} with nodes of one type; leave node_type out."
        )
    check_node_type(data, node_type)
    edges = {kind: data[kind].edge_index for kind in data.edge_types}
    joined, touches = edges_of_type(edges, node_type, through)
    features = None if touches else data[node_type].get("x")
    return joined, touches, number_of_nodes(data, node_type), features


def check_node_type(data: Any, node_type: str) -> None:
    """Raise an InputError unless a ``HeteroData`` has nodes of this type."""
    if node_type not in data.node_types:
        if any(node_type in (kind[0], kind[-1]) for kind in data.edge_types):
            raise InputError(_without_number(node_type))
        known = ", ".join(map(repr, data.node_types))
        raise InputError(
            f"node_type is {short_repr(node_type)}{suggestion(str(node_type), data.node_types)}; "
            f"the data has {known}."
        )


def number_of_nodes(data: Any, node_type: str) -> int:
    """Return how many nodes of a type a ``HeteroData`` has."""
    n_nodes = data[node_type].num_nodes
    if n_nodes is None:
        raise InputError(_without_number(node_type))
    return int(n_nodes)


def _without_number(node_type: str) -> str:
    return (
        f"the data does not say how many nodes of type {node_type!r} there are; set "
        f"data[{node_type!r}].num_nodes."
    )


def edges_of_type(
    edges: Mapping[Any, Any], node_type: str | None, through: Sequence[Any] | None = None
) -> tuple[IntArray | None, dict[str, IntArray]]:
    """Return the edges among the nodes of a type, or who touches which nodes of other types."""
    ending = [kind for kind in edges if node_type in (kind[0], kind[-1])]
    chosen = [kind for kind in ending if kind[0] == kind[-1]] or ending
    if through is not None:
        chosen = [kind for kind in ending if kind in through or kind[1] in through]
        missing = [name for name in through if not any(name in (kind, kind[1]) for kind in chosen)]
        if missing:
            raise InputError(
                f"through names {short_repr(missing[0])}, and no such edges lead to or from "
                f"{node_type!r}; there are {', '.join(map(str, ending))}."
            )
    if not chosen:
        raise InputError(
            f"no edges lead to or from {node_type!r}; leave graph out and choose a method that "
            "needs none, such as method='svs'."
        )
    pairs = {kind: as_numpy(edges[kind]) for kind in chosen}
    if all(kind[0] == kind[-1] for kind in chosen):
        return np.concatenate(list(pairs.values()), axis=1), {}
    touches = {}
    for kind, (senders, receivers) in pairs.items():
        name = "-".join(kind)
        if kind[0] == kind[-1]:  # an edge is an entity that two nodes touch
            ends, each = np.concatenate([senders, receivers]), np.arange(senders.size)
            touches[name] = np.stack([ends, np.concatenate([each, each])])
        else:
            is_sender = kind[0] == node_type
            touches[name] = np.stack([senders, receivers] if is_sender else [receivers, senders])
    return None, touches


def of_dgl(graph: Any, feature_key: str) -> Parts:
    """Return the parts of a homogeneous ``DGLGraph``."""
    _check_type(graph, "edata", "from_dgl", "DGLGraph")
    senders, receivers = (as_numpy(end) for end in graph.edges())
    if "w" in graph.edata or "weight" in graph.edata:
        warn_about_edge_weights("edata")
    edges = np.stack([senders, receivers])
    return edges, int(graph.num_nodes()), graph.ndata.get(feature_key)


def of_networkx(graph: Any) -> Parts:
    """Return the parts of a NetworkX graph."""
    _check_type(graph, "is_directed", "from_networkx", "NetworkX graph")
    number = {node: i for i, node in enumerate(graph.nodes)}
    pairs = np.array([(number[u], number[v]) for u, v in graph.edges()], dtype=np.int64)
    edges = pairs.reshape(-1, 2).T
    if not graph.is_directed():
        proper = edges[0] != edges[1]  # a self-loop is its own reverse
        edges = np.concatenate([edges, edges[::-1, proper]], axis=1)
    if any(weight != 1 for _, _, weight in graph.edges(data="weight", default=1)):
        warn_about_edge_weights("weight")
    return edges, len(number), None


def of_scipy(adjacency: Any, features: Any) -> Parts:
    """Return the parts of a square matrix."""
    _check_type(adjacency, "shape", "from_scipy", "SciPy sparse matrix or an array")
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"adjacency has shape {adjacency.shape}; expected a square matrix.")
    entries = sparse.coo_array(adjacency)
    entries.eliminate_zeros()
    if entries.nnz and not (entries.data == 1).all():
        warn_about_edge_weights("entries other than 1")
    return np.stack(entries.coords), adjacency.shape[0], features


def _check_type(graph: Any, attribute: str, function: str, expected: str) -> None:
    """Raise an InputError unless a graph has what all graphs of its library have."""
    if not hasattr(graph, attribute):
        raise InputError(
            f"the graph is a {type(graph).__name__}; Graph.{function} reads a {expected}, and "
            "gnncal.Graph(edge_index, n_nodes) reads edges."
        )


def edges_of_adjacency(adj_t: Any) -> IntArray:
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
