"""GATS: a temperature from attention over the neighbours (Hsu et al., NeurIPS 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from gnncal import Graph, Nodes
from gnncal.calibrators import Array, integer, number, one_of
from gnncal_lab.arrays import BoolArray, FloatArray, IntArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import FLAG, TEXT, Protocol
from gnncal_lab.fitting.recalled import check_recalled_nodes
from gnncal_lab.methods.neural.base import NeuralTemperature, Noise, Weights, bounded, glorot
from gnncal_lab.methods.neural.parameters import StopOn, TrainingParameters

if TYPE_CHECKING:
    from torch import Tensor

    from gnncal_lab.methods.neural.propagation import Attention

SMALLEST_RANGE = 1e-8  # of a row of logits that is divided by its range
SMALLEST_FACTOR = 1e-3  # of a distance factor that is divided by


class GATS(NeuralTemperature):
    r"""A temperature for each node, computed by attention over its neighbours.

    .. math::
        T_i = T_0 + \frac1H \sum_h \mathrm{softplus}\Bigl(\omega\, \delta_i
            + \sum_{j \in \hat N(i)} \alpha_{ij} \gamma_j \theta_h^\top \hat z_j\Bigr), \quad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}_{0.2}
            \Bigl(\frac{z_i^\top z_j}{\gamma_i \gamma_j}\Bigr)

    :math:`\hat N(i)` are the senders to node i and i itself. z_j are the logits of node j, and
    :math:`\hat z_j` the same logits sorted and scaled to [0, 1]. δ_i is the confidence of node i
    minus the mean confidence of :math:`\hat N(i)`. γ is a_0 at training nodes, a_1 at nodes that
    receive an edge from a training node, and 1 elsewhere. T_0, a_0, a_1, ω and a vector θ_h for
    each of the H attention heads are trained. T is limited to [e^-5, e^5]. On a graph other than
    the fitted one, the nodes whose labels are
    passed as ``known_labels`` count as training nodes.

    Parameters
    ----------
    heads : int, default=8
        Number H of attention heads.
    base_temperature : float, default=1.0
        The initial T_0.
    positive : bool, default=True
        Whether T_0, a_0 and a_1 are kept positive, by training their logarithms.
    relative_to : {"in", "out"}, default="in"
        How δ_i averages the differences in confidence. ``"in"`` divides their sum by the size of
        :math:`\hat N(i)`, as above; ``"out"`` divides it by one plus the number of receivers of i.
        Both are equal on undirected graphs.
    weight_decay : float, default=0.001
        Multiple of the weights that is added to their gradient.
    protocol, stop_on, max_epochs, patience, learning_rate, random_state : Any
        Options of the training loop (docs/methods.md, Neural methods).

    Attributes
    ----------
    weights_ : dict of ndarray
        The trained weights by name.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    train_nodes_ : ndarray of int
        Training nodes of the fitted graph.

    Notes
    -----
    Use it to compare with the publication. ``structural`` trains no network and had a lower log
    loss on all eleven graphs with at least 100 calibration nodes (docs/evidence.md).

    ``positive=False`` and ``relative_to="out"`` reproduce the release, in which T_0 can become
    negative. The limits on T are ours: without them, a negative T reverses the order of the classes
    of a node. The release divides by zero if all logits of a node are equal; gnncal does not.

    References
    ----------
    Hsu, Shen, Tomani, Cremers, "What makes graph neural networks miscalibrated?" (NeurIPS 2022).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import GATS
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = GATS(max_epochs=50).fit(
    ...     logits, sample.labels, graph, calibration_nodes=range(200)
    ... )
    >>> bool((calibrator.temperature_ > 1).mean() > 0.9)  # the logits are too large
    True

    """

    weight_table: ClassVar = {
        "theta": Array("K heads"),
        "omega": Array("1"),
        "base_temperature": Array("1"),
        "train_factor": Array("1"),
        "neighbour_factor": Array("1"),
    }
    learned: ClassVar = {
        **NeuralTemperature.learned,
        "train_nodes_": Array("m", low=0, whole=True, may_be_empty=True),
        "graph_fingerprint_": TEXT,
    }
    train_nodes_: IntArray
    graph_fingerprint_: str

    constraints: ClassVar = TrainingParameters.training_constraints | {
        "heads": integer(at_least=1),
        "base_temperature": number(above=0),
        "positive": FLAG,
        "relative_to": one_of("in", "out"),
    }

    def __init__(
        self,
        *,
        heads: int = 8,
        base_temperature: float = 1.0,
        positive: bool = True,
        relative_to: Literal["in", "out"] = "in",
        weight_decay: float = 1e-3,
        protocol: Protocol = "converged",
        stop_on: StopOn = "held-out",
        max_epochs: int = 1000,
        patience: int = 50,
        learning_rate: float = 0.01,
        random_state: Any = 0,
    ) -> None:
        self.heads = heads
        self.base_temperature = base_temperature
        self.positive = positive
        self.relative_to = relative_to
        super().__init__(
            protocol=protocol,
            stop_on=stop_on,
            max_epochs=max_epochs,
            patience=patience,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            random_state=random_state,
        )

    def _remember(self, nodes: Nodes) -> None:
        self.train_nodes_ = nodes.train_nodes
        self.graph_fingerprint_ = nodes.required_graph.fingerprint

    def _initial(self, nodes: Nodes, generator: np.random.Generator) -> Weights:
        start = np.array([self.base_temperature, 1.0, 1.0])
        T0, a0, a1 = np.log(start) if self.positive else start
        return {
            "theta": glorot(generator, nodes.n_classes, self.heads),
            "omega": np.zeros(1),
            "base_temperature": np.array([T0]),
            "train_factor": np.array([a0]),
            "neighbour_factor": np.array([a1]),
        }

    def _inputs(self, nodes: Nodes, rows: IntArray) -> _Inputs:
        import torch

        from gnncal_lab.methods.neural.propagation import Attention, Neighbourhoods, has_sender

        graph = nodes.required_graph
        around = Neighbourhoods.of(graph, rows)
        z = bounded(nodes.logits[around.nodes])
        is_train = self._is_train(graph, nodes.known_labels)
        is_near = has_sender(graph, is_train) & ~is_train
        confidence = softmax(z).max(axis=1)
        surplus = confidence[around.own] * around.degree - around.sums(confidence)
        leaving = 1 + graph.neighbour_counts(side="out")[rows]
        surplus /= around.degree if self.relative_to == "in" else leaving
        return _Inputs(
            sorted_logits=torch.from_numpy(_sorted(z)),
            is_train=torch.from_numpy(is_train[around.nodes].astype(z.dtype)),
            is_near=torch.from_numpy(is_near[around.nodes].astype(z.dtype)),
            surplus=torch.from_numpy(surplus.astype(z.dtype)),
            attention=Attention(around, z),
        )

    def _is_train(self, graph: Graph, known_labels: IntArray | None) -> BoolArray:
        if known_labels is not None:
            return known_labels >= 0
        is_train = np.zeros(graph.n_nodes, dtype=bool)
        if graph.fingerprint == self.graph_fingerprint_:
            check_recalled_nodes(self.train_nodes_, graph.n_nodes)
            is_train[self.train_nodes_] = True
        return is_train

    def _network(self, weights: dict[str, Tensor], inputs: _Inputs, noise: Noise | None) -> Tensor:
        from torch.nn.functional import softplus

        names = ("base_temperature", "train_factor", "neighbour_factor")
        T0, a0, a1 = (weights[name] for name in names)
        if self.positive:
            T0, a0, a1 = T0.exp(), a0.exp(), a1.exp()
        gamma = 1 + (a0 - 1) * inputs.is_train + (a1 - 1) * inputs.is_near
        tau = inputs.sorted_logits @ weights["theta"]
        scale = 1 / gamma.clamp(min=SMALLEST_FACTOR)
        around = inputs.attention(scale, gamma[:, None] * tau)
        own = weights["omega"] * inputs.surplus
        return T0 + softplus(own[:, None] + around).mean(dim=1)


def _sorted(logits: FloatArray) -> FloatArray:
    """Return each row scaled to [0, 1], ascending."""
    z = np.sort(logits, axis=1)
    z -= z[:, :1]
    z /= np.maximum(z[:, -1:], SMALLEST_RANGE)
    return z


@dataclass(frozen=True)
class _Inputs:
    """What GATS reads of the senders to the rows; ``surplus`` is that of the rows."""

    sorted_logits: Tensor  # (n_senders, n_classes)
    is_train: Tensor  # (n_senders,) 0 or 1
    is_near: Tensor  # (n_senders,) 0 or 1
    surplus: Tensor  # (n_rows,) delta
    attention: Attention
