"""GETS: graph experts that scale each class of each node (Zhuang et al., ICLR 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from gnncal import Graph, InputError, Nodes
from gnncal.calibrators import Array, integer, number
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import FLAG, LearnedTable, Protocol
from gnncal_lab.methods.neural.base import (
    NeuralCalibrator,
    Noise,
    Weights,
    bounded,
    dropped_out,
    glorot,
    linear,
    within_range,
)
from gnncal_lab.methods.neural.gate import Gates, noisy_top_k
from gnncal_lab.methods.neural.parameters import StopOn, TrainingParameters

if TYPE_CHECKING:
    from torch import Tensor

    from gnncal_lab.methods.neural.features import ConstantFeatures
    from gnncal_lab.methods.neural.sparse import SparseMatrix

EXPERTS = ("l", "f", "d", "lf", "fd", "ld", "lfd")  # which of logits, features, degrees each sees


class GETS(NeuralCalibrator):
    r"""Multiply the logit of each class of each node by a positive number from seven experts.

    .. math:: z'_{ic} = z_{ic}\, \mathrm{softplus}(t_{ic}), \quad
        t_i = \sum_m g_{im}\, \mathrm{GCN}_m(u^m)_i

    Here z_ic is the logit of class c at node i, z'_ic the calibrated one. Expert m is a two-layer
    GCN; its input u^m combines one of the seven non-empty subsets of {logits, projected features,
    embedded degree}. The gate scores the experts linearly in the logits and the projected features,
    with noise in training. g_i is the softmax over the ``experts_per_node`` highest scores, and 0
    for the other experts. The multipliers are limited to [e^-5, e^5].

    If the graph has no features, the three experts without features remain, and the gate sees the
    logits only. The degree is in-degree plus out-degree. Degrees above the highest degree of the
    fitted graph get the embedding of that degree.

    Parameters
    ----------
    hidden : int, default=16
        Width of the experts' hidden layers.
    dropout : float, default=0.5
        Share of the hidden units that are dropped in training.
    experts_per_node : int, default=2
        Number of experts that the gate keeps for each node.
    feature_width : int, default=16
        Width of the projected features.
    degree_width : int, default=16
        Width of the embedded degrees.
    balance_weight : float, default=1.0
        Weight of a penalty on unequal use of the experts, which is added to the log loss.
    train_degrees : bool, default=True
        Whether the embeddings of degrees are trained. ``False`` leaves them at random values, as in
        the authors' released code.
    add_self_loops : bool, default=True
        Whether each node without a self-loop gets one.
    protocol, stop_on, max_epochs, patience, learning_rate, weight_decay, random_state : Any
        Options of the training loop (docs/methods.md, Neural methods).

    Attributes
    ----------
    weights_ : dict of ndarray
        The trained weights by name.
    n_node_features_ : int
        Number of features of a node, 0 if the fitted graph had none.

    Notes
    -----
    Use it to compare with the publication, if predictions may change. ``structural-free`` had a
    lower log loss on nine of the eleven graphs with at least 100 calibration nodes
    (docs/evidence.md).

    The paper describes one temperature for each node; the release scales each class, and gnncal
    does the same. The ECE in the paper is computed over groups of degrees (``degree_ece`` here).

    References
    ----------
    Zhuang et al., "GETS: ensemble temperature scaling for calibration in graph neural networks"
    (ICLR 2025).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import GETS
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> report = GETS(max_epochs=50).fit(
    ...     logits, sample.labels, graph, calibration_nodes=range(200)
    ... ).fit_report_
    >>> report.loss_after < report.loss_before
    True

    """

    preserves_predictions = False
    zeroes_unseen_classes = True
    learned: ClassVar = {
        **NeuralCalibrator.learned,
        "n_node_features_": integer(at_least=0),
    }
    n_node_features_: int

    constraints: ClassVar = TrainingParameters.training_constraints | {
        "hidden": integer(at_least=1),
        "dropout": number(at_least=0, below=1),
        "experts_per_node": integer(at_least=1, at_most=len(EXPERTS)),
        "feature_width": integer(at_least=1),
        "degree_width": integer(at_least=1),
        "balance_weight": number(at_least=0),
        "train_degrees": FLAG,
        "add_self_loops": FLAG,
    }

    def __init__(
        self,
        *,
        hidden: int = 16,
        dropout: float = 0.5,
        experts_per_node: int = 2,
        feature_width: int = 16,
        degree_width: int = 16,
        balance_weight: float = 1.0,
        train_degrees: bool = True,
        add_self_loops: bool = True,
        protocol: Protocol = "converged",
        stop_on: StopOn = "held-out",
        max_epochs: int = 1000,
        patience: int = 50,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.experts_per_node = experts_per_node
        self.feature_width = feature_width
        self.degree_width = degree_width
        self.balance_weight = balance_weight
        self.train_degrees = train_degrees
        self.add_self_loops = add_self_loops
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
        features = nodes.required_graph.features
        self.n_node_features_ = 0 if features is None else int(features.shape[1])

    def _is_trained(self, name: str) -> bool:
        return self.train_degrees or name != "degree_embedding"

    def _weight_table(self) -> LearnedTable:
        K, F, f = len(self.classes_), self.n_node_features_, self.feature_width
        seeing, experts, gate_width = len(self._seeing("l")), len(self._experts), K + f * bool(F)
        table: dict[str, Any] = {
            "logit_weight": Array(f"{seeing} K hidden"),
            "degree_embedding": Array(f"{seeing} * degree_width"),
            "degree_weight": Array(f"{seeing} degree_width hidden"),
            "first_bias": Array(f"{experts} hidden"),
            "second_weight": Array(f"{experts} hidden K"),
            "second_bias": Array(f"{experts} K"),
            "gate_weight": Array(f"{gate_width} {experts}"),
            "noise_weight": Array(f"{gate_width} {experts}"),
        }
        if F:
            table |= {
                "feature_projection": Array(f"{seeing} {F} {f}"),
                "feature_bias": Array(f"{seeing} {f}"),
                "feature_weight": Array(f"{seeing} {f} hidden"),
                "gate_projection": Array(f"{F} {f}"),
                "gate_bias": Array(f"{f}"),
            }
        return table

    @property
    def _experts(self) -> tuple[str, ...]:
        if self.n_node_features_:
            return EXPERTS
        return tuple(expert for expert in EXPERTS if "f" not in expert)

    def _seeing(self, source: str) -> list[int]:
        """Return the experts whose subset has this source."""
        return [m for m, expert in enumerate(self._experts) if source in expert]

    def _initial(self, nodes: Nodes, generator: np.random.Generator) -> Weights:
        graph = nodes.required_graph
        F, K, M, h = self.n_node_features_, nodes.n_classes, len(self._experts), self.hidden
        width = {"l": K, "f": self.feature_width, "d": self.degree_width}

        def first_layer(source: str) -> FloatArray:
            n_in = [sum(width[s] for s in self._experts[m]) for m in self._seeing(source)]
            return np.stack([glorot(generator, n, h, width[source], h) for n in n_in])

        weights = {"logit_weight": first_layer("l")}  # (4, K, h)
        gate_width = K
        if F:
            n_seeing, f = len(self._seeing("f")), self.feature_width
            weights |= {
                "feature_projection": linear(generator, F, n_seeing, F, f),
                "feature_bias": linear(generator, F, n_seeing, f),
                "feature_weight": first_layer("f"),
                "gate_projection": linear(generator, F, F, f),
                "gate_bias": linear(generator, F, f),
            }
            gate_width += f
        largest = int((graph.in_degree + graph.out_degree).max())
        shape = (len(self._seeing("d")), largest + 1, self.degree_width)
        return weights | {
            "degree_embedding": generator.normal(size=shape),
            "degree_weight": first_layer("d"),
            "first_bias": np.zeros((M, h)),
            "second_weight": np.stack([glorot(generator, h, K) for _ in range(M)]),
            "second_bias": np.zeros((M, K)),
            "gate_weight": np.zeros((gate_width, M)),
            "noise_weight": np.zeros((gate_width, M)),
        }

    def _inputs(self, nodes: Nodes, rows: IntArray) -> _Inputs:
        import torch

        from gnncal_lab.methods.neural.features import ConstantFeatures
        from gnncal_lab.methods.neural.propagation import restrict
        from gnncal_lab.methods.neural.sparse import SparseMatrix

        logits, graph = nodes.logits, nodes.required_graph
        self._check_features(graph)
        z = bounded(logits)
        adjacency = graph.normalised_adjacency(
            add_self_loops=self.add_self_loops, dtype=logits.dtype
        )
        last, senders = restrict(adjacency, rows)
        first, far = restrict(adjacency, senders)
        n_degrees = self.weights_["degree_embedding"].shape[1]
        degree = np.minimum(graph.in_degree + graph.out_degree, n_degrees - 1)[far]
        features = None
        if self.n_node_features_:
            assert graph.features is not None
            features = graph.features.astype(logits.dtype)
        return _Inputs(
            rows=torch.from_numpy(rows),
            logits=torch.from_numpy(z),
            features=None if features is None else ConstantFeatures(features),
            row_features=None if features is None else ConstantFeatures(features[rows]),
            propagated_logits=torch.from_numpy(first @ z[far]),
            propagated_features=None
            if features is None
            else ConstantFeatures(features[far], first),
            reach=torch.from_numpy(np.asarray(first.sum(axis=1))),
            propagated_degrees=SparseMatrix(_by_degree(first, degree, n_degrees)),
            last=SparseMatrix(last),
        )

    def _check_features(self, graph: Graph) -> None:
        if not self.n_node_features_:
            return
        width = 0 if graph.features is None else graph.features.shape[1]
        if width != self.n_node_features_:
            raise InputError(
                f"GETS was fitted with {self.n_node_features_} features but this graph has "
                f"{width or 'none'}; pass Graph(..., features=x) with the same columns."
            )

    def _scores(
        self, weights: dict[str, Tensor], inputs: _Inputs, logits: Tensor, noise: Noise | None
    ) -> Tensor:
        gates = self._gates(weights, inputs, None)
        return self._mixed(weights, inputs, logits, gates.weights, noise)

    def _loss(
        self,
        weights: dict[str, Tensor],
        inputs: _Inputs,
        logits: Tensor,
        labels: Tensor,
        noise: Noise,
    ) -> Tensor:
        from torch.nn.functional import cross_entropy

        gates = self._gates(weights, inputs, noise)  # of every node: their load is balanced
        scores = self._mixed(weights, inputs, logits, gates.weights[inputs.rows], noise)
        return cross_entropy(scores, labels) + self.balance_weight * gates.imbalance

    def _gates(self, weights: dict[str, Tensor], inputs: _Inputs, noise: Noise | None) -> Gates:
        """Return the gates of every node in training, and of the rows otherwise."""
        import torch

        z, x = inputs.logits, inputs.features
        if noise is None:
            z, x = z[inputs.rows], inputs.row_features
        both = torch.cat([weights["gate_weight"], weights["noise_weight"]], dim=1)
        K = z.shape[1]
        scores = z @ both[-K:]
        if x is not None:
            by_feature = both[:-K]
            projected = x @ (weights["gate_projection"] @ by_feature)
            scores = scores + projected + weights["gate_bias"] @ by_feature
        clean, spread = scores.chunk(2, dim=1)
        return noisy_top_k(clean, spread, min(self.experts_per_node, clean.shape[1]), noise)

    def _mixed(
        self,
        weights: dict[str, Tensor],
        inputs: _Inputs,
        logits: Tensor,
        gates: Tensor,
        noise: Noise | None,
    ) -> Tensor:
        import torch
        from torch.nn.functional import softplus

        hidden = dropped_out(self._first_layer(weights, inputs).relu(), self.dropout, noise)
        arrived = inputs.last @ hidden.flatten(1)
        n_experts = gates.shape[1]
        gated = arrived.view(len(arrived), n_experts, -1) * gates[:, :, None]
        t = torch.einsum("imh,mhk->ik", gated, weights["second_weight"])
        t = t + gates @ weights["second_bias"]
        return logits * within_range(softplus(t))

    def _first_layer(self, weights: dict[str, Tensor], inputs: _Inputs) -> Tensor:
        """Â [z, projected x, embedded degree] W + b of every expert, (n_senders, n_experts, h)."""
        import torch

        parts = {"l": inputs.propagated_logits @ _side_by_side(weights["logit_weight"])}
        if inputs.propagated_features is not None:
            by_feature = weights["feature_weight"]
            projected = torch.bmm(weights["feature_projection"], by_feature)
            shift = torch.bmm(weights["feature_bias"][:, None], by_feature)
            parts["f"] = inputs.propagated_features @ _side_by_side(projected)
            parts["f"] = parts["f"] + inputs.reach[:, None] * _side_by_side(shift)
        embedded = torch.bmm(weights["degree_embedding"], weights["degree_weight"])
        parts["d"] = inputs.propagated_degrees @ _side_by_side(embedded)
        total = weights["first_bias"].expand(len(inputs.reach), -1, -1)
        for source, part in parts.items():
            experts = torch.tensor(self._seeing(source))
            total = total.index_add(1, experts, part.view(len(part), len(experts), -1))
        return total

    def _fit(self, nodes: Nodes) -> None:
        super()._fit(nodes)
        scores = self._all_scores(nodes)[nodes.calibration_nodes]
        self.fit_report_ = self._report(nodes, scores)

    def _predict(self, nodes: Nodes) -> FloatArray:
        return softmax(self._all_scores(nodes))

    def _all_scores(self, nodes: Nodes) -> FloatArray:
        import torch

        logits = nodes.logits
        inputs = self._inputs(nodes, np.arange(nodes.n_nodes))
        with torch.no_grad():
            scores = self._scores(
                self._tensors(logits.dtype), inputs, torch.from_numpy(bounded(logits)), None
            )
        array: FloatArray = scores.numpy()
        return array


def _side_by_side(matrices: Tensor) -> Tensor:
    """(m, n, h) as one matrix (n, m h)."""
    return matrices.transpose(0, 1).flatten(1).contiguous()


def _by_degree(matrix: sparse.csr_array, degree: IntArray, n_degrees: int) -> sparse.csr_array:
    """Return the matrix times the one-hot degrees of its columns: (n_rows, n_degrees)."""
    indices = degree.astype(matrix.indices.dtype)[matrix.indices]
    shape = (matrix.shape[0], n_degrees)
    summed = sparse.csr_array((matrix.data.copy(), indices, matrix.indptr.copy()), shape=shape)
    summed.sum_duplicates()
    return summed


@dataclass(frozen=True)
class _Inputs:
    rows: Tensor  # (n_rows,) where an output is wanted
    logits: Tensor  # (n_nodes, n_classes)
    features: ConstantFeatures | None  # X of every node
    row_features: ConstantFeatures | None  # X of the rows
    propagated_logits: Tensor  # (n_senders, n_classes) Â Z at the senders of the rows
    propagated_features: ConstantFeatures | None  # Â X there
    reach: Tensor  # (n_senders,) row sums of Â there
    propagated_degrees: SparseMatrix  # (n_senders, n_degrees) Â times one-hot degrees there
    last: SparseMatrix  # (n_rows, n_senders)
