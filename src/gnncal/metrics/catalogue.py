"""The table of metrics. A new metric is one function and one entry here.

``evaluate``, ``compare``, the benchmark and every table read names, titles, units and decimals
from this file, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gnncal.core.arrays import FloatArray
from gnncal.metrics.calibration import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    smooth_calibration_error,
)
from gnncal.metrics.floor import NoiseFloor, calibration_floor, degree_floor
from gnncal.metrics.groups import degree_ece
from gnncal.metrics.risk_coverage import aurc
from gnncal.metrics.scoring import (
    accuracy,
    brier_score,
    log_losses,
    negative_log_likelihood,
    squared_errors,
)

FLOOR_SUFFIX = "_floor"


@dataclass(frozen=True)
class Metric:
    """A number that judges probabilities, and how it is shown."""

    name: str  # in code, records and JSON
    title: str  # in tables
    function: Callable[..., float]  # of (labels, probs), and of in_degree if needs_degree
    decimals: int  # as shown
    unit: Literal["", "%"] = ""  # "%": a share, shown times 100
    better: Literal["lower", "higher"] = "lower"
    needs_degree: bool = False
    floor: Callable[..., NoiseFloor] | None = None  # of probs, and of in_degree if needs_degree
    per_node: Callable[..., FloatArray] | None = None  # scores of nodes, if this is their mean

    @property
    def heading(self) -> str:
        """The title with the unit, such as ``ECE %``."""
        return f"{self.title} {self.unit}".rstrip()

    @property
    def scale(self) -> float:
        """What a value is multiplied by before it is shown."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def floor_name(self) -> str | None:
        """The name of the noise floor in records, None if the metric has no floor."""
        return None if self.floor is None else self.name + FLOOR_SUFFIX

    def shown(self, value: float | None) -> str:
        """Return a value as tables show it: scaled and rounded, a dash if there is none."""
        if value is None or value != value:
            return "-"
        return f"{self.scale * value:.{self.decimals}f}"

    def measure(self, labels: Any, probs: Any, in_degree: Any = None) -> float | None:
        """Return the metric, or None if it needs degrees and there are none."""
        if not self.needs_degree:
            return self.function(labels, probs)
        return None if in_degree is None else self.function(labels, probs, in_degree)

    def measure_floor(self, probs: Any, in_degree: Any = None) -> NoiseFloor | None:
        """Return what perfect calibration would show, or None if that is not defined."""
        if self.floor is None or (self.needs_degree and in_degree is None):
            return None
        return self.floor(probs, in_degree) if self.needs_degree else self.floor(probs)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", accuracy, 2, "%", better="higher"),
        Metric("ece", "ECE", expected_calibration_error, 2, "%", floor=calibration_floor),
        Metric("mce", "maximum calibration error", maximum_calibration_error, 2, "%"),
        Metric("classwise_ece", "class-wise ECE", classwise_calibration_error, 2, "%"),
        Metric("smooth_ece", "smooth ECE", smooth_calibration_error, 2, "%"),
        Metric(
            "degree_ece",
            "degree-stratified ECE",
            degree_ece,
            2,
            "%",
            needs_degree=True,
            floor=degree_floor,
        ),
        Metric("nll", "NLL", negative_log_likelihood, 4, per_node=log_losses),
        Metric("brier", "Brier score", brier_score, 4, per_node=squared_errors),
        Metric("aurc", "AURC", aurc, 2, "%"),
    )
}


def measure(labels: Any, probs: Any, *, in_degree: Any = None) -> dict[str, float]:
    """Return every metric and every noise floor by name, as plain numbers.

    A floor is named like its metric with ``_floor`` appended, and its standard deviation with
    ``_floor_spread``. Metrics by degree are left out if ``in_degree`` is not given.
    """
    measured: dict[str, float] = {}
    for name, metric in METRICS.items():
        value = metric.measure(labels, probs, in_degree)
        if value is None:
            continue
        measured[name] = value
        floor = metric.measure_floor(probs, in_degree)
        if floor is not None:
            measured[f"{name}{FLOOR_SUFFIX}"] = floor.mean
            measured[f"{name}{FLOOR_SUFFIX}_spread"] = floor.spread
    return measured


def metric_of(name: str) -> Metric:
    """Return the metric that a name in a record belongs to; floors belong to their metric."""
    return METRICS[name.removesuffix("_spread").removesuffix(FLOOR_SUFFIX)]
