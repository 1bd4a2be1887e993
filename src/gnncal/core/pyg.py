"""What a user passes as graph: a Graph, or a ``Data`` of PyTorch Geometric, unimported."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.core.arrays import as_numpy
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph


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
        return Graph.from_pyg(graph)
    raise InputError(
        f"graph is a {type(graph).__name__}; pass a gnncal.Graph(edge_index, n_nodes) or a PyTorch "
        "Geometric Data, or convert with Graph.from_dgl, from_networkx or from_scipy."
    )
