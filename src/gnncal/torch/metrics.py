"""gnncal's metrics as ``torchmetrics.Metric``: update batch by batch, compute once.

Here are the metrics that torchmetrics lacks, and the calibration error. torchmetrics has bins
[lower, upper) with a bin of its own for a confidence of exactly 1; gnncal has (lower, upper]. Every
number is computed by :mod:`gnncal.metrics`; a class here says what is kept between batches. Most
keep sums only. Rows are labelled nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gnncal.core.arrays import FloatArray, as_numpy
from gnncal.core.errors import require
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    N_BINS,
    Norm,
    bin_edges,
    bin_index,
    cells_of_sums,
    error_of,
    fill_cells,
    sums_by_cell,
)
from gnncal.metrics.floor import FINE_CELLS, fine_sums, floor_of_fine_sums
from gnncal.metrics.groups import DEGREE_BLOCKS, degree_blocks
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.risk_coverage import curve_of
from gnncal.metrics.smoothing import N_CELLS, smooth_error, smoothing_cell
from gnncal.metrics.table import METRICS

require("torchmetrics", extra="torchmetrics", purpose="gnncal.torch.metrics")

from torchmetrics import Metric, MetricCollection  # noqa: E402
from torchmetrics.utilities import dim_zero_cat  # noqa: E402

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


class NodeMetric(Metric):
    """Base of the metrics here. It keeps sums of the given shape, or else numbers of each node."""

    full_state_update: ClassVar[bool] = False
    is_differentiable: ClassVar[bool] = False
    higher_is_better: ClassVar[bool] = False
    kept: Tensor | list[Tensor]

    def __init__(self, *shape: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        sums = torch.zeros(shape, dtype=torch.float64)
        self.add_state("kept", sums if shape else [], dist_reduce_fx="sum" if shape else "cat")

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,)
            Classes 0..K-1.

        """
        self._add(Outcomes(labels, probs))

    def compute(self) -> Tensor:
        """Return the metric of all nodes so far.

        Returns
        -------
        torch.Tensor
            One number.

        """
        return torch.tensor(float(self._of(as_numpy(dim_zero_cat(self.kept)))), device=self.device)

    def _add(self, outcomes: Outcomes) -> None:
        part = torch.from_numpy(self._part(outcomes)).to(self.device)
        if isinstance(self.kept, list):
            self.kept.append(part)
        else:
            self.kept += part

    @abstractmethod
    def _part(self, outcomes: Outcomes) -> FloatArray: ...

    @abstractmethod
    def _of(self, kept: FloatArray) -> Any: ...


class MeanScore(NodeMetric):
    """A metric of the table that is the mean of a number that each node has."""

    score: ClassVar[str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(2, **kwargs)

    def _part(self, outcomes: Outcomes) -> FloatArray:
        scores = METRICS[self.score].per_node(outcomes)  # type: ignore[misc]
        return np.array([scores.sum(), len(scores)])

    def _of(self, kept: FloatArray) -> Any:
        return kept[0] / kept[1]


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

    score: ClassVar[str] = "nll"


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

    score: ClassVar[str] = "brier"


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
        super().__init__(3, n_bins, **kwargs)
        self.norm: Norm = norm

    def _part(self, outcomes: Outcomes) -> FloatArray:
        return _sums_by_bin(outcomes.confidence, outcomes.correct, np.shape(self.kept)[-1])

    def _of(self, kept: FloatArray) -> Any:
        return error_of(cells_of_sums(kept), self.norm)


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
        super().__init__(n_classes, 3, n_bins, **kwargs)

    def _part(self, outcomes: Outcomes) -> FloatArray:
        columns = enumerate(outcomes.probs.T.astype(np.float64))
        n_bins = np.shape(self.kept)[-1]
        return np.stack([_sums_by_bin(p, outcomes.labels == c, n_bins) for c, p in columns])

    def _of(self, kept: FloatArray) -> Any:
        return np.mean([error_of(cells_of_sums(of_class)) for of_class in kept])


def _sums_by_bin(confidence: FloatArray, correct: Any, n_bins: int) -> FloatArray:
    cell = bin_index(confidence, bin_edges(confidence, n_bins, "uniform"))
    return sums_by_cell(confidence, correct, cell, n_bins)


class CalibrationFloor(NodeMetric):
    """The ECE that the same confidences would show if they were perfectly calibrated.

    It does not depend on the order and size of the batches: what is kept are the numbers of nodes
    in fine cells of confidence and their mean, which give the floor to about 1e-4 of itself.

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
        super().__init__(2, n_bins, FINE_CELLS, **kwargs)

    def update(self, probs: Tensor, labels: Tensor | None = None) -> None:
        """Add nodes.

        Parameters
        ----------
        probs : torch.Tensor of shape (n, n_classes)
            Probabilities; rows sum to one.
        labels : torch.Tensor of shape (n,), optional
            Labels, which play no part.

        """
        super().update(probs, torch.zeros(len(probs), dtype=torch.int64))

    def _part(self, outcomes: Outcomes) -> FloatArray:
        return fine_sums(outcomes.confidence, np.shape(self.kept)[1])

    def _of(self, kept: FloatArray) -> Any:
        return floor_of_fine_sums(kept).mean


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
        super().__init__(3, N_CELLS, **kwargs)

    def _part(self, outcomes: Outcomes) -> FloatArray:
        confidence, correct = outcomes.confidence, outcomes.correct
        return sums_by_cell(confidence, correct, smoothing_cell(confidence), N_CELLS)

    def _of(self, kept: FloatArray) -> Any:
        count, confidence, correct = kept
        return smooth_error((correct - confidence)[:, None] / count.sum())[0]


class AURC(NodeMetric):
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

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def _part(self, outcomes: Outcomes) -> FloatArray:
        return np.column_stack([outcomes.confidence, outcomes.correct])

    def _of(self, kept: FloatArray) -> Any:
        return curve_of(*kept.T).risk.mean()


class DegreeCalibrationError(NodeMetric):
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

    def __init__(self, n_blocks: int = DEGREE_BLOCKS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_blocks = n_blocks

    def update(  # type: ignore[override]
        self, probs: Tensor, labels: Tensor, in_degree: Tensor
    ) -> None:
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
        self._add(Outcomes(labels, probs, in_degree))

    def _part(self, outcomes: Outcomes) -> FloatArray:
        degree = as_numpy(outcomes.in_degree)
        return np.column_stack([outcomes.confidence, outcomes.correct, degree])

    def _of(self, kept: FloatArray) -> Any:
        confidence, correct, degree = kept.T
        block = degree_blocks(degree, n_blocks=self.n_blocks)
        return error_of(fill_cells(confidence, correct, block, block.max() + 1))


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
    metrics = {
        "ece": CalibrationError(),
        "ece_floor": CalibrationFloor(),
        "smooth_ece": SmoothCalibrationError(),
        "nll": NegativeLogLikelihood(),
        "brier": BrierScore(),
        "aurc": AURC(),
    }
    return MetricCollection(metrics, prefix=prefix, compute_groups=False)
