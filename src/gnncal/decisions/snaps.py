"""SNAPS, similarity-navigated adaptive prediction sets (Song et al., NeurIPS 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import Constraint, number, whole_number
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.decisions.aps import APS
from gnncal.decisions.daps import IS_SCORE
from gnncal.decisions.node_numbers import node_keys, numbers_by_key
from gnncal.decisions.outcomes import check_calibration
from gnncal.decisions.quantile import conformal_quantile
from gnncal.decisions.scores import ConformalScore
from gnncal.decisions.similar_nodes import similar_mean
from gnncal.nodes import check_graph

STEPS = 20  # of the grid of weights, 0.05 each


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
        "base": IS_SCORE,
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
