"""DAPS, diffused adaptive prediction sets (Zargarbashi, Antonelli and Bojchevski, ICML 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import Constraint, number
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.decisions.aps import APS
from gnncal.decisions.scores import ConformalScore

IS_SCORE = Constraint(
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
        "base": IS_SCORE,
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
