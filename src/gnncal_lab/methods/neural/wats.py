"""WATS: a temperature from graph wavelets of the degree (Li et al., 2025)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import ive

from gnncal import Graph, Nodes
from gnncal.calibrators import Array, integer, number, one_of
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.parts import Protocol
from gnncal_lab.methods.neural.base import NeuralTemperature, Noise, Weights, dropped_out, linear
from gnncal_lab.methods.neural.parameters import StopOn, TrainingParameters

if TYPE_CHECKING:
    from torch import Tensor

Coefficients = Literal["heat-kernel", "bessel", "exponential"]
Normalisation = Literal["in-out", "in"]
SMALLEST_TEMPERATURE = 1e-6  # added to softplus, as released
SMALLEST_NORM = 1e-12


class WATS(NeuralTemperature):
    r"""A temperature for each node from its position in the graph, without logits or features.

    .. math:: T_i = \mathrm{softplus}(\mathrm{MLP}(H_i)), \quad
        H_i = (c_0 t_{0,i}, \dots, c_k t_{k,i}) \Big/ \sum_j |c_j t_{j,i}|

    The signals t_j are Chebyshev polynomials of the rescaled Laplacian
    :math:`\hat L = -D^{-1/2} A D^{-1/2}`, applied to x = ln(1 + in-degree + out-degree):
    :math:`t_0 = x`, :math:`t_1 = \hat L x` and :math:`t_j = 2 \hat L t_{j-1} - t_{j-2}`. A is the
    adjacency matrix without self-loops, D holds the degrees, and the diagonal of :math:`\hat L` is
    -1 at nodes that receive nothing. The c_j are set by ``coefficients``; the MLP has one hidden
    layer. T is limited to [e^-5, e^5].

    Parameters
    ----------
    coefficients : {"heat-kernel", "bessel", "exponential"}, default="heat-kernel"
        ``"heat-kernel"``: the Chebyshev coefficients of exp(-s (:math:`\hat L` + I)), which are
        c_j = 2 (-1)^j e^{-s} I_j(s) with the modified Bessel functions I_j, and half of that for
        c_0. ``"bessel"`` does not halve c_0, as in the first release. ``"exponential"`` is
        c_j = e^{-sj}, as in the later release.
    order : int, default=3
        The order k. The paper recommends 3; the releases have 2 with ``"bessel"`` and 4 with
        ``"exponential"``.
    scale : float, default=2.0
        The scale s. The paper recommends 2.0; the releases have 1.2 with ``"bessel"`` and 0.4 with
        ``"exponential"``.
    hidden : int, default=32
        Width of the hidden layer of the MLP.
    dropout : float, default=0.4
        Share of the hidden units that are dropped in training.
    normalisation : {"in-out", "in"}, default="in-out"
        Edges and degrees in A and D; the choice matters only on directed graphs. ``"in-out"`` sums
        over senders and takes the in-degree of the receiver and the out-degree of the sender, which
        bounds the spectrum. ``"in"``, as released, sums over receivers and takes the in-degree of
        both.
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

    The ECE in the paper is computed over groups of degrees (``degree_ece`` here).

    References
    ----------
    Li et al., "WATS: wavelet-aware temperature scaling for reliable graph neural networks" (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import WATS
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = WATS(max_epochs=100).fit(
    ...     logits, sample.labels, graph, calibration_nodes=range(200)
    ... )
    >>> bool((calibrator.temperature_ > 1).mean() > 0.9)  # the logits are too large
    True

    """

    constraints: ClassVar = TrainingParameters.training_constraints | {
        "coefficients": one_of("heat-kernel", "bessel", "exponential"),
        "order": integer(at_least=1),
        "scale": number(above=0),
        "hidden": integer(at_least=1),
        "dropout": number(at_least=0, below=1),
        "normalisation": one_of("in-out", "in"),
    }
    weight_table: ClassVar = {
        "input_weight": Array("order+1 hidden"),
        "input_bias": Array("hidden"),
        "output_weight": Array("hidden"),
        "output_bias": Array("1"),
    }

    def __init__(
        self,
        *,
        coefficients: Coefficients = "heat-kernel",
        order: int = 3,
        scale: float = 2.0,
        hidden: int = 32,
        dropout: float = 0.4,
        normalisation: Normalisation = "in-out",
        protocol: Protocol = "converged",
        stop_on: StopOn = "held-out",
        max_epochs: int = 1000,
        patience: int = 50,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.coefficients = coefficients
        self.order = order
        self.scale = scale
        self.hidden = hidden
        self.dropout = dropout
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
        n_signals, h = self.order + 1, self.hidden
        return {
            "input_weight": linear(generator, n_signals, n_signals, h),
            "input_bias": linear(generator, n_signals, h),
            "output_weight": linear(generator, h, h),
            "output_bias": linear(generator, h, 1),
        }

    def _inputs(self, nodes: Nodes, rows: IntArray) -> Tensor:
        import torch

        signals = chebyshev_signals(nodes.required_graph, self.order, self.normalisation)
        H = wavelet_coefficients(self.coefficients, self.order, self.scale) * signals[rows]
        H /= np.maximum(np.abs(H).sum(axis=1, keepdims=True), SMALLEST_NORM)
        return torch.from_numpy(H.astype(nodes.logits.dtype))

    def _network(self, weights: dict[str, Tensor], inputs: Tensor, noise: Noise | None) -> Tensor:
        import torch
        from torch.nn.functional import softplus

        hidden = torch.addmm(weights["input_bias"], inputs, weights["input_weight"]).relu()
        hidden = dropped_out(hidden, self.dropout, noise)
        output = hidden @ weights["output_weight"] + weights["output_bias"]
        return softplus(output) + SMALLEST_TEMPERATURE


def wavelet_coefficients(variant: Coefficients, order: int, scale: float) -> FloatArray:
    """c_0..c_k, shape (order + 1,)."""
    j = np.arange(order + 1)
    if variant == "exponential":
        return np.exp(-scale * j)
    c: FloatArray = 2.0 * (-1.0) ** j * ive(j, scale)  # ive is exp(-s) I_j(s)
    if variant == "heat-kernel":
        c[0] /= 2.0
    return c


def chebyshev_signals(graph: Graph, order: int, normalisation: Normalisation) -> FloatArray:
    """t_0..t_k of the logarithmic degree, shape (n_nodes, order + 1)."""
    x = np.log1p(np.maximum(graph.in_degree.astype(np.float64) + graph.out_degree, 1e-6))
    laplacian = _rescaled_laplacian(graph, normalisation)
    signals = [x, laplacian(x)]
    while len(signals) <= order:
        signals.append(2.0 * laplacian(signals[-1]) - signals[-2])
    return np.stack(signals, axis=1)


def _rescaled_laplacian(
    graph: Graph, normalisation: Normalisation
) -> Callable[[FloatArray], FloatArray]:
    """x -> (L - I) x without self-loops; L is zero at nodes that receive nothing."""
    received = graph.neighbour_counts(side="in").astype(np.float64)
    if normalisation == "in-out":
        matrix = graph.adjacency(np.float32)
        sent = graph.neighbour_counts(side="out").astype(np.float64)
    else:
        matrix = graph.adjacency(np.float32).T
        sent = received
    to = 1.0 / np.sqrt(np.maximum(received, 1.0))
    by = 1.0 / np.sqrt(np.maximum(sent, 1.0))

    def product(x: FloatArray) -> FloatArray:
        scaled = by * x
        return -to * (matrix @ scaled - graph.self_loops * scaled) - (received == 0) * x

    return product
