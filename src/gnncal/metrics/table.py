"""The table of all metrics. To add a metric, write one function and one entry here.

``evaluate``, ``compare``, the benchmark and every table read names, titles, units and decimals
from this file, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gnncal.core.arrays import FloatArray
from gnncal.metrics.calibration import classwise_error_of, ece_of, mce_of, smooth_error_of
from gnncal.metrics.floor import NoiseFloor, degree_floor_of, floor_of
from gnncal.metrics.groups import degree_ece_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.risk_coverage import aurc_of
from gnncal.metrics.scoring import accuracy_of, brier_of, log_losses, nll_of, squared_errors

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
        Computes it from :class:`Outcomes`: labels, probabilities and, if ``needs_degree``,
        in-degrees that are checked already.
    decimals : int
        Number of decimals that are shown.
    unit : {"", "%"}, default=""
        ``"%"`` marks a share, which is shown times 100.
    better : {"lower", "higher"}, default="lower"
        Which direction is better.
    needs_degree : bool, default=False
        Whether it needs the in-degrees of the nodes.
    floor : callable, optional
        Computes the noise floor from the same.
    per_node : callable, optional
        Computes the score of each node from the same, if the metric is their mean.

    Examples
    --------
    >>> from gnncal.metrics import METRICS, Metric
    >>> isinstance(METRICS["ece"], Metric), METRICS["ece"].heading, METRICS["ece"].shown(0.0312)
    (True, 'ECE %', '3.12')

    A metric of your own, beside gnncal's:

    >>> import gnncal
    >>> def doubt_of(outcomes):
    ...     return float(1 - outcomes.confidence.mean())
    >>> doubt = Metric("doubt", "mean doubt", doubt_of, decimals=1, unit="%")
    >>> found = gnncal.evaluate([0, 1], [[0.9, 0.1], [0.2, 0.8]], metrics=[doubt])
    >>> round(found.doubt, 2)
    0.15

    """

    name: str
    title: str
    function: Callable[[Outcomes], float]
    decimals: int
    unit: Literal["", "%"] = ""
    better: Literal["lower", "higher"] = "lower"
    needs_degree: bool = False
    floor: Callable[[Outcomes], NoiseFloor] | None = None
    per_node: Callable[[Outcomes], FloatArray] | None = None

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
        return self.of(Outcomes(labels, probs, in_degree))

    def of(self, outcomes: Outcomes) -> float | None:
        """Return the metric of outcomes.

        Parameters
        ----------
        outcomes : Outcomes
            Labels, probabilities and perhaps in-degrees of some nodes.

        Returns
        -------
        float or None
            The value; None if the metric needs degrees and there are none.

        """
        if self.needs_degree and outcomes.in_degree is None:
            return None
        return self.function(outcomes)

    def floor_of(self, outcomes: Outcomes) -> NoiseFloor | None:
        """Return what the metric would be under perfect calibration.

        Parameters
        ----------
        outcomes : Outcomes
            Probabilities and perhaps in-degrees of some nodes.

        Returns
        -------
        NoiseFloor or None
            The floor; None if it is not defined, or degrees are missing.

        """
        if self.floor is None or (self.needs_degree and outcomes.in_degree is None):
            return None
        return self.floor(outcomes)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", accuracy_of, 2, "%", better="higher"),
        Metric("ece", "ECE", ece_of, 2, "%", floor=floor_of),
        Metric("mce", "maximum calibration error", mce_of, 2, "%"),
        Metric("classwise_ece", "class-wise ECE", classwise_error_of, 2, "%"),
        Metric("smooth_ece", "smooth ECE", smooth_error_of, 2, "%"),
        Metric(
            "degree_ece",
            "degree-stratified ECE",
            degree_ece_of,
            2,
            "%",
            needs_degree=True,
            floor=degree_floor_of,
        ),
        Metric("nll", "NLL", nll_of, 4, per_node=log_losses),
        Metric("brier", "Brier score", brier_of, 4, per_node=squared_errors),
        Metric("aurc", "AURC", aurc_of, 2, "%"),
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
    return measures_of(Outcomes(labels, probs, in_degree))


def measures_of(outcomes: Outcomes) -> dict[str, float]:
    """:func:`measure` of checked outcomes."""
    measured: dict[str, float] = {}
    for name, metric in METRICS.items():
        value = metric.of(outcomes)
        if value is None:
            continue
        measured[name] = value
        floor = metric.floor_of(outcomes)
        if floor is not None:
            measured[f"{name}{FLOOR_SUFFIX}"] = floor.mean
            measured[f"{name}{FLOOR_SUFFIX}_spread"] = floor.spread
    return measured


def metric_of(name: str) -> Metric:
    """Return the metric that a name in a record belongs to; floors belong to their metric."""
    return METRICS[name.removesuffix("_spread").removesuffix(FLOOR_SUFFIX)]
