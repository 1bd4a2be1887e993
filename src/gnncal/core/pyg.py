"""Graphs from the objects of PyTorch Geometric, recognised without importing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.core.arrays import IntArray, as_numpy
from gnncal.core.checks import warn_about_edge_weights
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph


def from_pyg(data: Any) -> Graph:
    """Make a graph from a PyTorch Geometric ``Data``: ``edge_index``, ``num_nodes`` and ``x``.

    Data of the transform ``ToSparseTensor`` has ``adj_t`` instead of ``edge_index``.

    Parameters
    ----------
    data : torch_geometric.data.Data
        The graph. :func:`gnncal.calibrate` and every ``fit`` take it as it is, too.

    Returns
    -------
    Graph
        The same edges and features in gnncal's form.

    Raises
    ------
    InputError
        If there are no edges or they cannot be read.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from gnncal import from_pyg
    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    >>> from_pyg(data).in_degree
    array([0, 1, 1], dtype=int32)

    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None and getattr(data, "adj_t", None) is not None:
        edge_index = edges_of_adjacency(data.adj_t)
    if edge_index is None and hasattr(data, "node_types"):
        raise InputError(_one_type_message(data))
    if edge_index is None:
        raise InputError(
            f"the {type(data).__name__} has neither edge_index nor adj_t; pass a graph with edges."
        )
    attributes = getattr(data, "edge_attr", None)
    if getattr(data, "edge_weight", None) is not None:
        warn_about_edge_weights("edge_weight")
    elif attributes is not None and attributes.ndim == 1:
        warn_about_edge_weights("edge_attr")
    return Graph(edge_index, getattr(data, "num_nodes", None), getattr(data, "x", None))


def _one_type_message(data: Any) -> str:
    """Say what works for nodes of several types: one type, and the edges among its nodes."""
    name = type(data).__name__
    own = [kind for kind in getattr(data, "edge_types", []) if kind[0] == kind[-1]]
    begun = f"the {name} has nodes of several types and logits are of one"
    without = "leave graph out and choose a method that needs none, such as method='svs'"
    if own:
        one, nodes = (f"data[{', '.join(map(repr, kind))}]" for kind in (own[0], own[0][:1]))
        graph = f"gnncal.Graph({one}.edge_index, {nodes}.num_nodes)"
        return f"{begun}; pass the edges among its nodes, such as {graph}, or {without}."
    return (
        f"{begun}, and no edges join nodes of one type; make some with PyTorch Geometric's "
        f"AddMetaPaths and pass gnncal.Graph(their edge_index, n_nodes), or {without}."
    )


def train_mask_of(graph: Any, n_nodes: int) -> Any:
    """Return the ``train_mask`` of a ``Data``, if it marks one split of these nodes, else None."""
    mask = None if isinstance(graph, Graph) else getattr(graph, "train_mask", None)
    if mask is None or not hasattr(mask, "dtype"):
        return None
    array = as_numpy(mask)
    return array if array.shape == (n_nodes,) and array.dtype == np.bool_ else None


def class_names_of(graph: Any) -> Any:
    """Return the names of the classes that a ``Data`` has as ``class_names``, else None."""
    names = None if isinstance(graph, Graph) else getattr(graph, "class_names", None)
    return names if isinstance(names, list | tuple | np.ndarray) else None


def as_graph(graph: Any) -> Graph | None:
    """Return the graph that a user means: a Graph as it is, a ``Data`` converted, None as it is."""
    if graph is None or isinstance(graph, Graph):
        return graph
    if any(hasattr(graph, name) for name in ("edge_index", "adj_t", "to_homogeneous")):
        return from_pyg(graph)
    raise InputError(
        f"graph is a {type(graph).__name__}; pass a gnncal.Graph(edge_index, n_nodes) or a PyTorch "
        "Geometric Data, or convert with gnncal.from_dgl, from_networkx or from_scipy."
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
