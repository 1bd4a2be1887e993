"""A fitted calibrator as a module: its numbers as buffers, its formula, logits and edges in."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import name_of
from gnncal.data.arrays import as_numpy
from gnncal.data.errors import InputError, warn
from gnncal.data.probability import normalised_entropy, softmax
from gnncal.files.saved_calibrators import described
from gnncal.graph.checks import check_kind, missing_reverse_edges
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Side
from gnncal.graph.neighbours import Neighbours
from gnncal.math.formulas import Formula
from gnncal.math.node_summary import NodeSummary, missing_neighbours
from gnncal.torch.neighbours import neighbours_of


class TensorNodes:
    """The nodes of one call of a module, as formulas see them."""

    def __init__(self, logits: Tensor, neighbours: Neighbours | None) -> None:
        self.logits, self.neighbours = logits, neighbours
        self.n_nodes, self.n_classes = logits.shape
        self.predictions = logits.argmax(dim=1)
        self._results: dict[Any, Any] = {}

    @cached_property
    def entropy(self) -> Tensor:
        """Normalised entropy (n_nodes,) of softmax(logits), in [0, 1]."""
        return normalised_entropy(self.logits)

    def cached(self, function: Callable[[Any], Any]) -> Any:
        """Return ``function(nodes)``, computed at most once."""
        if function not in self._results:
            self._results[function] = function(self)
        return self._results[function]


class CalibratorModule(nn.Module):
    """A fitted calibrator as a module: ``module(logits, edge_index)`` returns probabilities.

    :meth:`gnncal.Calibrator.to_torch` creates it. Learned values are float64 buffers, cast to the
    precision of the logits. The probabilities are differentiable with respect to the logits.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.

    Attributes
    ----------
    hops : int
        A node's probabilities depend on the nodes within this many hops, along edges in both
        directions, and on all edges among them.
    side : {"in", "out", "both"}
        Neighbours in use: nodes that send to a node, nodes it sends to, or both.
    metadata : dict
        Metadata of exported files: version, name, number and names of the classes, hops, and
        the kind of graph of the fit.
    checks_values : bool
        Whether a call raises an error for logits that are not finite and for edges to missing
        nodes. Default: True; on a GPU, the check forces a synchronisation. If False, and in
        exported files and compiled modules, a node whose logits are not finite gets NaN, and its
        edges are ignored.

    Examples
    --------
    >>> import torch, gnncal
    >>> from gnncal.torch import CalibratorModule
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> module = gnncal.calibrators.TemperatureScaling().fit(logits, labels).to_torch()
    >>> isinstance(module, CalibratorModule), module.hops
    (True, 0)
    >>> module(torch.tensor([[2.0, 0.0]])).round(decimals=2)
    tensor([[0.7500, 0.2500]])

    """

    checks_values: bool = True

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        self._formula: Formula = calibrator.as_formula()
        self.n_classes, self.name = len(calibrator.classes_), type(calibrator).__name__
        self.hops: int = self._formula.hops
        self.side: Side = self._formula.side
        self.fitted_on: NodeSummary = calibrator.fitted_on_  # not exported
        self.graph_kind = calibrator.graph_kind_
        for key, value in self._formula.arrays.items():
            tensor = torch.as_tensor(as_numpy(value), dtype=torch.float64).clone()
            self.register_buffer(key, tensor)
        about: dict[str, Any] = {"calibrator": self.name}
        with suppress(InputError):  # one's own class may have no name in the catalogue
            about = {**described(calibrator), "calibrator": name_of(calibrator)}
        self.metadata: dict[str, Any] = {
            "gnncal": version("gnncal"),
            **about,
            "n_classes": self.n_classes,
            "class_names": getattr(calibrator, "class_names_", None),
            "hops": self.hops,
            "graph": self.graph_kind,
        }

    @property
    def num_neighbors(self) -> list[int]:
        """``num_neighbors`` of a ``NeighborLoader`` on cached logits: ``[-1] * (hops + 1)``.

        The probabilities of the seed nodes are exact only if every edge has its reverse.
        """
        return [-1] * (self.hops + 1)

    def forward(self, logits: Tensor, edge_index: Any = None) -> Tensor:
        """Return the calibrated probabilities of every node.

        Parameters
        ----------
        logits : torch.Tensor of shape (n_nodes, n_classes)
            Raw scores.
        edge_index : torch.Tensor of shape (2, n_edges), optional
            Edges; messages flow from row 0 to row 1. May also be a transposed adjacency (``adj_t``,
            any sparse layout) or a :class:`gnncal.Graph`. Modules with ``hops`` 0 ignore the edges.

        """
        nodes, formula = self._checked(logits, edge_index), self._formula
        dtype = nodes.logits.dtype
        learned = {name: value.to(dtype) for name, value in self.named_buffers(recurse=False)}
        found = formula.function(nodes, **learned, **formula.settings)
        probs = softmax(nodes.logits, found) if formula.is_temperature else found
        return keep_predictions(probs, nodes.predictions) if formula.keeps_predictions else probs

    def extra_repr(self) -> str:
        """Return the text inside the parentheses of the module's repr."""
        return f"{self.name}, n_classes={self.n_classes}, hops={self.hops}"

    def _checked(self, logits: Tensor, edge_index: Any) -> TensorNodes:
        """Return the logits as they are computed with, with their neighbours if hops is not 0."""
        check_form(logits, self.n_classes)
        if self.hops and edge_index is None:
            raise InputError(f"{self.name} uses neighbours; pass module(logits, edge_index).")
        if self.hops:
            check_kind(self.name, self.graph_kind, are_entities=isinstance(edge_index, EntityGraph))
        if self.hops and torch.jit.is_tracing():
            raise InputError(
                f"torch.jit.trace would keep the edges of this graph in the traced {self.name} and "
                "be wrong on any other; use gnncal.torch.export, or torch.export."
            )
        # Half precision cannot hold a temperature to three digits.
        logits = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
        has_values = not (torch.compiler.is_compiling() or logits.is_meta)
        checks_values = self.checks_values and has_values
        if checks_values:
            check_finite(logits)
        else:  # a row with a NaN or an infinity is NaN in every column
            logits = torch.where(logits.isfinite().all(dim=1, keepdim=True), logits, torch.nan)
        if self.hops == 0:
            return TensorNodes(logits, None)
        neighbours = neighbours_of(edge_index, logits, checks_values=checks_values)
        if checks_values:
            counts = neighbours.counts("both").detach().cpu().numpy()
            if (missing := missing_neighbours(self.fitted_on, counts)) is not None:
                warn(missing)
            reach = self.hops, self.side
            if (missing := missing_reverse_edges(self.graph_kind, neighbours, reach)) is not None:
                warn(missing)
        return TensorNodes(logits, neighbours)


def check_form(logits: Any, n_classes: int) -> None:
    """Raise an InputError unless these are real numbers, a row for each node."""
    if not isinstance(logits, Tensor) or logits.layout != torch.strided:
        raise InputError(
            f"logits is a {type(logits).__name__}, not a dense tensor; pass "
            "torch.as_tensor(logits), or call the calibrator's predict_proba."
        )
    if logits.is_complex():
        raise InputError(
            f"logits has dtype {logits.dtype}, which would lose its imaginary part; pass real "
            "numbers, such as logits.real."
        )
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise InputError(
            f"logits has shape {tuple(logits.shape)}; expected (n_nodes, {n_classes}), "
            "one column for each class that the calibrator was fitted with."
        )


def check_finite(logits: Tensor) -> None:
    """Raise an InputError if a logit is NaN or infinite."""
    if logits.numel() == 0:
        return
    lowest, highest = torch.aminmax(logits.detach())  # one pass; both are NaN if a logit is
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        bad = int((~logits.isfinite()).any(dim=1).sum())
        raise InputError(
            f"logits contains NaN or infinity in {bad} of {len(logits)} rows, which would spread "
            "to neighbours; pass finite values, or set module.checks_values = False to get NaN for "
            "those nodes and leave them out elsewhere."
        )


def keep_predictions(probs: Tensor, predictions: Tensor) -> Tensor:
    """Raise the predicted class by one unit in the last place where rounding tied it."""
    largest, classes = probs.max(dim=1)
    lost = classes != predictions
    is_free_to_look = probs.device.type == "cpu" and not torch.compiler.is_compiling()
    if is_free_to_look and not lost.any():
        return probs
    column = predictions[:, None]
    at_prediction = probs.gather(1, column)
    tied = lost[:, None] & (at_prediction == largest[:, None])
    raised = at_prediction * (1.0 + torch.finfo(probs.dtype).eps)
    return probs.scatter(1, column, torch.where(tied, raised, at_prediction))
