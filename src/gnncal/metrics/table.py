"""The table of all metrics. To add a metric, write one function and one entry here.

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
    """A number that judges probabilities, and how it is shown.

    Parameters
    ----------
    name : str
        Name in code, records and JSON.
    title : str
        Name in tables.
    function : callable
        Computes it from (labels, probs), and from in_degree if ``needs_degree``.
    decimals : int
        Number of decimals that are shown.
    unit : {"", "%"}, default=""
        ``"%"`` marks a share, which is shown times 100.
    better : {"lower", "higher"}, default="lower"
        Which direction is better.
    needs_degree : bool, default=False
        Whether it needs the in-degrees of the nodes.
    floor : callable, optional
        Computes the noise floor from probs, and from in_degree if ``needs_degree``.
    per_node : callable, optional
        Computes the score of each node, if the metric is their mean.

    Examples
    --------
    >>> from gnncal.metrics import METRICS, Metric
    >>> isinstance(METRICS["ece"], Metric), METRICS["ece"].heading, METRICS["ece"].shown(0.0312)
    (True, 'ECE %', '3.12')

    """

    name: str
    title: str
    function: Callable[..., float]
    decimals: int
    unit: Literal["", "%"] = ""
    better: Literal["lower", "higher"] = "lower"
    needs_degree: bool = False
    floor: Callable[..., NoiseFloor] | None = None
    per_node: Callable[..., FloatArray] | None = None

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
        """Return a value as tables show it: scaled and rounded, a dash if there is none.

        Parameters
        ----------
        value : float or None
            A value of this metric.

        Returns
        -------
        str
            The text.

        """
        if value is None or value != value:
            return "-"
        return f"{self.scale * value:.{self.decimals}f}"

    def measure(self, labels: Any, probs: Any, in_degree: Any = None) -> float | None:
        """Return the metric of some probabilities.

        Parameters
        ----------
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1.
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        in_degree : array_like of shape (n_nodes,), optional
            In-degree of each node.

        Returns
        -------
        float or None
            The value; None if the metric needs degrees and there are none.

        """
        if not self.needs_degree:
            return self.function(labels, probs)
        return None if in_degree is None else self.function(labels, probs, in_degree)

    def measure_floor(self, probs: Any, in_degree: Any = None) -> NoiseFloor | None:
        """Return what the metric would be under perfect calibration.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        in_degree : array_like of shape (n_nodes,), optional
            In-degree of each node.

        Returns
        -------
        NoiseFloor or None
            The floor; None if it is not defined, or degrees are missing.

        """
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
    ``_floor_spread``.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    in_degree : array_like of shape (n_nodes,), optional
        In-degree of each node. Without it, metrics by degree are left out.

    Returns
    -------
    dict of str to float
        Values by name.

    Examples
    --------
    >>> from gnncal.metrics import measure
    >>> values = measure([0, 0, 0, 1], [[0.9, 0.1]] * 4)
    >>> values["accuracy"], round(values["ece"], 2), round(values["ece_floor"], 2)
    (0.75, 0.15, 0.13)

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
