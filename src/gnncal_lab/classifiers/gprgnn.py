"""GPR-GNN (Chien et al., ICLR 2021): predict, then propagate with learned PageRank weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.settings import TrainingSettings

N_HOPS = 10
ALPHA = 0.1  # teleport probability of the PageRank weights it starts from


class GPRGNN(nn.Module):
    r""":math:`\sum_{k=0}^{10} \gamma_k P^k \,\mathrm{MLP}(X)`; :math:`\gamma_k` starts as
    PageRank."""

    def __init__(self, n_features: int, n_classes: int, settings: TrainingSettings) -> None:
        super().__init__()
        self.input = nn.Linear(n_features, settings.hidden)
        self.output = nn.Linear(settings.hidden, n_classes)
        gamma = ALPHA * (1 - ALPHA) ** torch.arange(N_HOPS + 1)
        gamma[-1] = (1 - ALPHA) ** N_HOPS  # so that they sum to one
        self.gamma = nn.Parameter(gamma)
        self.dropout = settings.dropout

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        weight = self.input.weight.T.contiguous()
        hidden = x.times(weight, self.dropout if self.training else 0.0) + self.input.bias
        carried = self.output(F.dropout(hidden.relu(), self.dropout, self.training))
        total = self.gamma[0] * carried
        for gamma in self.gamma[1:]:
            carried = x.symmetric @ carried
            total = total + gamma * carried
        return total
