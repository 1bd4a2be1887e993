"""GCNII (Chen et al., ICML 2020): initial residual and identity mapping."""

from __future__ import annotations

from math import log

import torch.nn.functional as F
from torch import Tensor, nn

from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.settings import TrainingSettings

ALPHA = 0.1  # share of the initial residual
LAMBDA = 0.5  # how fast the identity mapping takes over


class GCNII(nn.Module):
    r"""A linear layer, ``n_layers`` convolutions, a linear layer; dropout before each.

    .. math:: H^{(l)} = \mathrm{ReLU}\bigl(S\,((1-\beta_l) I + \beta_l W_l)\bigr), \quad
        S = (1-\alpha) P H^{(l-1)} + \alpha H^{(0)}, \quad \beta_l = \ln(\lambda / l + 1)

    """

    def __init__(self, n_features: int, n_classes: int, settings: TrainingSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.input = nn.Linear(n_features, hidden)
        self.output = nn.Linear(hidden, n_classes)
        self.layers = nn.ModuleList(
            nn.Linear(hidden, hidden, bias=False) for _ in range(settings.n_layers)
        )
        self.dropout = settings.dropout

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        weight = self.input.weight.T.contiguous()
        initial = (x.times(weight, self.dropout if self.training else 0.0) + self.input.bias).relu()
        hidden = initial
        for depth, layer in enumerate(self.layers, start=1):
            hidden = F.dropout(hidden, self.dropout, self.training)
            support = (1 - ALPHA) * (x.symmetric @ hidden) + ALPHA * initial
            beta = log(LAMBDA / depth + 1)
            hidden = ((1 - beta) * support + beta * layer(support)).relu()
        return self.output(F.dropout(hidden, self.dropout, self.training))
