"""Graph convolutional network (Kipf & Welling, ICLR 2017)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.normalisation import hidden_norms
from gnncal_lab.classifiers.settings import TrainingSettings


class GCN(nn.Module):
    r"""Layers :math:`D_\text{in}^{-1/2} A D_\text{out}^{-1/2} H W + b`, ReLU and dropout
    between."""

    def __init__(self, n_features: int, n_classes: int, settings: TrainingSettings) -> None:
        super().__init__()
        widths = settings.widths(n_features, n_classes)
        self.weights = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(shape)) for shape in pairwise(widths)
        )
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.norms = hidden_norms(settings)
        self.dropout = settings.dropout

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        hidden = x.carried_times("symmetric", self.weights[0]) + self.biases[0]
        for weight, bias, norm in zip(self.weights[1:], self.biases[1:], self.norms, strict=True):
            hidden = F.dropout(norm(hidden).relu(), self.dropout, self.training)
            hidden = x.symmetric @ (hidden @ weight) + bias
        return hidden
