"""Full-batch Adam with early stopping: the loop that the paper uses for everything it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gnncal.core.arrays import FloatArray

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
Checkpoint = Literal["matched", "after-step"]


@dataclass(frozen=True)
class AdamRun:
    """The best parameters, their score, and how long it took."""

    parameters: FloatArray
    score: float
    n_epochs: int


def adam(
    objective: Objective,
    initial: FloatArray,
    *,
    max_epochs: int,
    patience: int | None,
    monitor: Callable[[FloatArray], float] | None = None,
    learning_rate: float = 1e-2,
    weight_decay: float = 0.0,
    checkpoint: Checkpoint = "matched",
) -> AdamRun:
    """Take one Adam step in each epoch on ``objective`` and return the best parameters seen."""
    theta = np.array(initial, copy=True)
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    best, best_score, waited, epoch = theta.copy(), np.inf, 0, 0
    for epoch in range(1, max_epochs + 1):
        loss, gradient = objective(theta)
        before = theta.copy() if monitor is None and checkpoint == "matched" else theta
        if weight_decay:
            gradient = gradient + weight_decay * theta
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        step = mean / (1 - 0.9**epoch)
        step /= np.sqrt(square / (1 - 0.999**epoch)) + 1e-8
        theta -= learning_rate * step
        score = loss if monitor is None else monitor(theta)
        if score <= best_score:
            best[...], best_score, waited = before, score, 0
        else:
            waited += 1
            if patience is not None and waited >= patience:
                return AdamRun(best, float(best_score), epoch)
    return AdamRun(best, float(best_score), epoch)
