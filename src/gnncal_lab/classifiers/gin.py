"""Graph isomorphism network (Xu et al., ICLR 2019) with mean aggregation."""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.normalisation import hidden_norms
from gnncal_lab.classifiers.settings import TrainingSettings


class GIN(nn.Module):
    r"""Layers :math:`W (h_i + \mathrm{mean}_{j \to i} h_j) + b`, ReLU and dropout between."""

    def __init__(self, n_features: int, n_classes: int, settings: TrainingSettings) -> None:
        super().__init__()
        widths = settings.widths(n_features, n_classes)
        self.layers = nn.ModuleList(nn.Linear(*shape) for shape in pairwise(widths))
        self.norms = hidden_norms(settings)
        self.dropout = settings.dropout

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        first, *others = self.layers
        weight = first.weight.T.contiguous()
        hidden = x.times(weight) + x.carried_times("mean", weight) + first.bias
        for layer, norm in zip(others, self.norms, strict=True):
            hidden = F.dropout(norm(hidden).relu(), self.dropout, self.training)
            projected = hidden @ layer.weight.T
            hidden = projected + x.mean @ projected + layer.bias
        return hidden
