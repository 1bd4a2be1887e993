"""Every metric of a set of probabilities in one record, and the paired comparison of two sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.checks import check_class_names, check_positive, class_label
from gnncal.data.errors import InputError
from gnncal.data.tables import Cell, Table, Tabular, number_cell, text_cell
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS, Metric
from gnncal.metrics.uncertainty import CalibrationEstimate, estimate_of, positive_estimate_of

NORMAL_QUANTILE = 1.959964  # of a two-sided 95% interval
NAN = float("nan")
LONGEST_NAME = 24  # characters of a class's name that a table shows


class _ByName(Tabular):
    """A record whose entries, named by metrics, are attributes too."""

    _entries: ClassVar[str]  # the field that holds them

    def __getattr__(self, name: str) -> Any:
        entries = self.__dict__.get(self._entries, {})  # none while it is copied or unpickled
        if name not in entries:
            raise AttributeError(
                f"{type(self).__name__} has no metric {name!r}; it has {', '.join(entries)}."
                + (" Pass positive to have it." if name in METRICS else "")
            )
        return entries[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *getattr(self, self._entries)]


@dataclass(frozen=True, repr=False)
class Evaluation(_ByName):
    """Metrics of predicted probabilities on labelled nodes.

    Each metric is also an attribute, for example ``evaluation.nll``. Printing shows a table;
    ``to_frame()`` returns a pandas frame.

    Attributes
    ----------
    n_nodes : int
        Number of nodes.
    ece : CalibrationEstimate
        The ECE with its interval, noise floor and p-value.
    values, floors : mapping of str to float
        Metrics by name, None if undefined, and noise floors: means under perfect calibration.
    positive, class_names : int and list of str, or None
        Number of the positive class, and a name for each class.
    positive_estimate : CalibrationEstimate or None
        The ECE of P(positive) with its interval, noise floor and p-value.

    """

    _entries = "values"
    n_nodes: int
    ece: CalibrationEstimate
    values: Mapping[str, float | None]
    floors: Mapping[str, float]
    positive: int | None = None
    class_names: list[str] | None = None
    positive_estimate: CalibrationEstimate | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return values, floors and the ECE with its interval as plain numbers, for JSON."""
        floors = {f"{n}{FLOOR_SUFFIX}": value for n, value in self.floors.items() if n != "ece"}
        numbers = {"n_nodes": self.n_nodes, **self.values, "ece": asdict(self.ece), **floors}
        view = positive_as_dict(self.positive, self.class_names)
        if view is None or self.positive_estimate is None:
            return numbers
        of_class = asdict(self.positive_estimate)
        return {**numbers, "positive": view, "positive_estimate": of_class}

    def _tables(self) -> Sequence[Table]:
        return [evaluation_table({"value": self})]


@dataclass(frozen=True)
class Difference:
    """Mean of after - before over the same nodes, with a paired 95% interval."""

    mean: float
    low: float
    high: float

    def interval(self, n_digits: int) -> str:
        """Return the interval as text; one node has none.

        Parameters
        ----------
        n_digits : int
            Number of decimal places.

        """
        if not np.isfinite(self.low):
            return "(no interval: only one node)"
        return f"[{self.low:+.{n_digits}f}, {self.high:+.{n_digits}f}]"

    def __str__(self) -> str:
        return f"{self.mean:+.4f} {self.interval(4)}"


@dataclass(frozen=True, repr=False)
class Comparison(_ByName):
    """Paired differences of metrics, after minus before calibration; negative: better.

    Metrics that are means over nodes are also attributes, for example ``comparison.nll``. Printing
    shows a table; ``to_frame()`` returns a pandas frame.

    Attributes
    ----------
    differences : mapping of str to Difference
        Differences by name of the metric.
    prediction_change_rate : float
        Share of nodes whose predicted class changed.
    positive, class_names : int and list of str, or None
        Number of the positive class, and a name for each class.

    """

    _entries = "differences"
    differences: Mapping[str, Difference]
    prediction_change_rate: float
    positive: int | None = None
    class_names: list[str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the differences and the share of changed predictions as plain numbers."""
        differences = {name: asdict(difference) for name, difference in self.differences.items()}
        return {**differences, "prediction_change_rate": self.prediction_change_rate}

    def _tables(self) -> Sequence[Table]:
        rows = []
        for name, difference in self.differences.items():
            values = asdict(difference).values()
            ends = (Cell(v, f"{v:+.4f}" if np.isfinite(v) else "-") for v in values)
            rows.append([text_cell(name, self._heading(name)), *ends])
        rate = self.prediction_change_rate
        changed = text_cell("prediction_change_rate", "predictions changed %")
        rows.append([changed, Cell(rate, f"{100 * rate:.2f}"), *[number_cell(NAN, 0)] * 2])
        title = "after - before, with paired 95% intervals"
        return [Table(title, ("metric", "mean", "low", "high"), rows)]

    def _heading(self, name: str) -> str:
        metric = METRICS[name]
        if self.positive is None or not metric.needs_positive:
            return metric.heading
        return f"{shown_class(self.positive, self.class_names)}: {metric.heading}"


def evaluate(
    labels: Any,
    probs: Any,
    *,
    in_degree: Any = None,
    random_state: int = 0,
    positive: int | str | None = None,
    class_names: Sequence[str] | None = None,
) -> Evaluation:
    """Return all metrics of predicted probabilities on labelled nodes.

    Parameters
    ----------
    in_degree : array_like of shape (n_nodes,), optional
        In-degree of each node, for ``degree_ece``, which is None without in-degrees. It is the mean
        over the orders of nodes of equal in-degree.

    Examples
    --------
    >>> from gnncal import evaluate
    >>> evaluation = evaluate([0, 1, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    >>> evaluation.accuracy, round(evaluation.ece.value, 2), round(evaluation.nll, 2)
    (0.75, 0.3, 0.4)

    """
    outcomes = Outcomes(labels, probs, in_degree)
    names, outcomes.positive = check_positive_class(positive, outcomes.probs.shape[1], class_names)
    return evaluation_of(outcomes, random_state=random_state, class_names=names)


def evaluation_of(
    outcomes: Outcomes, *, random_state: int = 0, class_names: list[str] | None = None
) -> Evaluation:
    """:func:`evaluate` of checked outcomes."""
    ece, of_class, known = estimate_of(outcomes, random_state), None, METRICS
    if outcomes.positive is not None:
        of_class = positive_estimate_of(outcomes, random_state)
    else:
        known = {name: metric for name, metric in METRICS.items() if not metric.needs_positive}
    values = {n: ece.value if n == "ece" else metric.of(outcomes) for n, metric in known.items()}
    floors = {
        name: ece.floor if name == "ece" else metric.floor(outcomes).mean
        for name, metric in known.items()
        if metric.floor is not None and values[name] is not None
    }
    view = outcomes.positive, class_names, of_class
    return Evaluation(ece.n_nodes, ece, values, floors, *view)


def compare(
    labels: Any,
    before: Any,
    after: Any,
    *,
    positive: int | str | None = None,
    class_names: Sequence[str] | None = None,
) -> Comparison:
    """Return paired differences of metrics between two sets of probabilities of the same nodes.

    Metrics are the log loss, the Brier score and, with ``positive``, the Brier score of that class.
    The intervals are paired: they use the difference of each node.

    Parameters
    ----------
    before, after : array_like of shape (n_nodes, n_classes)
        Probabilities before and after calibration.

    Examples
    --------
    >>> from gnncal import compare
    >>> comparison = compare([0, 1], [[0.9, 0.1], [0.9, 0.1]], [[0.6, 0.4], [0.6, 0.4]])
    >>> round(comparison.nll.mean, 2), comparison.prediction_change_rate
    (-0.49, 0.0)

    """
    first, second = Outcomes(labels, before), Outcomes(labels, after)
    if first.probs.shape != second.probs.shape:
        raise InputError(
            f"before has shape {first.probs.shape} and after {second.probs.shape}; expected the "
            "same rows, at least one, and the same columns."
        )
    names, first.positive = check_positive_class(positive, first.probs.shape[1], class_names)
    second.positive = first.positive
    return comparison_of(first, second, class_names=names)


def comparison_of(
    before: Outcomes, after: Outcomes, *, class_names: list[str] | None = None
) -> Comparison:
    """:func:`compare` of checked outcomes on the same nodes."""

    def difference(score: Callable[[Outcomes], FloatArray]) -> Difference:
        values = score(after) - score(before)
        spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
        mean, margin = float(values.mean()), float(NORMAL_QUANTILE * spread)
        return Difference(mean, mean - margin, mean + margin)

    return Comparison(
        {
            name: difference(metric.per_node)
            for name, metric in METRICS.items()
            if metric.per_node is not None
            and (before.positive is not None or not metric.needs_positive)
        },
        float((before.predictions != after.predictions).mean()),
        before.positive,
        class_names,
    )


def evaluation_table(sides: Mapping[str, Evaluation]) -> Table:
    """Return every metric as a row, and a column for each evaluation of the same nodes."""
    evaluations = list(sides.values())
    first = evaluations[0]
    present = [metric for name, metric in METRICS.items() if name in first.values]
    rows: list[list[Cell]] = []
    for of_class in (False, True):
        if of_class and first.positive is not None:
            n_positive = round(first.positive_rate * first.n_nodes)
            label = shown_class(first.positive, first.class_names)
            heading = f"{label}: {n_positive:,} of {first.n_nodes:,} test nodes"
            rows.append([text_cell("positive", heading)])
        for metric in present:
            if metric.needs_positive == of_class:
                rows += _metric_rows(metric, evaluations)
    return Table(f"{first.n_nodes:,} test nodes", ("metric", *sides), rows)


def _metric_rows(metric: Metric, sides: Sequence[Evaluation]) -> list[list[Cell]]:
    """Return the rows of a metric, its noise floor and its interval."""

    def row(name: str, title: str, values: Sequence[float | None]) -> list[Cell]:
        cells = (Cell(NAN if v is None else v, metric.shown(v)) for v in values)
        return [text_cell(name, title), *cells]

    name = metric.name
    rows = [row(name, metric.heading, [side.values[name] for side in sides])]
    if name == "ece":
        ends = f"end of its {100 * sides[0].ece.level:.0f}% interval"
        rows.append(row("ece_low", f"  lower {ends}", [side.ece.low for side in sides]))
        rows.append(row("ece_high", f"  upper {ends}", [side.ece.high for side in sides]))
    if any(name in side.floors for side in sides):
        floors = [side.floors[name] for side in sides]
        rows.append(row(f"{name}{FLOOR_SUFFIX}", "  if perfectly calibrated", floors))
    if name == "ece":
        p_values = [number_cell(side.ece.p_value, 3) for side in sides]
        rows.append([text_cell("ece_p_value", "  p-value of perfect calibration"), *p_values])
    return rows


def check_positive_class(
    positive: Any, n_classes: int, class_names: Any
) -> tuple[list[str] | None, int | None]:
    """Return the names of the classes, and the number of the positive class, each if given."""
    names = check_class_names(class_names, n_classes)
    return names, None if positive is None else check_positive(positive, n_classes, names)


def positive_as_dict(
    positive: int | None, class_names: Sequence[str] | None
) -> dict[str, Any] | None:
    """Return the positive class as plain data for JSON: its number, and its name if it has one."""
    if positive is None:
        return None
    return {"class": positive, "name": None if class_names is None else class_names[positive]}


def shown_class(positive: int, class_names: Sequence[str] | None) -> str:
    """Return what tables call a class: its name, cut where it is long, or ``class 1``."""
    label = class_label(positive, class_names)
    return label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 3]}..."
