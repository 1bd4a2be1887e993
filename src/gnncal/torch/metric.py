"""A metric of gnncal's table as a ``torchmetrics.Metric``: update batch by batch, compute once."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gnncal.data.arrays import as_numpy
from gnncal.data.constraints import one_of
from gnncal.data.errors import InputError, require
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS
from gnncal.metrics.table import Metric as GnncalMetric

require("torchmetrics", extra="torchmetrics", purpose="gnncal.torch.Metric")

import torchmetrics  # noqa: E402
from torchmetrics.utilities import dim_zero_cat  # noqa: E402

FLOORS = [metric.floor_name for metric in METRICS.values() if metric.floor]
NAME = one_of(*METRICS, *FLOORS)


class Metric(torchmetrics.Metric):
    """A metric of ``gnncal.metrics.METRICS``, for training loops and Lightning.

    It stores the nodes of all batches, so the result does not depend on the batches.

    Parameters
    ----------
    name : str
        Name of the metric, such as ``"ece"``, ``"nll"`` or ``"aurc"``; ``"ece_floor"`` is the noise
        floor of the ECE.
    positive : int, optional
        Number of the positive class, for one-class metrics.
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch import Metric
    >>> metric = Metric("ece")
    >>> metric.update(torch.tensor([[0.9, 0.1]] * 4), torch.tensor([0, 0, 0, 1]))
    >>> round(float(metric.compute()), 2)
    0.15

    """

    full_state_update: ClassVar[bool] = False
    is_differentiable: ClassVar[bool] = False
    labels: list[Tensor]
    probs: list[Tensor]
    degrees: list[Tensor]

    def __init__(self, name: str, *, positive: int | None = None, **kwargs: Any) -> None:
        NAME.check("name", name)
        super().__init__(**kwargs)
        self.name, self.positive = name, positive
        if self._metric.needs_positive and positive is None:
            raise InputError(f"{name} needs a class; pass Metric({name!r}, positive=...).")
        for state in ("labels", "probs", "degrees"):
            self.add_state(state, [], dist_reduce_fx="cat")

    @property
    def _metric(self) -> GnncalMetric:
        return METRICS[self.name.removesuffix(FLOOR_SUFFIX)]

    def update(self, probs: Tensor, labels: Tensor, in_degree: Tensor | None = None) -> None:
        """Add the nodes of a batch.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.
        in_degree : torch.Tensor of shape (n,), optional
            In-degrees of the nodes, needed by ``degree_ece``.

        """
        if self._metric.needs_degree and in_degree is None:
            raise InputError(f"{self.name} needs degrees; pass update(probs, labels, in_degree).")
        Outcomes(labels, probs, positive=self.positive)  # refuses invalid outcomes
        self.probs.append(probs.detach())
        self.labels.append(labels.detach())
        if in_degree is not None:
            self.degrees.append(in_degree)

    def compute(self) -> Tensor:
        """Return the metric over all nodes so far; NaN if it is undefined."""
        labels, probs = (as_numpy(dim_zero_cat(kept)) for kept in (self.labels, self.probs))
        degrees = as_numpy(dim_zero_cat(self.degrees)) if self._metric.needs_degree else None
        outcomes = Outcomes(labels, probs, degrees, positive=self.positive)
        function: Any = self._metric.floor if self.name in FLOORS else self._metric.function
        found = function(outcomes)
        value = getattr(found, "mean", found)  # a floor is a record
        return torch.tensor(float("nan") if value is None else float(value), device=self.device)
