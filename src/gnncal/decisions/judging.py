"""What decisions and sets turned out to be worth on nodes whose labels are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import BoolArray, as_numpy
from gnncal.core.checks import check_labels, check_probs, check_used_labels
from gnncal.core.errors import InputError
from gnncal.core.tabular import Table, Tabular, count, number, text
from gnncal.metrics.proportions import clopper_pearson


@dataclass(frozen=True, repr=False)
class DecisionOutcome(Tabular):
    """How many labelled nodes were decided automatically, and how many of them correctly."""

    n_nodes: int
    n_decided: int
    n_correct: int
    coverage: float  # share of the nodes that were decided
    accuracy: float  # among them; NaN without any
    accuracy_low: float  # ends of its 95 % Clopper-Pearson interval
    accuracy_high: float

    def _tables(self) -> Sequence[Table]:
        rows = [
            [text("n_decided", "decided automatically"), count(self.n_decided)],
            [text("n_correct", "  and correctly"), count(self.n_correct)],
            [text("coverage", "share of nodes decided"), number(self.coverage, 4)],
            [text("accuracy", "accuracy among the decided"), number(self.accuracy, 4)],
            [
                text("accuracy_low", "  lower end of its 95 % interval"),
                number(self.accuracy_low, 4),
            ],
            [
                text("accuracy_high", "  upper end of its 95 % interval"),
                number(self.accuracy_high, 4),
            ],
        ]
        return [Table(f"{self.n_nodes:,} labelled nodes", ("quantity", "value"), rows)]


@dataclass(frozen=True, repr=False)
class SetOutcome(Tabular):
    """How often sets have the true class of labelled nodes, and how large they are."""

    n_nodes: int
    n_covered: int  # nodes whose set has the true class
    coverage: float  # their share
    coverage_low: float  # ends of its 95 % Clopper-Pearson interval
    coverage_high: float
    mean_size: float  # classes in a set
    single: float  # share of sets with exactly one class
    empty: float  # share of sets with none

    def _tables(self) -> Sequence[Table]:
        rows = [
            [text("coverage", "share with the true class"), number(self.coverage, 4)],
            [
                text("coverage_low", "  lower end of its 95 % interval"),
                number(self.coverage_low, 4),
            ],
            [
                text("coverage_high", "  upper end of its 95 % interval"),
                number(self.coverage_high, 4),
            ],
            [text("mean_size", "mean number of classes"), number(self.mean_size, 3)],
            [text("single", "share with one class"), number(self.single, 4)],
            [text("empty", "share with no class"), number(self.empty, 4)],
        ]
        return [Table(f"{self.n_nodes:,} labelled nodes", ("quantity", "value"), rows)]


def judge_decisions(labels: Any, probs: Any, decided: Any) -> DecisionOutcome:
    """Count right and wrong automatic decisions on labelled nodes.

    Parameters
    ----------
    labels : (n_nodes,) classes 0..K-1.
    probs : (n_nodes, n_classes) probabilities; the most probable class is the decision.
    decided : (n_nodes,) booleans, as ``SelectiveClassifier.decide`` returns them.

    Returns
    -------
    DecisionOutcome

    Examples
    --------
    >>> from gnncal.decisions import judge_decisions
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]
    >>> judge_decisions([0, 1, 1], probs, [True, True, False]).accuracy
    0.5

    """
    checked = check_probs(probs)
    n_nodes, n_classes = checked.shape
    truth = _check_truth(labels, n_nodes, n_classes)
    chosen = _check_flags(decided, (n_nodes,), "decided")
    n_decided = int(chosen.sum())
    n_correct = int((checked[chosen].argmax(axis=1) == truth[chosen]).sum())
    low, high = clopper_pearson(n_correct, n_decided)
    return DecisionOutcome(
        n_nodes=n_nodes,
        n_decided=n_decided,
        n_correct=n_correct,
        coverage=n_decided / n_nodes,
        accuracy=n_correct / n_decided if n_decided else float("nan"),
        accuracy_low=float(low),
        accuracy_high=float(high),
    )


def judge_sets(labels: Any, sets: Any) -> SetOutcome:
    """Count the sets that have the true class, and measure their size.

    Parameters
    ----------
    labels : (n_nodes,) classes 0..K-1.
    sets : (n_nodes, n_classes) booleans, as ``ConformalClassifier.predict_set`` returns them.

    Returns
    -------
    SetOutcome

    Examples
    --------
    >>> from gnncal.decisions import judge_sets
    >>> outcome = judge_sets([0, 1], [[True, False], [True, False]])
    >>> outcome.coverage, outcome.mean_size
    (0.5, 1.0)

    """
    array = as_numpy(sets)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"sets has shape {array.shape}; expected one row a node, one column a class."
        )
    members = _check_flags(array, array.shape, "sets")
    n_nodes, n_classes = members.shape
    truth = _check_truth(labels, n_nodes, n_classes)
    n_covered = int(members[np.arange(n_nodes), truth].sum())
    size = members.sum(axis=1)
    low, high = clopper_pearson(n_covered, n_nodes)
    return SetOutcome(
        n_nodes=n_nodes,
        n_covered=n_covered,
        coverage=n_covered / n_nodes,
        coverage_low=float(low),
        coverage_high=float(high),
        mean_size=float(size.mean()),
        single=float((size == 1).mean()),
        empty=float((size == 0).mean()),
    )


def _check_truth(labels: Any, n_nodes: int, n_classes: int) -> Any:
    return check_used_labels(check_labels(labels, n_nodes), np.arange(n_nodes), n_classes, "labels")


def _check_flags(values: Any, shape: tuple[int, ...], name: str) -> BoolArray:
    array = as_numpy(values)
    if array.dtype != np.bool_ or array.shape != shape:
        raise InputError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; expected booleans of shape "
            f"{shape}."
        )
    return array
