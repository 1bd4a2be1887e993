"""The three things that can be done with a node, and how many nodes get each of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gnncal.core.arrays import IntArray

ACTIONS = np.array(["act", "clear", "review"])  # codes 0, 1 and 2
ACT, CLEAR, REVIEW = range(3)
Actions = npt.NDArray[np.str_]


def by_thresholds(p: npt.NDArray[np.floating], act: float, clear: float) -> IntArray:
    """Return the code of each node: act from one threshold up, clear to the other, else review."""
    return np.where(p >= act, ACT, np.where(p <= clear, CLEAR, REVIEW))
