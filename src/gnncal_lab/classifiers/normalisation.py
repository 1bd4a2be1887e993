"""Batch normalisation between layers, where the settings ask for it."""

from __future__ import annotations

from torch import nn

from gnncal_lab.classifiers.settings import TrainingSettings


def hidden_norms(settings: TrainingSettings) -> nn.ModuleList:
    """Return what stands between each hidden layer and its ReLU."""
    kind = nn.BatchNorm1d if settings.batch_norm else nn.Identity
    return nn.ModuleList(kind(settings.hidden) for _ in range(settings.n_layers - 1))
