"""Conformity scores: how unlikely each class is for each node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, as_numpy
from gnncal.data.constraints import FLAG, Constraint, integer, number
from gnncal.data.errors import InputError
from gnncal.graph.compiled import parallel_for
from gnncal.graph.graph import Features, Graph

ROWS_AT_ONCE = 1 << 12
ROUNDING = 1e-9  # 0.9 * 10 is 9, not 10
ENTRIES_PER_BLOCK = 1 << 23  # similarities that are held at once
MOST_KEPT = 200  # weights for each node that are kept for the next call; ties may make it more
TIED = 1e-5  # similarities that differ by less are equal; rounding differs by less

# The similar nodes of a graph for as long as it lives: a fit and a prediction ask for the same.
_KEPT: WeakKeyDictionary[Graph, tuple[int, sparse.csr_array]] = WeakKeyDictionary()


class ConformalScore(ABC):
    """Base of the scores that prediction sets are made of.

    A subclass is a frozen dataclass of plain values. The score of a class must depend on a node's
    probabilities, its own random number and the graph only, never on a label: then calibration
    nodes and other nodes are treated alike.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from gnncal.decisions import ConformalClassifier, ConformalScore
    >>> @dataclass(frozen=True)
    ... class Improbability(ConformalScore):
    ...     def scores(self, probs, uniform, graph):
    ...         return 1 - probs
    >>> conformal = ConformalClassifier(score=Improbability(), coverage=0.5)
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]
    >>> conformal.fit(probs, [0, 0, 0], nodes=range(3)).threshold_.round(2)
    array([0.2])

    """

    needs_graph: ClassVar[bool] = False  # whether the score looks at the graph
    constraints: ClassVar[dict[str, Constraint]] = {}  # what each field may be

    def _check(self) -> None:
        """Check the fields, which ``ConformalClassifier.fit`` does first."""
        for name, constraint in self.constraints.items():
            constraint.check(f"{name} of {type(self).__name__}", getattr(self, name))

    @abstractmethod
    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class; small is likely.

        Parameters
        ----------
        probs : ndarray of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        uniform : ndarray of shape (n_nodes,)
            One random number in [0, 1) for each node.
        graph : Graph or None
            The graph of these nodes.

        Returns
        -------
        ndarray of shape (n_nodes, n_classes)
            Scores.

        Raises
        ------
        InputError
            If the score needs a graph and there is none.

        """


def check_scores(score: ConformalScore, scores: Any, shape: tuple[int, int]) -> FloatArray:
    """Return what a score has computed, a number for each class of each node, or say what it is."""
    # A comparison with NaN is false, so that such a class would silently be in no set.
    name, array = type(score).__name__, as_numpy(scores)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise InputError(
            f"the scores of {name} have shape {array.shape} and dtype {array.dtype}; expected one "
            f"number for each node and class, shape {shape}."
        )
    nan = np.isnan(array)
    if nan.any():
        bad = nan.any(axis=1)
        raise InputError(
            f"the scores of {name} are NaN for {int(bad.sum())} of {len(array)} nodes (first: row "
            f"{int(bad.argmax())}); a score must be a number for every class."
        )
    return array


@dataclass(frozen=True)
class LAC(ConformalScore):
    r"""The LAC score: one minus the probability of the class.

    .. math:: s_c = 1 - p_c

    A class is in the set if it is probable enough, whatever the other classes are. On average no
    other score that knows the true probabilities gives smaller sets. It uses no random number.
    Nodes of equal probability are in a set together, which only adds coverage.

    References
    ----------
    Sadinle, Lei, Wasserman, "Least ambiguous set-valued classifiers" (JASA, 2019).

    Examples
    --------
    >>> import numpy as np
    >>> LAC().scores(np.array([[0.2, 0.7, 0.1]]), np.array([0.5]), None).round(2)
    array([[0.8, 0.3, 0.9]])

    """

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        return 1.0 - probs.astype(np.float64)  # exact for float32, so that small ones differ


@dataclass(frozen=True)
class APS(ConformalScore):
    r"""The APS score: the probability of a class and of all more probable classes.

    .. math:: s_c = \sum_{r \le \text{rank}(c)} p_{(r)} - u \, p_c

    with one uniform random number u for each node.

    Parameters
    ----------
    randomised : bool, default=True
        Subtract u times the own probability, which makes the coverage exact and the sets small.
        Without it (u = 0) results depend on no random number, and sets are larger.

    References
    ----------
    Romano, Sesia, Candes, "Classification with valid and adaptive coverage" (NeurIPS 2020).

    Examples
    --------
    >>> import numpy as np
    >>> APS().scores(np.array([[0.2, 0.7, 0.1]]), np.array([0.5]), None).round(2)
    array([[0.8 , 0.35, 0.95]])

    """

    randomised: bool = True

    constraints: ClassVar[dict[str, Constraint]] = {"randomised": FLAG}

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        return ranked_scores(probs, uniform if self.randomised else None)


@dataclass(frozen=True)
class RAPS(ConformalScore):
    r"""The score of APS with a penalty on classes beyond the first few ranks.

    .. math:: s_c = \sum_{r \le \text{rank}(c)} p_{(r)} - u \, p_c
              + \lambda \max(\text{rank}(c) - k_\text{reg}, 0)

    It keeps the largest sets small when there are many classes.

    Parameters
    ----------
    k_reg : int, default=1
        Ranks without a penalty. The paper takes 5 for 1,000 classes; graphs have few classes.
    lambda_reg : float, default=0.1
        Penalty of each further rank. The paper takes 0.01 to 0.5. With 0 this is APS.
    randomised : bool, default=True
        As for APS.

    References
    ----------
    Angelopoulos et al., "Uncertainty sets for image classifiers" (ICLR 2021).

    Examples
    --------
    >>> import numpy as np
    >>> RAPS().scores(np.array([[0.2, 0.7, 0.1]]), np.array([0.5]), None).round(2)
    array([[0.9 , 0.35, 1.15]])

    """

    k_reg: int = 1
    lambda_reg: float = 0.1
    randomised: bool = True

    constraints: ClassVar[dict[str, Constraint]] = {
        "k_reg": integer(at_least=0, at_most=1_000_000),
        "lambda_reg": number(at_least=0),
        "randomised": FLAG,
    }

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        rank = np.arange(1, probs.shape[1] + 1)
        penalty = self.lambda_reg * np.maximum(rank - self.k_reg, 0)
        return ranked_scores(probs, uniform if self.randomised else None, penalty)


NEEDS_NO_GRAPH = Constraint(
    "a score that needs no graph, such as APS()",
    lambda value: isinstance(value, ConformalScore) and not value.needs_graph,
)


@dataclass(frozen=True)
class DAPS(ConformalScore):
    r"""The DAPS score: another score, averaged with the scores of the neighbours.

    .. math:: s_{ic} = (1 - \lambda) \, b_{ic} + \lambda \,
              \frac{1}{|N(i)|} \sum_{j \in N(i)} b_{jc}

    with another score b, that of APS by default. Where neighbours tend to be of one class, they
    tell something about each other, and sets become smaller. Multi-edges count as often as they
    are listed, self-loops are left out, a directed edge counts for both of its ends, and a node
    without neighbours keeps its own score.

    The scores of all nodes of one graph are computed at once and no label enters, so the
    calibration nodes and the others are exchangeable if the former were drawn at random.

    Parameters
    ----------
    diffusion : float, default=0.5
        Weight of the neighbours, from 0 (the other score alone) to 1.
    base : ConformalScore, default=APS()
        The score that is averaged.

    References
    ----------
    Zargarbashi et al., "Conformal prediction sets for graph neural networks" (ICML 2023).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import Graph
    >>> probs = np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> pair = Graph([[0, 1], [1, 0]], n_nodes=2)
    >>> DAPS(diffusion=0.5).scores(probs, np.zeros(2), pair)
    array([[0.75, 1.  ],
           [0.75, 1.  ]])

    """

    diffusion: float = 0.5
    base: ConformalScore = field(default_factory=APS)

    needs_graph: ClassVar[bool] = True
    constraints: ClassVar[dict[str, Constraint]] = {
        "diffusion": number(at_least=0, at_most=1),
        "base": NEEDS_NO_GRAPH,
    }

    def _check(self) -> None:
        super()._check()
        self.base._check()

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        if graph is None:
            raise InputError("DAPS needs a graph; pass the gnncal.Graph of these nodes.")
        own = self.base.scores(probs, uniform, graph)
        mean = graph.neighbour_mean(own, side=graph.all_sides)
        mean -= own
        mean *= self.diffusion
        own += np.nan_to_num(mean, copy=False, nan=0.0)  # NaN: a node without neighbours
        return own


@dataclass(frozen=True)
class SNAPS(ConformalScore):
    r"""The SNAPS score: another score, averaged with similar nodes and with neighbours.

    .. math:: s_{ic} = (1 - \xi - \mu) \, b_{ic} +
              \xi \, \frac{\sum_{j \in S(i)} w_{ij} b_{jc}}{\sum_{j \in S(i)} w_{ij}} +
              \mu \, \frac{1}{|N(i)|} \sum_{j \in N(i)} b_{jc}

    with another score b, that of APS by default. S(i) are the k nodes whose features have the
    largest cosine w with those of the node, neighbours or not; nodes that are tied for the last
    places share them. N(i) are the neighbours, as for DAPS. A node without similar nodes, or
    without neighbours, keeps its own score in that part.

    It helps where neighbours are of other classes and features still tell the class. The graph
    must have features. Finding similar nodes takes time quadratic in the number of nodes and is
    done once for each graph; memory stays bounded.

    Parameters
    ----------
    similar : float, optional
        Weight :math:`\xi` of the nodes with similar features. Default: a third.
    neighbours : float, optional
        Weight :math:`\mu` of the neighbours. Default: a third. Both together are at most 1.
    k : int, default=20
        Number of similar nodes.
    base : ConformalScore, default=APS()
        The score that is averaged.

    References
    ----------
    Song et al., "Similarity-navigated conformal prediction for graph neural networks" (2024).

    Examples
    --------
    >>> from gnncal.decisions import LAC, SNAPS, ConformalClassifier
    >>> sets = ConformalClassifier(0.9, score=SNAPS(similar=0.5, neighbours=0.25, base=LAC()))

    """

    similar: float = 1 / 3
    neighbours: float = 1 / 3
    k: int = 20
    base: ConformalScore = field(default_factory=APS)

    needs_graph: ClassVar[bool] = True
    constraints: ClassVar[dict[str, Constraint]] = {
        "similar": number(at_least=0, at_most=1),
        "neighbours": number(at_least=0, at_most=1),
        "k": integer(at_least=1, at_most=1_000_000),
        "base": NEEDS_NO_GRAPH,
    }

    def _check(self) -> None:
        super()._check()
        self.base._check()
        if self.similar + self.neighbours > 1 + 1e-12:
            raise InputError(
                f"similar and neighbours of SNAPS sum to {self.similar + self.neighbours:g}; "
                "expected at most 1, because the node's own score has the rest."
            )

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        if graph is None:
            raise InputError("SNAPS needs a graph; pass the gnncal.Graph of these nodes.")
        if graph.features is None:
            raise InputError(
                "SNAPS needs the features of the nodes; pass Graph(edge_index, features=...)."
            )
        own = self.base.scores(probs, uniform, graph)
        similar = own if self.similar == 0 else similar_mean(graph, own, self.k)
        near = graph.neighbour_mean(own, side=graph.all_sides)
        mixed = own.copy()
        for weight, mean in ((self.similar, similar), (self.neighbours, near)):
            mixed += weight * np.where(np.isnan(mean), 0.0, mean - own)  # NaN: there is none
        return mixed


SCORES: dict[str, type[ConformalScore]] = {
    "lac": LAC,
    "aps": APS,
    "raps": RAPS,
    "daps": DAPS,
    "snaps": SNAPS,
}


def conformal_rank(n: int, coverage: float) -> int:
    """Return the rank, among n scores, that a new score does not exceed with this probability."""
    return ceil((n + 1) * coverage - ROUNDING)


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ceil((n + 1) * coverage)-th smallest of n scores; infinite if there is none."""
    rank = conformal_rank(len(scores), coverage)
    if rank > len(scores):
        return np.inf
    return float(np.partition(scores, rank - 1)[rank - 1])


def ranked_scores(
    probs: FloatArray, uniform: FloatArray | None, penalty: FloatArray | float = 0.0
) -> FloatArray:
    """Return the mass of each class and of more probable ones, earlier columns first of equals."""
    scores = np.empty(probs.shape)

    def work(start: int) -> None:
        here = slice(start, start + ROWS_AT_ONCE)
        order = np.argsort(-probs[here], axis=1, kind="stable")
        ordered = np.take_along_axis(probs[here], order, axis=1).astype(np.float64)
        mass = np.cumsum(ordered, axis=1)
        if uniform is not None:
            mass -= uniform[here, None] * ordered
        np.put_along_axis(scores[here], order, mass + penalty, axis=1)

    parallel_for(work, range(0, len(probs), ROWS_AT_ONCE))
    return scores


def similar_mean(graph: Graph, values: FloatArray, k: int) -> FloatArray:
    """Return the mean of values (n_nodes, m) over the k nodes of most similar features."""
    # Nodes that are tied for the last places share them equally, so that the numbers of the nodes
    # never matter.
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
