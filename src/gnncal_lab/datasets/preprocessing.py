"""Turn what the raw files list into the graph that a classifier is trained on."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from gnncal.data.arrays import IntArray
from gnncal.graph.graph import Features

Reverse = Literal["listed", "merged", "appended"]
SPARSE_BELOW = 0.3  # share of non-zero features under which sparse products are the faster ones


class RawGraph(NamedTuple):
    """A graph as its files list it."""

    features: Features  # (n_nodes, n_features), dense or sparse
    labels: IntArray  # (n_nodes,)
    edges: IntArray  # (2, n_edges), messages flow from row 0 to row 1


def checked(raw: RawGraph) -> RawGraph:
    """Return the graph, or raise if features, labels and edges do not fit together."""
    n_nodes = len(raw.labels)
    if raw.features.shape[0] != n_nodes:
        raise ValueError(f"{raw.features.shape[0]} rows of features but {n_nodes} labels")
    if raw.edges.size and not 0 <= raw.edges.min() <= raw.edges.max() < n_nodes:
        raise ValueError(f"an edge names a node that is not among 0..{n_nodes - 1}")
    return raw


def add_reverse_edges(raw: RawGraph, reverse: Reverse) -> RawGraph:
    """Add the reverse of each edge: ``merged`` keeps each pair once, ``appended`` as listed."""
    if reverse == "listed":
        return raw
    both = np.concatenate([raw.edges, raw.edges[::-1]], axis=1, dtype=np.int64)
    if reverse == "merged":
        n_nodes = len(raw.labels)
        both = np.stack(np.divmod(np.unique(both[0] * n_nodes + both[1]), n_nodes))
    return raw._replace(edges=both)


def keep_largest_component(raw: RawGraph) -> RawGraph:
    """Return the largest connected component, its nodes in their former order."""
    n_nodes = len(raw.labels)
    ones = np.ones(raw.edges.shape[1], dtype=np.int8)
    adjacency = sparse.coo_array((ones, tuple(raw.edges)), shape=(n_nodes, n_nodes))
    component = sparse.csgraph.connected_components(adjacency, directed=False)[1]
    kept = component == np.bincount(component).argmax()
    number = np.cumsum(kept) - 1
    edges = number[raw.edges[:, kept[raw.edges[0]]]]
    return RawGraph(raw.features[np.flatnonzero(kept)], raw.labels[kept], edges)


def replace_self_loops(raw: RawGraph) -> RawGraph:
    """Exactly one self-loop at each node."""
    loops = np.tile(np.arange(len(raw.labels), dtype=raw.edges.dtype), (2, 1))
    others = raw.edges[:, raw.edges[0] != raw.edges[1]]
    return raw._replace(edges=np.concatenate([others, loops], axis=1))


def normalise_rows(raw: RawGraph) -> RawGraph:
    """Features divided by the sum of their row; rows of zeros stay."""
    features = sparse.csr_array(raw.features).astype(np.float64)
    total = np.asarray(features.sum(axis=1)).ravel()
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
    features.data *= np.repeat(inverse, np.diff(features.indptr))
    return raw._replace(features=features)


def compact(features: Any) -> Features:
    """float32; sparse where that pays."""
    if not sparse.issparse(features):
        dense = np.ascontiguousarray(features, dtype=np.float32)
        if np.count_nonzero(dense) >= SPARSE_BELOW * dense.size:
            return dense
        features = dense
    matrix = sparse.csr_array(features, dtype=np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix if matrix.nnz < SPARSE_BELOW * np.prod(matrix.shape) else matrix.toarray()
