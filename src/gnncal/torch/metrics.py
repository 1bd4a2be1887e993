"""gnncal's metrics as ``torchmetrics.Metric``: update batch by batch, compute once.

Here are the metrics that torchmetrics lacks, and the calibration error. torchmetrics has bins
[lower, upper) with a bin of its own for a confidence of exactly 1; gnncal has (lower, upper]. Most
metrics keep sums only. Rows are labelled nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gnncal.core.arrays import FloatArray, IntArray, as_numpy
from gnncal.core.errors import require
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    N_BINS,
    Norm,
    bin_edges,
    bin_index,
    combine,
    fill_cells,
)
from gnncal.metrics.floor import (
    LARGE_VARIANCE,
    N_FREQUENCIES,
    NODES_PER_BLOCK,
    TURN,
    mean_absolute_deviation,
)
from gnncal.metrics.groups import DEGREE_BLOCKS, degree_blocks
from gnncal.metrics.outcomes import Outcomes, check_outcomes, confidence_and_correctness
from gnncal.metrics.risk_coverage import curve_of
from gnncal.metrics.scoring import log_losses, squared_errors
from gnncal.metrics.smoothing import N_CELLS, smooth_error, smoothing_cell

require("torchmetrics", extra="torchmetrics", purpose="gnncal.torch.metrics")

from torchmetrics import Metric, MetricCollection  # noqa: E402

__all__ = [
    "AURC",
    "BrierScore",
    "CalibrationError",
    "CalibrationFloor",
    "ClasswiseCalibrationError",
    "DegreeCalibrationError",
    "NegativeLogLikelihood",
    "SmoothCalibrationError",
    "calibration_metrics",
]

NORMAL_SIZES = N_FREQUENCIES // 2 + 1  # frequencies of a real sum that differ


class NodeMetric(Metric):
    """Base of the metrics here: sums of float64 on the metric's device."""

    full_state_update: ClassVar[bool] = False
    is_differentiable: ClassVar[bool] = False
    higher_is_better: ClassVar[bool] = False

    def _keep_sum(self, name: str, *shape: int) -> None:
        zeros = torch.zeros(shape, dtype=torch.float64)
        self.add_state(name, zeros, dist_reduce_fx="sum")

    def _add(self, name: str, values: Any) -> None:
        state: Tensor = getattr(self, name)
        state += torch.as_tensor(np.asarray(values, dtype=np.float64)).to(state.device)

    def _sum(self, name: str) -> FloatArray:
        return as_numpy(getattr(self, name))

    def _scalar(self, value: Any) -> Tensor:
        return torch.tensor(float(value), device=self.device)


class MeanScore(NodeMetric):
    """The mean of a number that each node has."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep_sum("total")
        self._keep_sum("n_nodes")

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.

        """
        scores = self._scores(labels, probs)
        self._add("total", scores.sum())
        self._add("n_nodes", len(scores))

    def compute(self) -> Tensor:
        """Return the mean over all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        return self._scalar(self._sum("total") / self._sum("n_nodes"))

    @abstractmethod
    def _scores(self, labels: Tensor, probs: Tensor) -> FloatArray: ...


class NegativeLogLikelihood(MeanScore):
    """NLL: mean -ln p of the label, with p clipped below at 1e-12.

    Parameters
    ----------
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import NegativeLogLikelihood
    >>> metric = NegativeLogLikelihood()
    >>> metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([1]))
    >>> round(float(metric.compute()), 4)
    0.6931

    """

    def _scores(self, labels: Tensor, probs: Tensor) -> FloatArray:
        return log_losses(Outcomes(labels, probs))


class BrierScore(MeanScore):
    """Mean over nodes of the sum over classes of (p - onehot)^2, between 0 and 2.

    Parameters
    ----------
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import BrierScore
    >>> metric = BrierScore()
    >>> metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([1]))
    >>> float(metric.compute())
    0.5

    """

    def _scores(self, labels: Tensor, probs: Tensor) -> FloatArray:
        return squared_errors(Outcomes(labels, probs))


class CalibrationError(NodeMetric):
    """ECE over equally wide bins (lower, upper]; a confidence of exactly 1 is in the last.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together; ``"max"`` is the largest gap of any bin.
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import CalibrationError
    >>> metric = CalibrationError()
    >>> metric.update(torch.tensor([[0.9, 0.1]] * 4), torch.tensor([0, 0, 0, 1]))
    >>> round(float(metric.compute()), 2)
    0.15

    """

    def __init__(self, n_bins: int = DEFAULT_BINS, norm: Norm = "l1", **kwargs: Any) -> None:
        N_BINS.check("n_bins", n_bins)
        super().__init__(**kwargs)
        self.edges, self.norm = bin_edges(np.empty(0), n_bins, "uniform"), norm
        for name in ("count", "confidence", "correct"):
            self._keep_sum(name, n_bins)

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.

        """
        confidence, correct = confidence_and_correctness(labels, probs)
        cell, n_bins = bin_index(confidence, self.edges), len(self.edges) - 1
        self._add("count", np.bincount(cell, minlength=n_bins))
        self._add("confidence", np.bincount(cell, confidence, n_bins))
        self._add("correct", np.bincount(cell, correct, n_bins))

    def compute(self) -> Tensor:
        """Return the error over all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        count = self._sum("count")
        gap = (self._sum("confidence") - self._sum("correct")) / np.maximum(count, 1)
        return self._scalar(combine(gap, count / count.sum(), self.norm))


class CalibrationFloor(NodeMetric):
    """The ECE that the same confidences would show if they were perfectly calibrated.

    It does not depend on the order and size of the batches: what is kept is the logarithm of the
    characteristic function of the number of hits in each bin, which is a sum over nodes.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import CalibrationFloor
    >>> metric = CalibrationFloor()
    >>> metric.update(torch.tensor([[0.5, 0.5]] * 4))
    >>> round(float(metric.compute()), 4)
    0.1875

    """

    def __init__(self, n_bins: int = DEFAULT_BINS, **kwargs: Any) -> None:
        N_BINS.check("n_bins", n_bins)
        super().__init__(**kwargs)
        self.edges = bin_edges(np.empty(0), n_bins, "uniform")
        for name in ("count", "mean", "variance"):
            self._keep_sum(name, n_bins)
        for name in ("log_size", "angle"):
            self._keep_sum(name, n_bins, NORMAL_SIZES)

    def update(self, probs: Tensor, labels: Tensor | None = None) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,), optional
            Labels, which play no part.

        """
        confidence = np.minimum(as_numpy(probs).max(axis=1).astype(np.float64), 1.0)
        cell, n_bins = bin_index(confidence, self.edges), len(self.edges) - 1
        for start in range(0, len(cell), NODES_PER_BLOCK):
            block = slice(start, start + NODES_PER_BLOCK)
            self._add_block(confidence[block], cell[block], n_bins)

    def compute(self) -> Tensor:
        """Return the mean of the error under perfect calibration.

        Returns
        -------
        torch.Tensor
            One number.

        """
        transform = np.exp(self._sum("log_size") + 1j * self._sum("angle"))
        parts = zip(self._sum("mean"), self._sum("variance"), transform, strict=True)
        total = sum(mean_absolute_deviation(*part) for part in parts)
        return self._scalar(total / self._sum("count").sum())

    def _add_block(self, chances: FloatArray, cell: IntArray, n_bins: int) -> None:
        variance = self._sum("variance").copy()
        self._add("count", np.bincount(cell, minlength=n_bins))
        self._add("mean", np.bincount(cell, chances, n_bins))
        self._add("variance", np.bincount(cell, chances * (1.0 - chances), n_bins))
        size, angle = np.zeros((2, n_bins, NORMAL_SIZES))
        for b in np.flatnonzero(variance < LARGE_VARIANCE):  # beyond, the sum is normal
            factor = 1.0 + chances[cell == b, None] * TURN
            with np.errstate(divide="ignore"):  # a factor of zero makes the product zero
                size[b] = np.log(np.abs(factor)).sum(axis=0)
            angle[b] = np.angle(factor).sum(axis=0)
        self._add("log_size", size)
        self._add("angle", angle)


class SmoothCalibrationError(NodeMetric):
    """The smooth calibration error, which needs no bins.

    Parameters
    ----------
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    References
    ----------
    Błasiok, Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing" (ICLR
    2024).

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import SmoothCalibrationError
    >>> metric = SmoothCalibrationError()
    >>> metric.update(torch.tensor([[0.9, 0.1]] * 4), torch.tensor([0, 0, 0, 1]))
    >>> round(float(metric.compute()), 2)
    0.15

    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep_sum("mass", N_CELLS)
        self._keep_sum("n_nodes")

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.

        """
        confidence, correct = confidence_and_correctness(labels, probs)
        cell = smoothing_cell(confidence)
        self._add("mass", np.bincount(cell, correct - confidence, N_CELLS))
        self._add("n_nodes", len(cell))

    def compute(self) -> Tensor:
        """Return the error over all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        mass = self._sum("mass") / self._sum("n_nodes")
        return self._scalar(smooth_error(mass[:, None])[0])


class ClasswiseCalibrationError(NodeMetric):
    """The calibration error of each class's probability against its frequency, class mean.

    Parameters
    ----------
    n_classes : int
        Number of columns of the probabilities.
    n_bins : int, default=15
        Number of bins.
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import ClasswiseCalibrationError
    >>> metric = ClasswiseCalibrationError(n_classes=2)
    >>> metric.update(torch.tensor([[0.9, 0.1]] * 4), torch.tensor([0, 0, 0, 1]))
    >>> round(float(metric.compute()), 2)
    0.15

    """

    def __init__(self, n_classes: int, n_bins: int = DEFAULT_BINS, **kwargs: Any) -> None:
        N_BINS.check("n_bins", n_bins)
        super().__init__(**kwargs)
        self.edges = bin_edges(np.empty(0), n_bins, "uniform")
        for name in ("count", "confidence", "correct"):
            self._keep_sum(name, n_classes, n_bins)

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.

        """
        truth, checked = check_outcomes(labels, probs)
        n_bins = len(self.edges) - 1
        sums = []
        for c, column in enumerate(checked.T.astype(np.float64)):
            cell = bin_index(column, self.edges)
            count = np.bincount(cell, minlength=n_bins)
            hits = np.bincount(cell, truth == c, n_bins)
            sums.append((count, np.bincount(cell, column, n_bins), hits))
        for i, name in enumerate(("count", "confidence", "correct")):
            self._add(name, [each[i] for each in sums])

    def compute(self) -> Tensor:
        """Return the error over all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        count = self._sum("count")
        gap = (self._sum("confidence") - self._sum("correct")) / np.maximum(count, 1)
        return self._scalar(combine(gap, count / count[0].sum(), "l1").mean())


class RankedMetric(NodeMetric):
    """A metric that compares nodes with each other, so it keeps two or three numbers of each."""

    kept: ClassVar[tuple[str, ...]] = ("confidence", "correct")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in self.kept:
            self.add_state(name, [], dist_reduce_fx="cat")

    def _append(self, **values: Any) -> None:
        for name, array in values.items():
            getattr(self, name).append(torch.as_tensor(as_numpy(array)).to(self.device))

    def _all(self, name: str) -> Any:
        state = getattr(self, name)
        return as_numpy(torch.cat(state) if isinstance(state, list) else state)


class AURC(RankedMetric):
    """Area under the risk-coverage curve: the mean risk over all coverages.

    Parameters
    ----------
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import AURC
    >>> metric = AURC()
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]), torch.tensor([0, 1, 0]))
    >>> round(float(metric.compute()), 2)  # mean of 0, 1/2, 1/3
    0.28

    """

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.

        """
        confidence, correct = confidence_and_correctness(labels, probs)
        self._append(confidence=confidence, correct=correct)

    def compute(self) -> Tensor:
        """Return the area over all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        return self._scalar(curve_of(self._all("confidence"), self._all("correct")).risk.mean())


class DegreeCalibrationError(RankedMetric):
    """The calibration error over blocks of nodes of similar in-degree.

    Parameters
    ----------
    n_blocks : int, default=10
        Number of blocks.
    **kwargs : Any
        Arguments of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import DegreeCalibrationError
    >>> metric = DegreeCalibrationError(n_blocks=1)
    >>> metric.update(torch.tensor([[0.9, 0.1]] * 2), torch.tensor([0, 1]), torch.tensor([3, 5]))
    >>> round(float(metric.compute()), 2)
    0.4

    """

    kept: ClassVar[tuple[str, ...]] = ("confidence", "correct", "in_degree")

    def __init__(self, n_blocks: int = DEGREE_BLOCKS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_blocks = n_blocks

    def update(self, probs: Tensor, labels: Tensor, in_degree: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.
        in_degree : torch.Tensor of shape (n,)
            In-degree of each node.

        """
        confidence, correct = confidence_and_correctness(labels, probs)
        self._append(confidence=confidence, correct=correct, in_degree=in_degree)

    def compute(self) -> Tensor:
        """Return the error over all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        block = degree_blocks(self._all("in_degree"), n_blocks=self.n_blocks)
        cells = fill_cells(self._all("confidence"), self._all("correct"), block, block.max() + 1)
        return self._scalar(combine(cells.gap, cells.count / len(block), "l1"))


def calibration_metrics(prefix: str | None = None) -> MetricCollection:
    """Return ECE and its noise floor, smooth ECE, NLL, Brier score and AURC in one collection.

    Parameters
    ----------
    prefix : str, optional
        Text before the name of each metric, such as ``"val_"``.

    Returns
    -------
    torchmetrics.MetricCollection
        The metrics under the names ece, ece_floor, smooth_ece, nll, brier and aurc.

    Examples
    --------
    >>> import torch
    >>> from gnncal.torch.metrics import calibration_metrics
    >>> metrics = calibration_metrics(prefix="val_")
    >>> metrics.update(torch.eye(3), torch.arange(3))
    >>> float(metrics.compute()["val_ece"])
    0.0

    """
    found = {
        "ece": CalibrationError(),
        "ece_floor": CalibrationFloor(),
        "smooth_ece": SmoothCalibrationError(),
        "nll": NegativeLogLikelihood(),
        "brier": BrierScore(),
        "aurc": AURC(),
    }
    return MetricCollection(found, prefix=prefix, compute_groups=False)
