"""Everything worth knowing about a set of probabilities, in one record, with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gnncal import metrics
from gnncal.core.arrays import FloatArray
from gnncal.metrics.scoring import log_losses, squared_errors

NORMAL_QUANTILE = 1.959964  # of a two-sided 95 % interval


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one set of probabilities on labelled nodes."""

    n_nodes: int
    accuracy: float
    ece: metrics.CalibrationEstimate
    maximum_calibration_error: float
    classwise_calibration_error: float
    smooth_calibration_error: float
    degree_stratified_ece: float | None  # None without degrees
    nll: float
    brier: float
    aurc: float

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """Mean of after - before over the same nodes, with a paired 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The same nodes before and after calibration. Negative differences are improvements."""

    nll: Difference
    brier: Difference
    prediction_change_rate: float


def evaluate(
    labels: Any, probs: Any, *, in_degree: Any = None, random_state: int = 0
) -> Evaluation:
    """All metrics of ``probs`` (n_nodes, n_classes) against ``labels`` (n_nodes,)."""
    by_degree = None
    if in_degree is not None:
        by_degree = metrics.degree_stratified_ece(labels, probs, in_degree)
    ece = metrics.estimate_calibration_error(labels, probs, random_state=random_state)
    return Evaluation(
        n_nodes=ece.n_nodes,
        accuracy=metrics.accuracy(labels, probs),
        ece=ece,
        maximum_calibration_error=metrics.maximum_calibration_error(labels, probs),
        classwise_calibration_error=metrics.classwise_calibration_error(labels, probs),
        smooth_calibration_error=metrics.smooth_calibration_error(labels, probs),
        degree_stratified_ece=by_degree,
        nll=metrics.negative_log_likelihood(labels, probs),
        brier=metrics.brier_score(labels, probs),
        aurc=metrics.aurc(labels, probs),
    )


def compare(labels: Any, before: Any, after: Any) -> Comparison:
    """Is ``after`` better than ``before`` on these nodes? Paired, so both see the same luck."""

    def difference(score: Callable[[Any, Any], FloatArray]) -> Difference:
        values = score(labels, after) - score(labels, before)
        spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
        mean, margin = float(values.mean()), float(NORMAL_QUANTILE * spread)
        return Difference(mean, mean - margin, mean + margin)

    return Comparison(
        nll=difference(log_losses),
        brier=difference(squared_errors),
        prediction_change_rate=metrics.prediction_change_rate(before, after),
    )
