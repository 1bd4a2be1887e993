"""The one training loop: full-batch Adam on the calibration cross-entropy, best copy restored.

:mod:`gnncal.math.solvers` is the same in NumPy, for methods whose gradient is written out: these
must not need torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class TrainingRun:
    """How many epochs a training took and which of them was kept."""

    n_epochs: int
    best_epoch: int  # whose weights are kept; the last one without a monitor


def train(
    weights: Tensors,
    loss: Callable[[], Tensor],
    monitor: Callable[[], float] | None,
    *,
    max_epochs: int,
    patience: int | None,
    learning_rate: float,
    weight_decay: float,
) -> TrainingRun:
    """Take one Adam step in each epoch and leave the best weights seen in ``weights``."""
    moving = [weight for weight in weights.values() if weight.requires_grad]
    optimiser = torch.optim.Adam(moving, lr=learning_rate, weight_decay=weight_decay, fused=True)
    best, best_score, best_epoch = _copy(moving), float("inf"), 0
    for epoch in range(1, max_epochs + 1):
        optimiser.zero_grad(set_to_none=True)
        loss().backward()
        optimiser.step()
        if monitor is None:
            continue
        with torch.no_grad():
            score = monitor()
        if score <= best_score:
            best, best_score, best_epoch = _copy(moving), score, epoch
        elif patience is not None and epoch - best_epoch >= patience:
            _restore(moving, best)
            return TrainingRun(epoch, best_epoch)
    if monitor is None:
        return TrainingRun(max_epochs, max_epochs)
    _restore(moving, best)
    return TrainingRun(max_epochs, best_epoch)


def _copy(weights: list[Tensor]) -> list[Tensor]:
    return [weight.detach().clone() for weight in weights]


def _restore(weights: list[Tensor], best: list[Tensor]) -> None:
    with torch.no_grad():
        for weight, value in zip(weights, best, strict=True):
            weight.copy_(value)
