"""DCGC (Yang et al., 2024): a frozen classifier sees its graph again, with weights on the edges.

The weights are learned on the training nodes, so the classifier itself is needed and predictions
may change. Any calibrator can follow.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal_lab.classifiers.gat import N_HEADS, softmax_by_row
from gnncal_lab.classifiers.inputs import GraphInput
from gnncal_lab.classifiers.settings import TrainingSettings
from gnncal_lab.classifiers.training import TrainedClassifier, evaluate, train
from gnncal_lab.datasets import Dataset, Split
from gnncal_lab.methods.neural.sparse import Pattern, SparseMatrix, SparseProduct

SHARPNESS, OFFSET = 10.0, 0.5  # beta and alpha of the publication
FLOOR = 1e-6  # of a learned weight, so that a node never loses all of its edges
LEARNING = TrainingSettings(weight_decay=5e-3, max_epochs=1000, patience=100, checkpoint="matched")
MOST_NUMBERS = 100_000_000  # of the hidden layer, n_edges x 4 n_classes; about 24 bytes for each
Forward = Callable[[Tensor], Tensor]  # weights of the edges (n_edges,) -> logits


def reweighted_logits(
    classifier: TrainedClassifier,
    dataset: Dataset,
    split: Split,
    *,
    seed: int,
    learning: TrainingSettings = LEARNING,
) -> FloatArray:
    """Return the logits of a frozen classifier on its graph with DCGC's edge weights."""
    if classifier.backbone not in FORWARDS:
        names = " and ".join(FORWARDS)
        raise InputError(f"DCGC knows {names}; got a classifier {classifier.backbone!r}.")
    logits = evaluate(classifier.network, classifier.inputs)
    edges = Edges.of(classifier.inputs)
    _check_size(len(edges.between), logits.shape[1])
    if len(edges.between) < 2:  # loops alone have nothing to weigh
        return logits.numpy()
    labels = torch.tensor(dataset.labels)
    nodes = torch.tensor(split.train_nodes), torch.tensor(split.calibration_nodes)
    forward = as_function_of_weights(classifier)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        decisive = DecisiveWeights(logits, edges, forward, classifier.settings.dropout)
        train(decisive, classifier.inputs, labels, *nodes, learning)
    probs = evaluate(decisive, classifier.inputs).softmax(dim=1)
    with torch.no_grad():
        return forward(decisive.weights() * homophily_weights(probs, edges)).numpy()


@dataclass(frozen=True)
class Edges:
    """Sender and receiver of each edge, and which of the edges are no self-loops."""

    senders: Tensor
    receivers: Tensor
    between: Tensor  # positions

    @staticmethod
    def of(x: GraphInput) -> Edges:
        """Return the edges in the order of the sparse matrices."""
        senders, receivers = x.edges.columns, x.edges.rows
        return Edges(senders, receivers, torch.nonzero(senders != receivers).squeeze(1))

    def spread(self, weights: Tensor) -> Tensor:
        """Return weights of all edges, given those between two nodes; that of a loop is 1."""
        return weights.new_ones(len(self.senders)).index_copy(0, self.between, weights)


class DecisiveWeights(nn.Module):
    """ReLU(MLP([z_u; z_v])) of the logits at both ends, 2K -> 4K -> 1 with batch normalisation."""

    def __init__(self, logits: Tensor, edges: Edges, forward: Forward, dropout: float) -> None:
        super().__init__()
        n_classes = logits.shape[1]
        self.perceptron = nn.Sequential(
            nn.Linear(2 * n_classes, 4 * n_classes),
            nn.BatchNorm1d(4 * n_classes),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(4 * n_classes, 1),
        )
        ends = edges.senders[edges.between], edges.receivers[edges.between]
        self._pairs = torch.cat([logits[end] for end in ends], dim=1)  # (n_edges, 2K)
        self._edges, self._classifier = edges, forward

    def weights(self) -> Tensor:
        """Return the weight of each edge, (n_edges,)."""
        return self._edges.spread(self.perceptron(self._pairs).squeeze(1).clamp(min=FLOOR))

    def forward(self, x: GraphInput) -> Tensor:
        """Return the logits, (n_nodes, n_classes)."""
        return self._classifier(self.weights())


def homophily_weights(probs: Tensor, edges: Edges) -> Tensor:
    """Return 1 / (|Q_u - Q_v| + 0.5) for Q proportional to exp(10 P); 1 for self-loops."""
    sharp = (SHARPNESS * probs).softmax(dim=1)
    senders, receivers = (end[edges.between] for end in (edges.senders, edges.receivers))
    return edges.spread(1 / ((sharp[senders] - sharp[receivers]).norm(dim=1) + OFFSET))


def as_function_of_weights(classifier: TrainedClassifier) -> Forward:
    """Return the frozen classifier as a function of edge weights; ones give its own logits."""
    network = copy.deepcopy(classifier.network).eval().requires_grad_(False)
    return FORWARDS[classifier.backbone](network, classifier.inputs)


class WeightedInput:
    """What a GCN reads of its graph, the features times its first weights computed before."""

    def __init__(self, normalised: Tensor, pattern: Pattern, projected: Tensor) -> None:
        self.symmetric = SparseMatrix(pattern.matrix)
        self.symmetric.values = normalised
        self._projected = projected

    def carried_times(self, rule: str, weight: Tensor) -> Tensor:
        """Return P X W."""
        return self.symmetric @ self._projected


def _gcn(network: Any, x: GraphInput) -> Forward:
    """Normalise again with weighted degrees; a node without edges has degree one, as before."""
    projected = x.times(network.weights[0])

    def forward(weights: Tensor) -> Tensor:
        scaled = weights
        for ends in (x.edges.rows, x.edges.columns):
            degree = weights.new_zeros(len(projected)).index_add(0, ends, weights)
            scaled = scaled * degree.where(degree > 0, 1.0).rsqrt()[ends]
        return network(WeightedInput(scaled, x.edges, projected))

    return forward


def _gat(network: Any, x: GraphInput) -> Forward:
    """Multiply the attention after its softmax, and do not normalise again."""
    h = x.times(network.weight).view(x.edges.matrix.shape[0], N_HEADS, -1)
    sent, received = ((h * a).sum(-1) for a in (network.a_source, network.a_target))
    scores = F.leaky_relu(sent[x.edges.columns] + received[x.edges.rows], 0.2)
    alpha = softmax_by_row(scores, x.edges)
    by_head = [(alpha[:, i].contiguous(), h[:, i].contiguous()) for i in range(N_HEADS)]

    def forward(weights: Tensor) -> Tensor:
        heads = [SparseProduct.apply(weights * share, part, x.edges) for share, part in by_head]
        return network.out(torch.cat(heads, dim=1) + network.bias)

    return forward


FORWARDS: dict[str, Callable[[Any, GraphInput], Forward]] = {"gcn": _gcn, "gat": _gat}


def _check_size(n_edges: int, n_classes: int) -> None:
    numbers = 4 * n_edges * n_classes
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"DCGC learns from {n_edges:,} edges with {4 * n_classes} hidden units each, which "
            f"takes about {24 * numbers / 1e9:.0f} GB; expected at most {MOST_NUMBERS:,} numbers, "
            f"got {numbers:,}; use a smaller graph."
        )
