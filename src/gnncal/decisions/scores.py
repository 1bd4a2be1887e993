r"""Conformity scores: how unlikely each class is for each node, (n_nodes, n_classes).

A score is a function of the probabilities of all nodes, of one random number u for each, and of the
graph. It must depend on no label: then calibration nodes and other nodes are treated alike.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray
from gnncal.data.constraints import Constraint, integer
from gnncal.data.errors import InputError
from gnncal.graph.graph import Graph

Score = Callable[..., FloatArray]
ENTRIES_PER_BLOCK = 1 << 23  # similarities that are held at once
TIED = 1e-5  # similarities that differ by less are equal; rounding differs by less


def lac(probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
    """One minus the probability of the class (Sadinle, Lei, Wasserman, JASA 2019)."""
    return 1.0 - probs.astype(np.float64)  # exact for float32, so that small ones differ


def aps(probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
    r"""Total probability of a class and all more probable ones (Romano et al., NeurIPS 2020).

    .. math:: s_c = \sum_{r \le \text{rank}(c)} p_{(r)} - u \, p_c
    """
    return raps(probs, uniform, graph, lambda_reg=0.0)


def raps(
    probs: FloatArray,
    uniform: FloatArray,
    graph: Graph | None,
    *,
    k_reg: int = 1,
    lambda_reg: float = 0.1,
) -> FloatArray:
    r"""APS with a penalty on classes beyond the first few ranks (Angelopoulos et al., ICLR 2021).

    .. math:: s_c = \sum_{r \le \text{rank}(c)} p_{(r)} - u \, p_c
              + \lambda \max(\text{rank}(c) - k_\text{reg}, 0)

    The paper takes 5 ranks for 1,000 classes and penalties of 0.01 to 0.5; graphs have few classes.
    """
    order = np.argsort(-probs, axis=1, kind="stable")  # earlier columns first of equals
    ordered = np.take_along_axis(probs, order, axis=1).astype(np.float64)
    penalty = lambda_reg * np.maximum(np.arange(1, probs.shape[1] + 1) - k_reg, 0)
    scores = np.empty(probs.shape)
    mass = np.cumsum(ordered, axis=1) - uniform[:, None] * ordered
    np.put_along_axis(scores, order, mass + penalty, axis=1)
    return scores


def daps(
    probs: FloatArray, uniform: FloatArray, graph: Graph | None, *, diffusion: float = 0.5
) -> FloatArray:
    r"""APS scores, averaged with those of the neighbours (Zargarbashi et al., ICML 2023).

    .. math:: s_{ic} = (1 - \lambda) \, b_{ic} + \lambda \,
              \frac{1}{|N(i)|} \sum_{j \in N(i)} b_{jc}

    b is the APS score. Edges count in both directions; nodes without neighbours keep their score.
    """
    own = aps(probs, uniform, None)
    return own + diffusion * _neighbour_excess(graph, own)


def snaps(
    probs: FloatArray,
    uniform: FloatArray,
    graph: Graph | None,
    *,
    similar: float = 1 / 3,
    neighbours: float = 1 / 3,
    k: int = 20,
) -> FloatArray:
    r"""APS scores, averaged with those of similar nodes and neighbours (Song et al., NeurIPS 2024).

    .. math:: s_{ic} = (1 - \xi - \mu) \, b_{ic} +
              \xi \, \frac{\sum_{j \in S(i)} w_{ij} b_{jc}}{\sum_{j \in S(i)} w_{ij}} +
              \mu \, \frac{1}{|N(i)|} \sum_{j \in N(i)} b_{jc}

    b is the APS score. S(i) are the k nodes whose features have the largest cosine similarity w to
    those of node i; nodes that tie for the last places share them. The score helps on heterophilic
    graphs. Finding similar nodes takes time quadratic in the number of nodes.
    """
    integer(at_least=1).check("k of snaps", k)
    own = aps(probs, uniform, None)
    mixed = own + neighbours * _neighbour_excess(graph, own)
    if graph is None or graph.features is None:
        raise InputError("snaps needs features of the nodes; pass Graph(edge_index, features=...).")
    return mixed + similar * _excess(similar_mean(graph, own, k), own)


SCORES: dict[str, Score] = {"lac": lac, "aps": aps, "raps": raps, "daps": daps, "snaps": snaps}
IS_SCORE = Constraint("a function of probabilities, random numbers and a graph", callable)


def _neighbour_excess(graph: Graph | None, own: FloatArray) -> FloatArray:
    if graph is None:
        raise InputError("the score needs a graph; pass that of these nodes.")
    return _excess(graph.neighbour_mean(own, side=graph.all_sides), own)


def _excess(mean: FloatArray, own: FloatArray) -> FloatArray:
    """Return how far the mean of other nodes lies above a score; 0 where there is none (NaN)."""
    return np.where(np.isnan(mean), 0.0, mean - own)


def similar_mean(graph: Graph, values: FloatArray, k: int) -> FloatArray:
    """Return the mean of values (n_nodes, m) over the k nodes of most similar features."""
    from sklearn.preprocessing import normalize

    rows = normalize(graph.features)  # of length one, or of zeros
    step, means = max(ENTRIES_PER_BLOCK // rows.shape[0], 1), []
    for start in range(0, rows.shape[0], step):
        cosine = rows[start : start + step] @ rows.T
        dense = cosine.toarray() if sparse.issparse(cosine) else cosine
        here = np.arange(len(dense))
        dense[here, start + here] = 0.0
        weights = _most_similar(dense, k)
        with np.errstate(invalid="ignore"):  # 0 / 0: no node is similar
            means.append((weights @ values) / weights.sum(axis=1)[:, None])
    return np.concatenate(means)


def _most_similar(cosine: FloatArray, k: int) -> sparse.csr_array:
    """Return the k largest positive entries of each row; ties share places."""
    n = cosine.shape[1]
    last = np.partition(cosine, n - k, axis=1)[:, n - k] if k < n else np.zeros(len(cosine))
    row, column = np.nonzero(cosine >= np.maximum(last - TIED, TIED)[:, None])
    weight = cosine[row, column].astype(np.float64)
    tied = weight <= last[row] + TIED
    n_tied = np.bincount(row[tied], minlength=len(cosine))
    places = k - np.bincount(row[~tied], minlength=len(cosine))
    share = np.minimum(places / np.maximum(n_tied, 1), 1.0)
    weight[tied] *= share[row[tied]]
    return sparse.csr_array((weight, (row, column)), shape=cosine.shape)
