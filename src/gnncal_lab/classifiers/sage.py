"""GraphSAGE (Hamilton et al., NeurIPS 2017) with the mean aggregator, on all neighbours."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.normalisation import hidden_norms
from gnncal_lab.classifiers.settings import TrainingSettings


class SAGE(nn.Module):
    r"""Layers :math:`W_s h_i + W_n \mathrm{mean}_{j \to i} h_j + b`, ReLU and dropout between."""

    def __init__(self, n_features: int, n_classes: int, settings: TrainingSettings) -> None:
        super().__init__()
        widths = settings.widths(n_features, n_classes)
        shapes = list(pairwise(widths))
        self.own = nn.ParameterList(_initial(shape) for shape in shapes)
        self.neighbours = nn.ParameterList(_initial(shape) for shape in shapes)
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.norms = hidden_norms(settings)
        self.dropout = settings.dropout

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        hidden = x.times(self.own[0]) + x.carried_times("mean", self.neighbours[0])
        hidden = hidden + self.biases[0]
        layers = zip(self.own[1:], self.neighbours[1:], self.biases[1:], self.norms, strict=True)
        for own, neighbours, bias, norm in layers:
            hidden = F.dropout(norm(hidden).relu(), self.dropout, self.training)
            hidden = hidden @ own + x.mean @ (hidden @ neighbours) + bias
        return hidden


def _initial(shape: tuple[int, int]) -> Tensor:
    return nn.init.xavier_uniform_(torch.empty(shape), gain=2**0.5)
