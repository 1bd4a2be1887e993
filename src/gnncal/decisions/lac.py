"""LAC, least ambiguous set-valued classifiers (Sadinle, Lei and Wasserman, 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.graph import Graph
from gnncal.decisions.scores import ConformalScore


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
