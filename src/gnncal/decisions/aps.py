"""APS, adaptive prediction sets (Romano, Sesia and Candes, NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import FLAG, Constraint
from gnncal.core.graph import Graph
from gnncal.decisions.scores import ConformalScore, by_class, by_rows, ranked_mass


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
