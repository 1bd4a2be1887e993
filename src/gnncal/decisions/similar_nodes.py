"""Means over the nodes with the most similar features, in blocks that bound the memory."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from gnncal.core.arrays import FloatArray
from gnncal.core.graph import Features, Graph

ENTRIES_PER_BLOCK = 1 << 23  # similarities that are held at once
MOST_KEPT = 200  # weights for each node that are kept for the next call; ties may make it more
TIED = 1e-5  # similarities that differ by less are equal; rounding differs by less

# The similar nodes of a graph for as long as it lives: a fit and a prediction ask for the same.
_KEPT: WeakKeyDictionary[Graph, tuple[int, sparse.csr_array]] = WeakKeyDictionary()


def similar_mean(graph: Graph, values: FloatArray, k: int) -> FloatArray:
    """Return the mean of values (n_nodes, m) over the k nodes of most similar features.

    Similarity is the cosine, which also is the weight; a node is not similar to itself, nor to a
    node with a cosine of zero or below. Nodes that are tied for the last places share them
    equally, so that the numbers of the nodes never matter. NaN where no node is similar. Finding
    them takes time quadratic in the number of nodes, once for each graph.
    """
    if graph in _KEPT and _KEPT[graph][0] == k:
        return _weighted_mean(_KEPT[graph][1], values)
    means, blocks, n_weights = [], [], 0
    for weights in _blocks(graph.features, k):
        means.append(_weighted_mean(weights, values))
        n_weights += weights.nnz
        if n_weights <= MOST_KEPT * graph.n_nodes:
            blocks.append(weights)
    if len(blocks) == len(means):
        _KEPT[graph] = k, sparse.vstack(blocks, format="csr")
    return np.concatenate(means)


def _weighted_mean(weights: sparse.csr_array, values: FloatArray) -> FloatArray:
    total = weights.sum(axis=1)[:, None]
    with np.errstate(invalid="ignore"):  # 0 / 0: no node is similar
        means: FloatArray = (weights @ values) / total
    return means


def _blocks(features: Features, k: int) -> Iterator[sparse.csr_array]:
    """Weights of the k most similar nodes, for some rows after others."""
    rows = _normalised(features)
    n_nodes = rows.shape[0]
    step = max(ENTRIES_PER_BLOCK // n_nodes, 1)
    for start in range(0, n_nodes, step):
        cosine = rows[start : start + step] @ rows.T
        dense = cosine.toarray() if sparse.issparse(cosine) else cosine
        here = np.arange(len(dense))
        dense[here, start + here] = 0.0
        yield _most_similar(dense, k)


def _normalised(features: Features) -> Features:
    """Features with rows of length one; rows of zeros stay as they are."""
    if sparse.issparse(features):
        squares = features.multiply(features).sum(axis=1)
    else:
        squares = np.einsum("ij,ij->i", features, features)
    length = np.sqrt(squares)
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    if sparse.issparse(features):
        return sparse.csr_array(sparse.diags_array(scale) @ features)
    return features * scale[:, None]


def _most_similar(cosine: FloatArray, k: int) -> sparse.csr_array:
    """Return the k largest entries of each row that are above zero; ties share their places."""
    n = cosine.shape[1]
    last = np.partition(cosine, n - k, axis=1)[:, n - k] if k < n else np.zeros(len(cosine))
    limit = np.maximum(last - TIED, TIED)
    row, column = np.nonzero(cosine >= limit[:, None])
    weight = cosine[row, column].astype(np.float64)
    tied = weight <= last[row] + TIED
    n_tied = np.bincount(row[tied], minlength=len(cosine))
    places = k - np.bincount(row[~tied], minlength=len(cosine))
    share = np.minimum(places / np.maximum(n_tied, 1), 1.0)
    weight[tied] *= share[row[tied]]
    return sparse.csr_array((weight, (row, column)), shape=cosine.shape)
