"""Softmax, entropy and their relatives on tensors of shape (n_nodes, n_classes).

The same formulas as :mod:`gnncal.probability`, with gradients. Every tensor keeps the type
and the device of its input.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gnncal.formulas.probability import LOWEST_SHIFTED_LOGIT


class Rows(NamedTuple):
    """What each row of logits says by itself."""

    predictions: Tensor  # (n_nodes,)
    probs: Tensor  # (n_nodes, n_classes)
    entropy: Tensor  # (n_nodes,) normalised, in [0, 1]


def read_rows(logits: Tensor) -> Rows:
    """Prediction, softmax and entropy e_i = -sum_k p_ik ln p_ik / ln K of each row, in one go."""
    moved, predictions = shifted(logits)
    moved = moved.clamp(min=LOWEST_SHIFTED_LOGIT)
    weights = moved.exp()
    total = weights.sum(dim=1, keepdim=True)
    probs = weights / total
    entropy = total[:, 0].log() - (probs * moved).sum(dim=1)
    return Rows(predictions, probs, (entropy / math.log(logits.shape[1])).clamp(0.0, 1.0))


def shifted(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits with row maximum 0, which changes no probability, and the predictions."""
    largest, predictions = logits.max(dim=1)
    return logits - largest.detach()[:, None], predictions


def softmax(logits: Tensor, temperature: Tensor) -> Tensor:
    """Return the rows of exp(z / T), normalised; T is (n_nodes,) or one number."""
    return torch.softmax(shifted(logits)[0] / temperature.reshape(-1, 1), dim=1)


def scaled_probabilities(logits: Tensor, temperature: Tensor) -> Tensor:
    """``softmax(logits, temperature)`` whose arg max is that of the logits."""
    moved, predictions = shifted(logits)
    probs = torch.softmax(moved / temperature.reshape(-1, 1), dim=1)
    return keep_predictions(probs, predictions)


def keep_predictions(probs: Tensor, predictions: Tensor) -> Tensor:
    """Raise the predicted class by one unit in the last place where rounding tied it.

    Anything larger than a tie is left alone.
    """
    largest, found = probs.max(dim=1)
    lost = found != predictions
    is_free_to_look = probs.device.type == "cpu" and not torch.compiler.is_compiling()
    if is_free_to_look and not lost.any():
        return probs
    column = predictions[:, None]
    at_prediction = probs.gather(1, column)
    tied = lost[:, None] & (at_prediction == largest[:, None])
    raised = at_prediction * (1.0 + torch.finfo(probs.dtype).eps)
    return probs.scatter(1, column, torch.where(tied, raised, at_prediction))


def concentration(entropy: Tensor, n_classes: int, minimum: Tensor) -> Tensor:
    """sqrt(2 K ln K (1 - e)); its slope is zero and not infinite where e = 1."""
    smallest = minimum.clamp(min=torch.finfo(entropy.dtype).tiny)
    certainty = torch.maximum(1.0 - entropy, smallest)
    return (2.0 * n_classes * math.log(n_classes) * certainty).sqrt()


def normalised_homophily(homophily: Tensor, n_classes: int) -> Tensor:
    """h~ = (K h - 1) / (K - 1)."""
    return (n_classes * homophily - 1.0) / (n_classes - 1.0)
