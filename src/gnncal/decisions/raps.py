"""RAPS, regularised adaptive prediction sets (Angelopoulos et al., ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import FLAG, Constraint, number, whole_number
from gnncal.core.graph import Graph
from gnncal.decisions.scores import ConformalScore, by_class, ranked_mass


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
