"""The table of all metrics. To add a metric, write one function and one entry here.

``evaluate``, ``compare``, the benchmark and every table read names, titles, units and decimals
from this file, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.metrics.calibration import (
    accuracy_of,
    brier_of,
    classwise_error_of,
    ece_of,
    log_losses,
    mce_of,
    nll_of,
    smooth_error_of,
    squared_errors,
)
from gnncal.metrics.floor import (
    NoiseFloor,
    degree_floor_of,
    floor_of,
    positive_brier_of,
    positive_error_of,
    positive_floor_of,
    positive_mean_of,
    positive_rate_of,
    positive_squared_errors,
)
from gnncal.metrics.groups import degree_ece_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import (
    PRECISION,
    TOP,
    aurc_of,
    average_precision_of,
    error_aupr_of,
    error_auroc_of,
    positive_auroc_of,
    precision_among_top_of,
    recall_among_top_of,
    recall_at_precision_of,
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
        Computes it from :class:`Outcomes`: labels, probabilities and, if ``needs_degree``,
        in-degrees that are checked already. It returns None where these nodes do not define it,
        as the recall of a class that no node has.
    decimals : int
        Number of decimals that are shown.
    unit : {"", "%"}, default=""
        ``"%"`` marks a share, which is shown times 100.
    better : {"lower", "higher", "neither"}, default="lower"
        Which direction is better; ``"neither"`` for a fact about the nodes.
    needs_degree : bool, default=False
        Whether it needs the in-degrees of the nodes.
    needs_positive : bool, default=False
        Whether it is about one class, which must then be in view (``positive``).
    floor : callable, optional
        Computes the noise floor from the same.
    per_node : callable, optional
        Computes the score of each node from the same, if the metric is their mean.

    Examples
    --------
    >>> from gnncal.metrics import METRICS, Metric
    >>> isinstance(METRICS["ece"], Metric), METRICS["ece"].heading, METRICS["ece"].shown(0.0312)
    (True, 'ECE %', '3.12')
    >>> round(METRICS["nll"]([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 2)
    0.86

    A metric of your own, beside gnncal's:

    >>> import gnncal
    >>> def doubt_of(outcomes):
    ...     return float(1 - outcomes.confidence.mean())
    >>> doubt = Metric("doubt", "mean doubt", doubt_of, decimals=1, unit="%")
    >>> evaluation = gnncal.evaluate([0, 1], [[0.9, 0.1], [0.2, 0.8]], metrics=[doubt])
    >>> round(evaluation.doubt, 2)
    0.15

    """

    name: str
    title: str
    function: Callable[[Outcomes], float | None]
    decimals: int
    unit: Literal["", "%"] = ""
    better: Literal["lower", "higher", "neither"] = "lower"
    needs_degree: bool = False
    needs_positive: bool = False
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

    def __call__(
        self, labels: Any, probs: Any, in_degree: Any = None, *, positive: int | None = None
    ) -> float:
        """Return the metric of some probabilities."""
        outcomes = Outcomes(labels, probs, in_degree, positive=positive)
        if not self.has_all_of(outcomes):
            missing = "positive" if self.needs_positive else "in_degree"
            raise InputError(f"{self.name} needs {missing}; pass {missing}=...")
        value = self.of(outcomes)
        return float("nan") if value is None else value

    def of(self, outcomes: Outcomes) -> float | None:
        """Return the metric of outcomes.

        Parameters
        ----------
        outcomes : Outcomes
            Labels, probabilities and perhaps in-degrees and a class in view.

        Returns
        -------
        float or None
            The value; None if the metric needs what is not given, or these nodes do not define it.

        """
        return self.function(outcomes) if self.has_all_of(outcomes) else None

    def floor_of(self, outcomes: Outcomes) -> NoiseFloor | None:
        """Return what the metric would be under perfect calibration.

        Parameters
        ----------
        outcomes : Outcomes
            Probabilities and perhaps in-degrees and a class in view.

        Returns
        -------
        NoiseFloor or None
            The floor; None if it is not defined, or what it needs is missing.

        """
        if self.floor is None or not self.has_all_of(outcomes):
            return None
        return self.floor(outcomes)

    def has_all_of(self, outcomes: Outcomes) -> bool:
        """Tell whether outcomes have the in-degrees and the class in view that the metric needs.

        Parameters
        ----------
        outcomes : Outcomes
            Labels, probabilities and perhaps more.

        Returns
        -------
        bool
            Whether the metric can be computed.

        """
        has_degree = outcomes.in_degree is not None or not self.needs_degree
        return has_degree and (outcomes.positive is not None or not self.needs_positive)


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
        Metric("error_auroc", "AUROC of mistakes", error_auroc_of, 2, "%", better="higher"),
        Metric("error_aupr", "AUPR of mistakes", error_aupr_of, 2, "%", better="higher"),
        *(
            replace(metric, needs_positive=True)
            for metric in (
                Metric("positive_mean", "mean P", positive_mean_of, 2, "%", "neither"),
                Metric("positive_rate", "rate", positive_rate_of, 2, "%", "neither"),
                Metric(
                    "positive_ece", "ECE of P", positive_error_of, 2, "%", floor=positive_floor_of
                ),
                Metric(
                    "positive_brier",
                    "Brier score of P",
                    positive_brier_of,
                    4,
                    per_node=positive_squared_errors,
                ),
                Metric("positive_auroc", "AUROC", positive_auroc_of, 2, "%", "higher"),
                Metric(
                    "average_precision",
                    "average precision",
                    average_precision_of,
                    2,
                    "%",
                    "higher",
                ),
                Metric(
                    "precision_among_top",
                    f"precision among the top {TOP}",
                    precision_among_top_of,
                    2,
                    "%",
                    "higher",
                ),
                Metric(
                    "recall_among_top",
                    f"recall among the top {TOP}",
                    recall_among_top_of,
                    2,
                    "%",
                    "higher",
                ),
                Metric(
                    "recall_at_precision",
                    f"recall at {100 * PRECISION:.0f} % precision",
                    recall_at_precision_of,
                    2,
                    "%",
                    "higher",
                ),
            )
        ),
    )
}


def measures_of(outcomes: Outcomes) -> dict[str, float]:
    """Return every metric and every noise floor by name, as plain numbers."""
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
