"""A model with its calibrator: the model's inputs in, calibrated probabilities out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from gnncal.calibration import choose_calibrator
from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError, short_repr, warn
from gnncal.data.nodes import as_nodes, labelled_nodes
from gnncal.files.output import write_file
from gnncal.files.saved_calibrators import load as load_calibrator
from gnncal.graph.checks import missing_reverse_edges
from gnncal.graph.neighbours import GraphNeighbours
from gnncal.keeping_cost import cost_of_keeping_predictions
from gnncal.math.node_summary import missing_neighbours
from gnncal.metrics.evaluation import check_positive_class
from gnncal.torch.inputs import (
    check_batch,
    collected_logits,
    edges_between,
    graph_of,
    hops_of,
    inputs_of,
    is_loader,
    node_type_of,
    of_type,
)
from gnncal.torch.module import CalibratorModule

MODEL_FILE, CALIBRATOR_FILE = "model.safetensors", "calibrator.safetensors"
Forward = Callable[[nn.Module, Any], Any]  # the model and the data in, logits out


class CalibratedModel(nn.Module):
    """A PyTorch Geometric model whose outputs are calibrated probabilities.

    Parameters
    ----------
    model : torch.nn.Module
        ``model(x, edge_index, ...)`` returns logits, (n_nodes, n_classes) or a dict by node type.
    calibrator : Calibrator
        A fitted calibrator that supports ``to_torch``; it is part of the ``state_dict``.
    node_type : str, optional
        The node type of a heterogeneous graph to calibrate.
    forward : callable, optional
        ``forward(model, data)`` returns the logits, for :meth:`predict`.

    Attributes
    ----------
    advice : str or None
        Warning of :meth:`fit` that keeping predictions is costly, with what to do; else None.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCNConv
    >>> from gnncal.torch import CalibratedModel
    >>> _ = torch.manual_seed(0)
    >>> model = GCNConv(4, 3)
    >>> data = Data(x=9 * torch.randn(600, 4), edge_index=torch.randint(600, (2, 3000)))
    >>> logits = model(data.x, data.edge_index)
    >>> data.y = torch.distributions.Categorical(logits=logits / 2).sample()
    >>> data.val_mask = torch.arange(600) < 300
    >>> calibrated = CalibratedModel.fit(model, data, method="ts")  # fits on data.val_mask
    >>> round(calibrated.fitted.base_temperature_, 1)  # the logits are twice too large
    2.2

    """

    def __init__(
        self,
        model: nn.Module,
        calibrator: Calibrator,
        *,
        node_type: str | None = None,
        forward: Forward | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(calibrator, Calibrator) or "classes_" not in vars(calibrator):
            raise InputError(
                f"calibrator is {short_repr(calibrator)}; pass a fitted gnncal calibrator, or call "
                "CalibratedModel.fit(model, data)."
            )
        self.model = model
        self.calibrator = CalibratorModule(calibrator)
        self.fitted, self.node_type, self._forward = calibrator, node_type, forward
        self.advice: str | None = None

    @classmethod
    def fit(
        cls,
        model: nn.Module,
        data: Any,
        *,
        keep_predictions: bool | None = None,
        method: str | Calibrator | None = None,
        positive: int | None = None,
        node_type: str | None = None,
        forward: Forward | None = None,
        **params: Any,
    ) -> Self:
        """Return a trained model with a calibrator that is fitted on the validation nodes.

        The model is not trained. It runs in evaluation mode without gradients, and each submodule
        then returns to its previous mode. If keeping the predictions is costly, a warning and the
        ``advice`` of the result say so.

        Parameters
        ----------
        model : torch.nn.Module
            A trained model, as for the class.
        data : torch_geometric.data.Data, torch_geometric.data.HeteroData or loader
            A graph with ``val_mask``, ``y`` and optionally ``train_mask``, or a ``NeighborLoader``
            over all nodes of such a graph, if it needs batches.
        method : str or Calibrator, default="structural"
            The method, by name, or a calibrator, which is copied.
        node_type : str, optional
            The node type of a ``HeteroData`` to calibrate. Default: the one with a ``val_mask``.
        forward : callable, optional
            ``forward(model, data)`` returns the logits, if the model needs more than features and
            edges. :meth:`predict` uses it too.
        **params : Any
            Parameters of the calibrator, if ``method`` is a name.

        """
        whole = data.data if is_loader(data) else data
        node_type = node_type_of(whole, node_type)
        store = of_type(whole, node_type)
        if getattr(store, "val_mask", None) is None:
            raise InputError(
                "the data has no val_mask; calibration needs labelled nodes that the model was not "
                "trained on: set data.val_mask, for example with PyTorch Geometric's "
                "RandomNodeSplit."
            )
        calibrator = choose_calibrator(
            method, keep_predictions=keep_predictions, positive=positive is not None, **params
        )
        with evaluating(model), torch.no_grad():
            logits = _logits(model, data, node_type, forward)
        graph = graph_of(whole, node_type, len(logits)) if calibrator.needs_graph else None
        record = as_nodes(logits, graph)
        _, view = check_positive_class(positive, record.n_classes, None)
        labels, train_mask = getattr(store, "y", None), getattr(store, "train_mask", None)
        known = labelled_nodes(
            record, labels, calibration_nodes=store.val_mask, train_nodes=train_mask
        )
        calibrator.fit(known)
        calibrator.positive_ = view
        calibrated = cls(model, calibrator, node_type=node_type, forward=forward)
        cost = cost_of_keeping_predictions(calibrator, known, calibrator.predict_proba(record))
        if cost is not None:
            calibrated.advice = cost.advice()
            warn(calibrated.advice)
        return calibrated

    def forward(self, x: Any, edge_index: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Return the calibrated probabilities of every node.

        Parameters
        ----------
        x : torch.Tensor or dict
            Features, as the model takes them.
        edge_index : torch.Tensor, sparse tensor or dict
            Edges: an ``edge_index``, an ``adj_t``, or a dict of either by edge type.
        *args : Any
            Further arguments of the model.
        **kwargs : Any
            Further keyword arguments of the model.

        """
        logits = _of_type(self.model(x, edge_index, *args, **kwargs), self.node_type)
        return self._calibrated(logits, edge_index)

    def _calibrated(self, logits: Tensor, edges: Any) -> Tensor:
        if self.calibrator.hops == 0:
            return self.calibrator(logits)
        return self.calibrator(logits, edges_between(edges, self.node_type, len(logits)))

    def predict(self, data: Any) -> Tensor:
        """Return probabilities (n_nodes, n_classes), in evaluation mode and without gradients.

        Parameters
        ----------
        data : torch_geometric.data.Data, torch_geometric.data.HeteroData or loader
            A graph; a batch of a ``NeighborLoader``, for the rows of its seed nodes; or a loader
            over all nodes, whose logits are collected and then calibrated on the whole graph.

        """
        whole = data.data if is_loader(data) else data
        with evaluating(self), torch.no_grad():
            logits = _logits(self.model, data, self.node_type, self._forward)
            probs = self._calibrated(logits, inputs_of(whole)[1])
        n_seeds = getattr(of_type(whole, self.node_type), "batch_size", None)
        if n_seeds is not None and self.calibrator.hops:
            graph = graph_of(whole, self.node_type, len(logits))
            counts, degree = graph.neighbour_counts(side=graph.all_sides), graph.in_degree
            seeds = counts[:n_seeds], degree[:n_seeds]
            if (missing := missing_neighbours(self.fitted.fitted_on_, *seeds)) is not None:
                warn(missing)
            module, rows = self.calibrator, slice(n_seeds)
            given = module.graph_kind, GraphNeighbours(graph), (module.hops, module.side), rows
            if (missing := missing_reverse_edges(*given)) is not None:
                warn(missing)
        return probs[:n_seeds]

    def check_batch(self, batch: Any, data: Any, *, model_hops: int | None = None) -> None:
        """Raise an InputError if a batch lacks neighbours that its seed nodes depend on.

        Parameters
        ----------
        batch : torch_geometric.data.Data
            A batch of a ``NeighborLoader``, or a subgraph with ``n_id`` and ``batch_size``.
        data : torch_geometric.data.Data
            The whole graph that the batch comes from.
        model_hops : int, optional
            Number of hops within which an edge changes the model's output for a node. Default:
            measured by running the model on path graphs.

        """
        if model_hops is None:
            with evaluating(self.model), torch.no_grad():
                model_hops = hops_of(self.model, batch.x)
        check_batch(batch, data, self.calibrator, model_hops)

    def save(self, folder: str | Path) -> None:
        """Write the model's weights and the calibrator to a folder; nothing is pickled.

        Parameters
        ----------
        folder : str or Path
            The folder to write.

        """
        from safetensors.torch import save

        weights = self.model.state_dict()
        tensors = {name: tensor.clone().contiguous() for name, tensor in weights.items()}
        content = save(tensors, metadata={"gnncal": "weights of a calibrated model"})
        write_file(Path(folder) / MODEL_FILE, content)
        self.fitted.save(Path(folder) / CALIBRATOR_FILE)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        model: nn.Module,
        *,
        node_type: str | None = None,
        forward: Forward | None = None,
    ) -> Self:
        """Return the model that :meth:`save` wrote; an error leaves ``model`` unchanged.

        Parameters
        ----------
        folder : str or Path
            The folder to read.
        model : torch.nn.Module
            A model with the same architecture; its weights are replaced.
        node_type : str, optional
            The node type of a heterogeneous graph to calibrate.
        forward : callable, optional
            As in :meth:`fit`, because functions are not saved.

        """
        weights = _fitting_weights(Path(folder) / MODEL_FILE, model)
        calibrator = load_calibrator(Path(folder) / CALIBRATOR_FILE)
        calibrated = cls(model, calibrator, node_type=node_type, forward=forward)
        model.load_state_dict(weights)  # last, so that a refusal changes nothing
        return calibrated


def _logits(model: nn.Module, data: Any, node_type: str | None, forward: Forward | None) -> Tensor:
    """Return the logits of every node of a graph, a batch, or the graph behind a loader."""

    def run(part: Any) -> Tensor:
        output = forward(model, part) if forward else model(*inputs_of(part))
        return _of_type(output, node_type)

    return collected_logits(data, run, node_type) if is_loader(data) else run(data)


def _fitting_weights(path: Path, model: nn.Module) -> dict[str, Tensor]:
    """Read the weights of a model, and check on a copy that it has exactly these."""
    from safetensors.torch import load

    try:
        weights: dict[str, Tensor] = load(path.read_bytes())
        deepcopy(model).load_state_dict(weights)
    except Exception as error:  # a broken file makes safetensors and torch raise almost anything
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path} does not hold the weights of this model ({type(error).__name__}: {reason}); "
            "pass the folder that save() wrote, and a model with the same architecture."
        ) from error
    return weights


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode for the block, and then back in the mode it had."""
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _of_type(output: Any, node_type: str | None) -> Tensor:
    """Return the logits of one type of nodes, where the model gives a dict of them."""
    if isinstance(output, tuple | list):
        raise InputError(
            f"the model gives a {type(output).__name__} of {len(output)}; expected logits. Wrap it "
            "in a module that returns the logits alone."
        )
    if isinstance(output, dict):
        if node_type not in output:
            raise InputError(
                f"the model gives logits of {', '.join(map(str, output))}; pass one of them as "
                "node_type."
            )
        output = output[node_type]
    if not isinstance(output, Tensor):
        raise InputError(
            f"the model gives {short_repr(output)}; expected logits, a tensor (n_nodes, "
            "n_classes): return them from the model, or from the function that you pass as forward."
        )
    return output
