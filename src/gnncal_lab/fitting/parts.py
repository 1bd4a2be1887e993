"""What several methods' parameters and fits are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gnncal import InputError
from gnncal.calibrators import Array, Constraint, integer, one_of
from gnncal_lab.arrays import FloatArray, IntArray

Protocol = Literal["converged", "paper"]
PROTOCOLS = one_of("converged", "paper")
FLAG = one_of(True, False)
NONE = one_of(None)
TEXT = Constraint("text", lambda value: isinstance(value, str))
SEED = (
    integer(at_least=0, at_most=2**32 - 1)
    | Constraint("a NumPy random state", lambda value: isinstance(value, np.random.RandomState))
    | NONE
)
SOLVER_STATE = {"converged_": FLAG, "n_iter_": integer(at_least=0)}
TEMPERATURE_RANGE = (float(np.exp(-5.0)), float(np.exp(5.0)))  # beyond it softmax saturates or ties
LearnedTable = Mapping[str, Any]
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def loss_and_residual(scores: FloatArray, labels: IntArray) -> tuple[float, FloatArray]:
    """Return the mean cross-entropy of softmax(scores), and its derivative by the scores."""
    rows = np.arange(len(labels))
    shifted = scores - scores.max(axis=1, keepdims=True)
    residual = np.exp(shifted)
    total = residual.sum(axis=1)
    losses = np.log(total) - shifted[rows, labels]
    residual /= total[:, None]
    residual[rows, labels] -= 1.0  # p - onehot(y)
    residual /= len(rows)
    return float(np.mean(losses)), residual


@dataclass(frozen=True)
class PerClass:
    """A learned tuple with one array for each class; their free sizes may differ."""

    array: Array

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """Raise unless the value is a tuple of as many arrays as there are classes."""
        if not isinstance(value, tuple) or len(value) != sizes["K"]:
            raise InputError(f"{name} is not a tuple of {sizes['K']} arrays, one for each class.")
        for c, part in enumerate(value):
            self.array.check(f"{name}[{c}]", part, dict(sizes))
