"""Conformity scores: how unlikely each class is for each node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.constraints import FLAG, Constraint, number, whole_number
from gnncal.data.errors import InputError
from gnncal.data.nodes import check_graph
from gnncal.decisions.base import check_calibration
from gnncal.decisions.node_numbers import node_keys, numbers_by_key
from gnncal.graph.compiled import in_parallel
from gnncal.graph.graph import Features, Graph

ROWS_AT_ONCE = 1 << 12
ROUNDING = 1e-9  # 0.9 * 10 is 9, not 10
STEPS = 20  # of the grid of weights of SNAPS, 0.05 each
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

    Attributes
    ----------
    needs_graph : bool
        Whether the score looks at the graph.
    constraints : dict
        What each field may be.

    Examples
    --------
    A score that is one minus the probability:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from gnncal.decisions import ConformalClassifier, ConformalScore
    >>> @dataclass(frozen=True)
    ... class Improbability(ConformalScore):
    ...     def scores(self, probs, uniform, graph):
    ...         return 1 - probs
    >>> conformal = ConformalClassifier(score=Improbability(), coverage=0.5)
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]
    >>> conformal = conformal.fit(probs, [0, 0, 0], nodes=range(3))
    >>> conformal.threshold_.round(2)
    array([0.2])

    """

    needs_graph: ClassVar[bool] = False
    constraints: ClassVar[dict[str, Constraint]] = {}

    def check(self) -> None:
        """Check the fields, which ``ConformalClassifier.fit`` does first.

        Raises
        ------
        InputError
            If a field cannot be used; the message names the first one.

        """
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
    Sadinle, Lei, Wasserman, "Least ambiguous set-valued classifiers with bounded error levels"
    (Journal of the American Statistical Association, 2019).

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
        return by_rows(self._of_rows, probs, uniform)

    def _of_rows(self, probs: FloatArray, uniform: FloatArray) -> FloatArray:
        order, ordered, mass = ranked_mass(probs)
        if self.randomised:
            mass -= uniform[:, None] * ordered
        return by_class(order, mass)


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
    Angelopoulos, Bates, Malik, Jordan, "Uncertainty sets for image classifiers using conformal
    prediction" (ICLR 2021).

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
        "k_reg": whole_number(at_least=0, at_most=1_000_000),
        "lambda_reg": number(at_least=0),
        "randomised": FLAG,
    }

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        order, ordered, mass = ranked_mass(probs)
        if self.randomised:
            mass -= uniform[:, None] * ordered
        rank = np.arange(1, probs.shape[1] + 1)
        mass += self.lambda_reg * np.maximum(rank - self.k_reg, 0)
        return by_class(order, mass)


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
    Zargarbashi, Antonelli, Bojchevski, "Conformal prediction sets for graph neural networks"
    (ICML 2023).

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

    def check(self) -> None:
        """Check the fields, and those of the score that is averaged."""
        super().check()
        self.base.check()

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
    Song, Huang, Jiang, Zhang, Li, Wang, "Similarity-navigated conformal prediction for graph neural
    networks" (NeurIPS 2024).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import Graph
    >>> from gnncal.decisions import APS, SNAPS
    >>> probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> graph = Graph([[0, 1], [1, 0]], features=[[1, 0], [0, 1], [1, 0]])
    >>> snaps = SNAPS(similar=0.5, neighbours=0.25, k=1, base=APS(randomised=False))
    >>> snaps.scores(probs, np.zeros(3), graph).round(3)
    array([[0.875, 0.9  ],
           [0.675, 1.   ],
           [0.95 , 0.9  ]])

    """

    similar: float = 1 / 3
    neighbours: float = 1 / 3
    k: int = 20
    base: ConformalScore = field(default_factory=APS)

    needs_graph: ClassVar[bool] = True
    constraints: ClassVar[dict[str, Constraint]] = {
        "similar": number(at_least=0, at_most=1),
        "neighbours": number(at_least=0, at_most=1),
        "k": whole_number(at_least=1, at_most=1_000_000),
        "base": NEEDS_NO_GRAPH,
    }

    def check(self) -> None:
        """Check the fields, and those of the score that is averaged."""
        super().check()
        self.base.check()
        if self.similar + self.neighbours > 1 + 1e-12:
            raise InputError(
                f"similar and neighbours of SNAPS sum to {self.similar + self.neighbours:g}; "
                "expected at most 1, because the node's own score has the rest."
            )

    def scores(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the score of every class, (n_nodes, n_classes)."""
        own, similar, near = self._parts(probs, uniform, graph)
        return self._mixed(own, similar, near)

    def tuned(
        self,
        probs: Any,
        labels: Any,
        graph: Any,
        *,
        nodes: Any,
        coverage: float = 0.9,
        random_state: int = 0,
    ) -> Self:
        """Choose both weights from a grid of 0.05, so that the sets of some nodes are smallest.

        The nodes must not be calibration nodes of the sets: weights that were chosen on them
        break the guarantee. Split them with :func:`gnncal.decisions.hold_out`.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1. Labels outside ``nodes`` are never looked at.
        graph : Graph or torch_geometric.data.Data
            The graph of these nodes, with features.
        nodes : array_like
            Nodes to choose the weights on, mask or indices.
        coverage : float, default=0.9
            Share of nodes whose set must have the true class.
        random_state : int, default=0
            Seed of one random number for each node.

        Returns
        -------
        SNAPS
            The same score with the weights of the smallest sets. Ties go to the smaller weights.

        Raises
        ------
        InputError
            If an array cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> from gnncal import Graph
        >>> from gnncal.decisions import SNAPS
        >>> generator = np.random.default_rng(0)
        >>> labels = generator.integers(3, size=300)
        >>> features = np.eye(3)[labels] + 0.3 * generator.normal(size=(300, 3))
        >>> logits = np.eye(3)[labels] + generator.normal(size=(300, 3))  # features say more
        >>> probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        >>> graph = Graph(generator.integers(300, size=(2, 600)), 300, features)  # edges nothing
        >>> tuned = SNAPS().tuned(probs, labels, graph, nodes=range(100))
        >>> tuned.similar, tuned.neighbours
        (0.9, 0.0)

        """
        self.check()
        number(above=0, below=1).check("coverage", coverage)
        whole_number(at_least=0).check("random_state", random_state)
        checked, chosen, used = check_calibration(probs, labels, nodes)
        uniform = numbers_by_key(node_keys(None, len(checked)), random_state)
        grid = self._grid()
        parts = grid[-1]._parts(checked, uniform, check_graph(graph, len(checked)))
        best, smallest = self, np.inf
        for candidate in grid:
            scores = candidate._mixed(*(part[chosen] for part in parts))
            threshold = conformal_quantile(scores[np.arange(chosen.size), used], coverage)
            size = float((scores <= threshold).sum(axis=1).mean())
            if size < smallest:
                best, smallest = candidate, size
        return best

    def _grid(self) -> list[Self]:
        """The same score with other weights, from none to similar nodes alone."""
        weights = [(s, n) for s in range(STEPS + 1) for n in range(STEPS + 1 - s)]
        by_total = sorted(weights, key=lambda pair: (sum(pair), pair))
        return [replace(self, similar=s / STEPS, neighbours=n / STEPS) for s, n in by_total]

    def _parts(
        self, probs: FloatArray, uniform: FloatArray, graph: Graph | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Own scores, their means over similar nodes and over neighbours, (n_nodes, n_classes)."""
        if graph is None:
            raise InputError("SNAPS needs a graph; pass the gnncal.Graph of these nodes.")
        if graph.features is None:
            raise InputError(
                "SNAPS needs the features of the nodes; pass Graph(edge_index, features=...)."
            )
        own = self.base.scores(probs, uniform, graph)
        similar = own if self.similar == 0 else similar_mean(graph, own, self.k)
        near = graph.neighbour_mean(own, side=graph.all_sides)
        return own, np.where(np.isnan(similar), own, similar), np.where(np.isnan(near), own, near)

    def _mixed(self, own: FloatArray, similar: FloatArray, near: FloatArray) -> FloatArray:
        return own + self.similar * (similar - own) + self.neighbours * (near - own)


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


def by_rows(
    function: Callable[[FloatArray, FloatArray], FloatArray], probs: FloatArray, uniform: FloatArray
) -> FloatArray:
    """Return scores that look at each row alone, computed for some rows after the other."""
    scores = np.empty(probs.shape)
    starts = range(0, len(probs), ROWS_AT_ONCE)

    def work(start: int) -> None:
        rows = slice(start, start + ROWS_AT_ONCE)
        scores[rows] = function(probs[rows], uniform[rows])

    in_parallel(work, starts)
    return scores


def ranked_mass(probs: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Order classes from the most to the least probable, earlier columns first among equals."""
    order = np.argsort(-probs, axis=1, kind="stable")
    ordered = np.take_along_axis(probs, order, axis=1).astype(np.float64)
    return order, ordered, np.cumsum(ordered, axis=1)


def by_class(order: IntArray, ranked: FloatArray) -> FloatArray:
    """Values by rank as values by class, both (n_nodes, n_classes)."""
    values = np.empty_like(ranked)
    np.put_along_axis(values, order, ranked, axis=1)
    return values


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
