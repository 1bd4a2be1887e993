"""What every calibrator module is: logits and edges in, probabilities out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gnncal.core.arrays import as_numpy
from gnncal.core.errors import InputError
from gnncal.core.graph import Side
from gnncal.torch.neighbours import Neighbours, RememberedNeighbours
from gnncal.torch.probability import scaled_probabilities


class CalibratorModule(nn.Module):
    """A fitted calibrator as a module: ``module(logits, edge_index)`` gives probabilities.

    Made by :meth:`gnncal.Calibrator.to_torch`. What was learned is in the buffers, in float64;
    they are used in the precision of the logits. Gradients flow to the logits.

    Parameters
    ----------
    n_classes : int
        Number of columns of the logits.
    **learned : array_like
        Name and value of each buffer.

    Attributes
    ----------
    hops : int
        Neighbours of how many hops the probabilities of a node depend on.
    side : {"in", "out", "both"}
        Which neighbours count: those that send to a node, those it sends to, or both.

    Examples
    --------
    >>> import torch, gnncal
    >>> from gnncal.torch import CalibratorModule
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> module = gnncal.TemperatureScaling().fit(logits, labels).to_torch()
    >>> isinstance(module, CalibratorModule), module.hops
    (True, 0)
    >>> module(torch.tensor([[2.0, 0.0]])).round(decimals=2)
    tensor([[0.7500, 0.2500]])

    """

    hops: ClassVar[int] = 0
    side: Side = "both"

    def __init__(self, n_classes: int, **learned: Any) -> None:
        super().__init__()
        self.n_classes = n_classes
        for name, value in learned.items():
            tensor = torch.as_tensor(as_numpy(value), dtype=torch.float64).clone()
            self.register_buffer(name, tensor)
        self._remembered = RememberedNeighbours()

    def forward(self, logits: Tensor, edge_index: Any = None) -> Tensor:
        """Return the calibrated probabilities of every node.

        Parameters
        ----------
        logits : torch.Tensor of shape (n_nodes, n_classes)
            Raw scores.
        edge_index : torch.Tensor of shape (2, n_edges), optional
            Edges; messages flow from row 0 to row 1. A transposed adjacency (``adj_t``, any sparse
            layout) or a :class:`gnncal.Graph` do as well. Modules with ``hops`` 0 ignore it.

        Returns
        -------
        torch.Tensor of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.

        """
        checked = self._checked(logits)
        return self._probabilities(checked, self._neighbours(checked, edge_index))

    @abstractmethod
    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor: ...

    def extra_repr(self) -> str:
        """Return what stands inside the parentheses of the module's repr.

        Returns
        -------
        str
            Number of classes and hops.

        """
        return f"n_classes={self.n_classes}, hops={self.hops}"

    def _checked(self, logits: Tensor) -> Tensor:
        if logits.ndim != 2 or logits.shape[1] != self.n_classes:
            raise InputError(
                f"logits has shape {tuple(logits.shape)}; expected (n_nodes, {self.n_classes}), "
                "one column for each class that the calibrator was fitted with."
            )
        # Half precision cannot hold a temperature to three digits.
        return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()

    def _neighbours(self, logits: Tensor, edge_index: Any) -> Neighbours | None:
        if self.hops == 0:
            return None
        if edge_index is None:
            raise InputError(
                f"{type(self).__name__} looks at neighbours; pass module(logits, edge_index)."
            )
        return self._remembered.of(edge_index, logits)

    def _like(self, logits: Tensor, name: str) -> Tensor:
        """Return a buffer in the precision of the logits."""
        return self.get_buffer(name).to(logits.dtype)


class TemperatureModule(CalibratorModule):
    """A module that divides each node's logits by a positive number, so predictions stay.

    Parameters
    ----------
    n_classes : int
        Number of columns of the logits.
    **learned : array_like
        Name and value of each buffer.

    Examples
    --------
    >>> import torch, gnncal
    >>> from gnncal.torch import TemperatureModule
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> module = gnncal.TemperatureScaling().fit(logits, labels).to_torch()
    >>> isinstance(module, TemperatureModule)
    True
    >>> module.temperature(torch.tensor([[2.0, 0.0]])).round(decimals=2)
    tensor([1.8200])

    """

    def temperature(self, logits: Tensor, edge_index: Any = None) -> Tensor:
        """Return the temperature of each node.

        Parameters
        ----------
        logits : torch.Tensor of shape (n_nodes, n_classes)
            Raw scores.
        edge_index : torch.Tensor of shape (2, n_edges), optional
            Edges, as in a call of the module.

        Returns
        -------
        torch.Tensor of shape (n_nodes,)
            Positive numbers that the logits are divided by.

        """
        checked = self._checked(logits)
        return self._temperature(checked, self._neighbours(checked, edge_index))

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        return scaled_probabilities(logits, self._temperature(logits, neighbours))

    @abstractmethod
    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor: ...
