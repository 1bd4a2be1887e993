"""The noisy top-k gate of a mixture of experts (Shazeer et al., ICLR 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnncal_lab.methods.neural.base import Noise

if TYPE_CHECKING:
    from torch import Tensor

SMALLEST_NOISE = 0.01


@dataclass(frozen=True)
class Gates:
    """How much each node listens to each expert."""

    weights: Tensor  # (n, n_experts), rows sum to one
    imbalance: Tensor | float  # CV²(importance) + CV²(load); 0 outside training


def noisy_top_k(clean: Tensor, spread: Tensor, k: int, noise: Noise | None) -> Gates:
    r"""Softmax over the k largest of clean + softplus(spread) ε, without ε outside training."""
    import torch
    from torch.nn.functional import softplus

    if noise is None:
        return Gates(_top_k(clean, k)[0], 0.0)
    sigma = softplus(spread) + SMALLEST_NOISE
    epsilon = torch.from_numpy(noise.standard_normal(clean.shape, dtype=np.float32)).to(clean)
    noisy = clean + sigma * epsilon
    gates, ordered, chosen = _top_k(noisy, k)
    imbalance = squared_variation(gates.sum(dim=0))
    if k < clean.shape[1]:
        others = torch.where(chosen, ordered[:, k, None], ordered[:, k - 1, None])
        stays = torch.special.ndtr((clean - others) / sigma)
        imbalance = imbalance + squared_variation(stays.sum(dim=0))
    return Gates(gates, imbalance)


def squared_variation(values: Tensor) -> Tensor:
    """Unbiased variance over the squared mean."""
    return values.var() / (values.mean() ** 2 + 1e-10)


def _top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gates, the scores in descending order, and which are kept."""
    import torch

    ordered, order = scores.sort(dim=1, descending=True, stable=True)
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(1, order[:, :k], True)
    gates = scores.masked_fill(~chosen, -torch.inf).softmax(dim=1)
    return gates, ordered, chosen
