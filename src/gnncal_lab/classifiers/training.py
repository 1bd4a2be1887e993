"""Full-batch training with early stopping.

The loop is not that of the neural calibrators. What is kept here includes the statistics of batch
normalisation, a score may be that of the training pass, and only a lower one counts as better; the
key of cached logits is a digest of this very code.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.graph.graph import Graph
from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.settings import TrainingSettings


@dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier, ready to give logits on its graph or another."""

    backbone: str
    settings: TrainingSettings
    n_epochs: int
    validation_loss: float
    network: Any = field(repr=False)
    inputs: GraphInput = field(repr=False)

    def logits(self, graph: Graph | None = None) -> FloatArray:
        """Return the logits of every node of the training graph or of another one."""
        inputs = self.inputs if graph is None else GraphInput(self._checked(graph))
        return evaluate(self.network, inputs).numpy()

    def _checked(self, graph: Graph) -> Graph:
        width = self.inputs.n_features
        if graph.features is None or graph.features.shape[1] != width:
            shape = None if graph.features is None else graph.features.shape
            raise InputError(
                f"the classifier was trained on {width} features but those of this graph are "
                f"{shape}; pass Graph(edge_index, features=x) with the same columns."
            )
        return graph


def evaluate(network: nn.Module, inputs: GraphInput) -> Tensor:
    """Return the logits in evaluation mode, that is without dropout."""
    network.eval()
    with torch.no_grad():
        return network(inputs)


def train(
    network: nn.Module,
    inputs: GraphInput,
    labels: Tensor,
    train_nodes: Tensor,
    validation_nodes: Tensor,
    settings: TrainingSettings,
) -> int:
    """Train in place, leave the network with the kept weights, and return the epochs run."""
    adam = torch.optim.Adam(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    best_score, best_epoch, kept = float("inf"), 0, copy.deepcopy(network.state_dict())
    epoch, patience = 0, settings.patience or settings.max_epochs
    while epoch < settings.max_epochs and epoch - best_epoch < patience:
        epoch += 1
        logits = network.train()(inputs)
        adam.zero_grad()
        training_loss(logits[train_nodes], labels[train_nodes], settings).backward()
        adam.step()
        if settings.checkpoint != "release":
            logits = evaluate(network, inputs)
        score = validation_score(logits[validation_nodes], labels[validation_nodes], settings)
        if score < best_score:
            best_score, best_epoch = score, epoch
            kept = copy.deepcopy(network.state_dict())
    if settings.checkpoint != "last":
        network.load_state_dict(kept)
    return epoch


def training_loss(logits: Tensor, labels: Tensor, settings: TrainingSettings) -> Tensor:
    """Return the mean loss of the training nodes."""
    if settings.loss == "cross-entropy":
        return F.cross_entropy(logits, labels)
    if settings.loss == "weighted":
        return weighted_loss(logits, labels)
    log_p = logits.log_softmax(dim=1).gather(1, labels[:, None])
    return -((1 + settings.gamma * log_p.exp()) * log_p).mean()


def weighted_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the classes that occur of the mean loss of their nodes."""
    counts = labels.bincount(minlength=logits.shape[1])
    return F.cross_entropy(logits, labels, weight=1 / counts.clamp(min=1).to(logits.dtype))


def validation_score(logits: Tensor, labels: Tensor, settings: TrainingSettings) -> float:
    """Return the loss of the validation nodes, or minus their accuracy: smaller is better."""
    if settings.stop_on == "loss" and settings.loss == "weighted":
        return weighted_loss(logits, labels).item()
    if settings.stop_on == "loss":
        return F.cross_entropy(logits, labels).item()
    return -(logits.argmax(dim=1) == labels).float().mean().item()
