"""What every calibrator module is: logits and edges in, probabilities out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gnncal.core.arrays import as_numpy
from gnncal.core.errors import InputError
from gnncal.core.graph import Side
from gnncal.torch.logits import blank_rows_that_are_not_finite, check_finite, check_form
from gnncal.torch.neighbours import Neighbours, neighbours_of
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
    checks_values : bool
        Whether a call refuses logits that are not finite and edges to nodes that are not there.
        True unless you set it to False; on a GPU the check waits for the device. Exported files
        and compiled modules cannot check. There, and with False, a node whose logits are not
        finite gets NaN, and its edges are left out, so that no other node is affected.

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
    checks_values: bool = True

    def __init__(self, n_classes: int, **learned: Any) -> None:
        super().__init__()
        self.n_classes = n_classes
        for name, value in learned.items():
            tensor = torch.as_tensor(as_numpy(value), dtype=torch.float64).clone()
            self.register_buffer(name, tensor)

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

        Raises
        ------
        InputError
            If logits or edges cannot be read, or, with ``checks_values``, have values that cannot
            be used.

        """
        return self._probabilities(*self._checked(logits, edge_index))

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

    def _checked(self, logits: Tensor, edge_index: Any) -> tuple[Tensor, Neighbours | None]:
        """Return the logits as they are computed with, and the neighbours where hops is not 0."""
        check_form(logits, self.n_classes)
        if self.hops and edge_index is None:
            raise InputError(
                f"{type(self).__name__} looks at neighbours; pass module(logits, edge_index)."
            )
        # Half precision cannot hold a temperature to three digits.
        logits = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
        has_values = not (torch.compiler.is_compiling() or logits.is_meta)
        checks_values = self.checks_values and has_values
        if checks_values:
            check_finite(logits)
        else:
            logits = blank_rows_that_are_not_finite(logits)
        if self.hops == 0:
            return logits, None
        return logits, neighbours_of(edge_index, logits, checks_values=checks_values)

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
        return self._temperature(*self._checked(logits, edge_index))

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        return scaled_probabilities(logits, self._temperature(logits, neighbours))

    @abstractmethod
    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor: ...
