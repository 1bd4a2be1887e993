"""The table of all metrics. To add a metric, write one function and one entry here.

Names, titles, units and decimals are read from this file, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.data.probability import log_losses
from gnncal.metrics import calibration, ranking
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    bins_of,
    error_of,
    positive_bins_of,
)
from gnncal.metrics.degree import degree_error_of, degree_floor_of
from gnncal.metrics.floor import NoiseFloor, floor_of_bins
from gnncal.metrics.outcomes import Outcomes

FLOOR_SUFFIX = "_floor"


@dataclass(frozen=True)
class Metric:
    """A metric of probabilities: name, function, unit and better direction.

    Parameters
    ----------
    name : str
        Name in code, records and JSON.
    title : str
        Name in tables.
    function : callable
        Computes the metric from an :class:`Outcomes`, or returns None if the metric is undefined,
        for example the recall of a class without nodes.
    decimals : int
        Number of decimals to show.
    unit : {"", "%"}, default=""
        ``"%"`` marks a share, which is multiplied by 100 for display.
    better : {"lower", "higher", "neither"}, default="lower"
        The better direction; ``"neither"`` for a property of the nodes, such as a base rate.
    needs_degree, needs_positive : bool, default=False
        Whether the metric needs in-degrees, or a positive class.
    floor, per_node : callable, optional
        Functions of an :class:`Outcomes`: the noise floor, and the scores (n_nodes,) whose mean is
        the metric.

    Examples
    --------
    >>> from gnncal.metrics import METRICS, Metric
    >>> round(METRICS["nll"]([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 2)
    0.86

    A metric of your own:

    >>> doubt = Metric("doubt", "mean doubt", lambda o: float(1 - o.confidence.mean()), 1)
    >>> round(doubt([0, 1], [[0.9, 0.1], [0.2, 0.8]]), 2)
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
        """The factor by which a value is multiplied for display."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def floor_name(self) -> str | None:
        """The name of the noise floor in records, None if the metric has no floor."""
        return None if self.floor is None else self.name + FLOOR_SUFFIX

    def shown(self, value: float | None) -> str:
        """Return a value as text for tables: scaled and rounded, a dash for None and NaN.

        Parameters
        ----------
        value : float or None
            A value of this metric.

        """
        if value is None or value != value:
            return "-"
        return f"{self.scale * value:.{self.decimals}f}"

    def __call__(
        self, labels: Any, probs: Any, in_degree: Any = None, *, positive: int | None = None
    ) -> float:
        """Return the value of the metric; NaN if it is undefined."""
        outcomes = Outcomes(labels, probs, in_degree, positive=positive)
        if lacking := self._lacks(outcomes):
            raise InputError(f"{self.name} needs {lacking}; pass {lacking}=...")
        value = self.of(outcomes)
        return float("nan") if value is None else value

    def of(self, outcomes: Outcomes) -> float | None:
        """Return the value of the metric; None if an input is missing or the metric is undefined.

        Parameters
        ----------
        outcomes : Outcomes
            Labels, probabilities, and optionally in-degrees and a positive class.

        """
        return None if self._lacks(outcomes) else self.function(outcomes)

    def _lacks(self, outcomes: Outcomes) -> str | None:
        if self.needs_degree and outcomes.in_degree is None:
            return "in_degree"
        return "positive" if self.needs_positive and outcomes.positive is None else None


def _share(
    name: str, title: str, function: Callable[[Outcomes], float | None], **more: Any
) -> Metric:
    """Return a metric that is shown in percent."""
    return Metric(name, title, function, decimals=2, unit="%", **more)


def _score(name: str, title: str, function: Callable[[Outcomes], float | None]) -> Metric:
    """Return a share of which more is better."""
    return _share(name, title, function, better="higher")


def _mean(name: str, title: str, per_node: Callable[[Outcomes], FloatArray]) -> Metric:
    """Return a metric that is the mean of a score of each node, such as the log loss."""
    return Metric(name, title, lambda o: float(per_node(o).mean()), decimals=4, per_node=per_node)


def _mistakes(outcomes: Outcomes) -> ranking.Ranking:
    """Return the nodes with the least confident one first; hits are the mistakes."""
    return outcomes.cached(ranking.mistake_ranking_of).reversed


def _positives(outcomes: Outcomes) -> ranking.Ranking:
    return outcomes.cached(ranking.positive_ranking_of)


TOP, RECALL = f"of top {ranking.TOP} nodes", f"recall at {100 * ranking.PRECISION:.0f}% precision"
OF_ALL_CLASSES = (
    _score("accuracy", "accuracy", lambda o: float(o.correct.mean())),
    _share(
        "ece",
        "ECE",
        lambda o: error_of(o.cached(bins_of)),
        floor=lambda o: floor_of_bins(o.confidence, DEFAULT_BINS, "uniform"),
    ),
    # Naeini et al., AAAI 2015: the largest gap of any bin.
    _share("mce", "maximum calibration error", lambda o: error_of(o.cached(bins_of), "max")),
    _share("classwise_ece", "class-wise ECE", calibration.classwise_error_of),
    _share("smooth_ece", "smooth ECE", calibration.smooth_error_of),
    # Over blocks of similar in-degree, which the release of GETS reports as ECE in one order.
    _share(
        "degree_ece",
        "degree-stratified ECE",
        degree_error_of,
        needs_degree=True,
        floor=degree_floor_of,
    ),
    _mean("nll", "NLL", lambda o: log_losses(o.probs, o.labels)),
    _mean("brier", "Brier score", calibration.squared_errors),
    _share("aurc", "AURC", lambda o: float(ranking.curve_of(o).risk.mean())),
    # How often a mistake is less confident than a right prediction; ties count half.
    _score("error_auroc", "AUROC of mistakes", lambda o: _mistakes(o).auroc()),
    _score("error_aupr", "AUPR of mistakes", lambda o: _mistakes(o).average_precision()),
)
OF_ONE_CLASS = (  # P is the probability of the positive class
    _share(
        "positive_mean", "mean P", lambda o: float(o.positive_probability.mean()), better="neither"
    ),
    _share("positive_rate", "rate", lambda o: float(o.is_positive.mean()), better="neither"),
    _share(
        "positive_ece",
        "ECE of P",
        lambda o: error_of(positive_bins_of(o)),
        floor=lambda o: floor_of_bins(o.positive_probability, DEFAULT_BINS, "quantile"),
    ),
    _mean(
        "positive_brier",
        "Brier score of P",
        lambda o: (o.positive_probability - o.is_positive) ** 2,
    ),
    _score("positive_auroc", "AUROC", lambda o: _positives(o).auroc()),
    _score("average_precision", "average precision", lambda o: _positives(o).average_precision()),
    _score("precision_among_top", f"precision {TOP}", ranking.precision_among_top_of),
    _score("recall_among_top", f"recall {TOP}", ranking.recall_among_top_of),
    _score("recall_at_precision", RECALL, lambda o: _positives(o).recall_at(ranking.PRECISION)),
)
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (*OF_ALL_CLASSES, *(replace(each, needs_positive=True) for each in OF_ONE_CLASS))
}
