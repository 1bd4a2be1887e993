"""Softmax, entropy and their relatives on tensors of shape (n_nodes, n_classes).

The same formulas as :mod:`gnncal.core.probability`, with gradients. Every tensor keeps the type
and the device of its input.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gnncal.core.probability import LOWEST_SHIFTED_LOGIT


def shifted(logits: Tensor) -> Tensor:
    """Return the logits with row maximum 0, which changes no probability."""
    return logits - logits.detach().amax(dim=1, keepdim=True)


def softmax(logits: Tensor, temperature: Tensor) -> Tensor:
    """Rows of exp(z / T), normalised; T is (n_nodes,) or one number."""
    return torch.softmax(shifted(logits) / temperature.reshape(-1, 1), dim=1)


def scaled_probabilities(logits: Tensor, temperature: Tensor) -> Tensor:
    """``softmax(logits, temperature)`` whose arg max is that of the logits."""
    return keep_predictions(softmax(logits, temperature), logits.argmax(dim=1))


def keep_predictions(probs: Tensor, predictions: Tensor) -> Tensor:
    """Raise the predicted class by one unit in the last place where rounding tied it.

    Anything larger than a tie is left alone.
    """
    column = predictions[:, None]
    at_prediction = probs.gather(1, column)
    lost = probs.argmax(dim=1, keepdim=True) != column
    tied = lost & (at_prediction == probs.amax(dim=1, keepdim=True))
    raised = at_prediction * (1.0 + torch.finfo(probs.dtype).eps)
    return probs.scatter(1, column, torch.where(tied, raised, at_prediction))


def normalised_entropy(logits: Tensor) -> Tensor:
    """e_i = -sum_k p_ik ln p_ik / ln K of softmax(z_i), in [0, 1]; shape (n_nodes,)."""
    moved = shifted(logits).clamp(min=LOWEST_SHIFTED_LOGIT)
    weights = moved.exp()
    total = weights.sum(dim=1)
    entropy = total.log() - (weights * moved).sum(dim=1) / total
    return (entropy / math.log(logits.shape[1])).clamp(0.0, 1.0)


def concentration(entropy: Tensor, n_classes: int, minimum: Tensor) -> Tensor:
    """sqrt(2 K ln K (1 - e)); its slope is zero and not infinite where e = 1."""
    smallest = minimum.clamp(min=torch.finfo(entropy.dtype).tiny)
    certainty = torch.maximum(1.0 - entropy, smallest)
    return (2.0 * n_classes * math.log(n_classes) * certainty).sqrt()


def normalised_homophily(homophily: Tensor, n_classes: int) -> Tensor:
    """h~ = (K h - 1) / (K - 1)."""
    return (n_classes * homophily - 1.0) / (n_classes - 1.0)
