"""CaGCN: a temperature from a two-layer GCN on the logits (Wang et al., NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import sparse

from gnncal import Graph, Nodes
from gnncal.calibrators import Array, integer, number, one_of
from gnncal_lab.arrays import IntArray
from gnncal_lab.fitting.parts import FLAG, Protocol
from gnncal_lab.methods.neural.base import (
    NeuralTemperature,
    Noise,
    Weights,
    bounded,
    dropped_out,
    glorot,
    linear,
    within_range,
)
from gnncal_lab.methods.neural.parameters import StopOn, TrainingParameters

if TYPE_CHECKING:
    from torch import Tensor

    from gnncal_lab.methods.neural.sparse import SparseMatrix

Link = Literal["softplus", "log-shifted"]
SHIFT = 1.1  # of the original link


class CaGCN(NeuralTemperature):
    r"""Multiply each node's logits by a positive number that a GCN computes from nearby logits.

    .. math:: \frac1T = g(t), \quad
        t = \hat A \, \mathrm{dropout}(\mathrm{ReLU}(\hat A Z W_1 + b_1)) \, w_2 + b_2

    Here Z are the logits of all nodes, :math:`\hat A` is the normalised adjacency matrix, g a
    positive function (``link``), and W_1, b_1, w_2, b_2 are trained. T is limited to [e^-5, e^5].

    Parameters
    ----------
    link : {"softplus", "log-shifted"}, default="softplus"
        The function g: ln(e^t + 1), as in later releases, or the original ln(e^t + 1.1), which
        keeps T below 10.5.
    margin_weight : float, default=0.0
        Weight of a penalty added to the log loss. With the margin m between the two largest
        probabilities, the penalty is the mean of 1 - m at correct nodes and of m at wrong nodes.
    hidden : int, default=16
        Width of the hidden layer.
    dropout : float, default=0.5
        Share of the hidden units that are dropped in training.
    initial : {"glorot", "uniform"}, default="glorot"
        Initial weights. With ``"glorot"`` the biases are 0 and T starts near 1.44. ``"uniform"``
        draws weights and biases within 1 / sqrt(outputs) of 0, where outputs is the width of the
        layer's output.
    add_self_loops : bool, default=True
        Whether each node without a self-loop gets one.
    normalisation : {"in-out", "out"}, default="in-out"
        Degrees that normalise the adjacency matrix. ``"in-out"`` takes the in-degree of the
        receiver and the out-degree of the sender. ``"out"`` takes the out-degree of both and adds a
        self-loop to every node, even if it has one. The two options are equal on undirected graphs
        without self-loops.
    protocol, stop_on, max_epochs, patience, learning_rate, weight_decay, random_state : Any
        Options of the training loop (docs/methods.md, Neural methods).

    Attributes
    ----------
    weights_ : dict of ndarray
        The trained weights by name.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.

    Notes
    -----
    Use it to compare with the publication. ``structural`` trains no network and had a lower log
    loss on all eleven graphs with at least 100 calibration nodes (docs/evidence.md).

    The defaults follow later releases. The original release has ``link="log-shifted"``,
    ``margin_weight=0.5``, ``initial="uniform"`` and ``normalisation="out"``, and it stops on the
    nodes that it trains on (here ``stop_on="none"`` comes closest). It also trains with the
    classifier's dropout on; here the logits are constant.

    References
    ----------
    Wang, Liu, Shi, Yang, "Be confident! Towards trustworthy graph neural networks via confidence
    calibration" (NeurIPS 2021).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import CaGCN
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = CaGCN(max_epochs=50).fit(
    ...     logits, sample.labels, graph, calibration_nodes=range(200)
    ... )
    >>> bool((calibrator.temperature_ > 1).mean() > 0.9)  # the logits are too large
    True

    """

    constraints: ClassVar = TrainingParameters.training_constraints | {
        "link": one_of("softplus", "log-shifted"),
        "margin_weight": number(at_least=0),
        "hidden": integer(at_least=1),
        "dropout": number(at_least=0, below=1),
        "initial": one_of("glorot", "uniform"),
        "add_self_loops": FLAG,
        "normalisation": one_of("in-out", "out"),
    }
    weight_table: ClassVar = {
        "input_weight": Array("K hidden"),
        "input_bias": Array("hidden"),
        "output_weight": Array("hidden"),
        "output_bias": Array("1"),
    }

    def __init__(
        self,
        *,
        link: Link = "softplus",
        margin_weight: float = 0.0,
        hidden: int = 16,
        dropout: float = 0.5,
        initial: Literal["glorot", "uniform"] = "glorot",
        add_self_loops: bool = True,
        normalisation: Literal["in-out", "out"] = "in-out",
        protocol: Protocol = "converged",
        stop_on: StopOn = "held-out",
        max_epochs: int = 1000,
        patience: int = 50,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.link = link
        self.margin_weight = margin_weight
        self.hidden = hidden
        self.dropout = dropout
        self.initial = initial
        self.add_self_loops = add_self_loops
        self.normalisation = normalisation
        super().__init__(
            protocol=protocol,
            stop_on=stop_on,
            max_epochs=max_epochs,
            patience=patience,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            random_state=random_state,
        )

    def _initial(self, nodes: Nodes, generator: np.random.Generator) -> Weights:
        K, h = nodes.n_classes, self.hidden
        if self.initial == "uniform":
            return {
                "input_weight": linear(generator, h, K, h),
                "input_bias": linear(generator, h, h),
                "output_weight": linear(generator, 1, h),
                "output_bias": linear(generator, 1, 1),
            }
        return {
            "input_weight": glorot(generator, K, h),
            "input_bias": np.zeros(h),
            "output_weight": glorot(generator, h, 1, h),
            "output_bias": np.zeros(1),
        }

    def _inputs(self, nodes: Nodes, rows: IntArray) -> _Inputs:
        import torch

        from gnncal_lab.methods.neural.propagation import restrict
        from gnncal_lab.methods.neural.sparse import SparseMatrix

        logits = nodes.logits
        adjacency = self._adjacency(nodes.required_graph, logits.dtype)
        last, senders = restrict(adjacency, rows)
        first = adjacency if len(senders) == len(logits) else adjacency[senders]
        propagated = first @ bounded(logits)  # Â (Z W) = (Â Z) W, so Â Z is computed once
        return _Inputs(torch.from_numpy(propagated), SparseMatrix(last))

    def _adjacency(self, graph: Graph, dtype: np.dtype[Any]) -> sparse.csr_array:
        if self.normalisation == "in-out":
            return graph.normalised_adjacency(add_self_loops=self.add_self_loops, dtype=dtype)
        loops = sparse.eye_array(graph.n_nodes, dtype=dtype) * self.add_self_loops
        matrix = sparse.csr_array(graph.adjacency(dtype) + loops)
        degree = graph.out_degree + int(self.add_self_loops)
        scale = (1.0 / np.sqrt(np.maximum(degree, 1))).astype(dtype)
        matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
        matrix.data *= scale[matrix.indices]
        return matrix

    def _network(self, weights: dict[str, Tensor], inputs: _Inputs, noise: Noise | None) -> Tensor:
        import torch
        from torch.nn.functional import softplus

        hidden = torch.addmm(weights["input_bias"], inputs.propagated, weights["input_weight"])
        hidden = dropped_out(hidden.relu(), self.dropout, noise)
        t = inputs.last @ (hidden @ weights["output_weight"]) + weights["output_bias"]
        if self.link == "softplus":
            multiplier = softplus(t)
        else:
            multiplier = torch.logaddexp(t, t.new_tensor(np.log(SHIFT)))
        return 1 / within_range(multiplier)  # before it underflows; the same range as T's

    def _loss(
        self,
        weights: dict[str, Tensor],
        inputs: _Inputs,
        logits: Tensor,
        labels: Tensor,
        noise: Noise,
    ) -> Tensor:
        from torch.nn.functional import cross_entropy

        scores = self._scores(weights, inputs, logits, noise)
        loss = cross_entropy(scores, labels)
        if self.margin_weight:
            top = scores.softmax(dim=1).topk(2, dim=1).values
            margin = top[:, 0] - top[:, 1]
            correct = logits.argmax(dim=1) == labels
            loss = loss + self.margin_weight * margin.where(~correct, 1 - margin).mean()
        return loss


@dataclass(frozen=True)
class _Inputs:
    propagated: Tensor  # (n_senders, n_classes) Â Z at the senders of the rows
    last: SparseMatrix  # (n_rows, n_senders)
