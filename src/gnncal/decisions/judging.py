"""Judge decisions and sets on nodes whose labels are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import BoolArray, IntArray, as_numpy
from gnncal.core.checks import check_class_names, check_labels, check_probs, check_used_labels
from gnncal.core.errors import InputError
from gnncal.core.tabular import DECIMALS, Table, Tabular, count, number, quantities, text
from gnncal.metrics.proportions import clopper_pearson


@dataclass(frozen=True, repr=False)
class DecisionOutcome(Tabular):
    """How many labelled nodes were decided automatically, and how many of them correctly.

    It prints as a table.

    Attributes
    ----------
    n_nodes : int
        Number of labelled nodes.
    n_decided : int
        Number of nodes that were decided.
    n_correct : int
        Number of decided nodes whose predicted class is right.
    coverage : float
        Share of the nodes that were decided.
    accuracy : float
        Share of the decisions that are right; NaN without any.
    accuracy_low, accuracy_high : float
        Ends of the 95 % Clopper-Pearson interval of the accuracy.
    decided_by_class : tuple of int
        Number of decided nodes of each predicted class.
    correct_by_class : tuple of int
        Number of them whose predicted class is right.

    Examples
    --------
    >>> from gnncal.decisions import judge_decisions
    >>> outcome = judge_decisions([0, 0, 1], [[0.9, 0.1]] * 3, [True, True, False])
    >>> outcome.n_decided, outcome.accuracy, round(outcome.accuracy_low, 2)
    (2, 1.0, 0.16)

    """

    n_nodes: int
    n_decided: int
    n_correct: int
    coverage: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    decided_by_class: tuple[int, ...]
    correct_by_class: tuple[int, ...]

    def _tables(self) -> Sequence[Table]:
        names = {
            "n_decided": "decided automatically",
            "n_correct": "  and correctly",
            "coverage": "share of nodes decided",
            "accuracy": "accuracy among the decided",
            "accuracy_low": "  lower end of its 95 % interval",
            "accuracy_high": "  upper end of its 95 % interval",
            "decided_by_class": "decided of each predicted class",
            "correct_by_class": "  and correctly",
        }
        return [quantities(self, f"{self.n_nodes:,} labelled nodes", names)]


@dataclass(frozen=True, repr=False)
class SetOutcome(Tabular):
    """How often sets have the true class of labelled nodes, and how large they are.

    It prints as a table.

    Attributes
    ----------
    n_nodes : int
        Number of labelled nodes.
    n_covered : int
        Number of nodes whose set has the true class.
    coverage : float
        Share of such nodes.
    coverage_low, coverage_high : float
        Ends of the 95 % Clopper-Pearson interval of the coverage.
    mean_size : float
        Mean number of classes in a set.
    single : float
        Share of sets with exactly one class.
    empty : float
        Share of sets without a class.
    nodes_by_class : tuple of int
        Number of nodes that have each class.
    covered_by_class : tuple of int
        Number of them whose set has it.
    coverage_by_class : tuple of float
        Share of them whose set has it; NaN for a class that no node has.
    low_by_class, high_by_class : tuple of float
        Ends of the 95 % Clopper-Pearson interval of that share.
    class_names : tuple of str
        What the classes are called.

    Examples
    --------
    >>> from gnncal.decisions import judge_sets
    >>> outcome = judge_sets([0, 1], [[True, False], [True, True]])
    >>> outcome.coverage, outcome.mean_size, outcome.single
    (1.0, 1.5, 0.5)

    """

    n_nodes: int
    n_covered: int
    coverage: float
    coverage_low: float
    coverage_high: float
    mean_size: float
    single: float
    empty: float
    nodes_by_class: tuple[int, ...]
    covered_by_class: tuple[int, ...]
    coverage_by_class: tuple[float, ...]
    low_by_class: tuple[float, ...]
    high_by_class: tuple[float, ...]
    class_names: tuple[str, ...]

    def _tables(self) -> Sequence[Table]:
        names = {
            "coverage": "share with the true class",
            "coverage_low": "  lower end of its 95 % interval",
            "coverage_high": "  upper end of its 95 % interval",
            "mean_size": "mean number of classes",
            "single": "share with one class",
            "empty": "share with no class",
        }
        title = f"{self.n_nodes:,} labelled nodes"
        return [quantities(self, title, names, {"mean_size": 3}), self._by_class()]

    def _by_class(self) -> Table:
        columns = ("true class", "nodes", "share with it", "95 % interval from", "to")
        shares = (self.coverage_by_class, self.low_by_class, self.high_by_class)
        values = zip(self.class_names, self.nodes_by_class, *shares, strict=True)
        rows = [
            [text(name), count(n), *(number(share, DECIMALS) for share in numbers)]
            for name, n, *numbers in values
        ]
        return Table("", columns, rows)


def judge_decisions(labels: Any, probs: Any, decided: Any) -> DecisionOutcome:
    """Count right and wrong automatic decisions on labelled nodes.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; the most probable class is the decision.
    decided : array_like of bool of shape (n_nodes,)
        Which nodes were decided, as ``SelectiveClassifier.decide`` returns it.

    Returns
    -------
    DecisionOutcome
        Coverage and accuracy of the decisions.

    Raises
    ------
    InputError
        If the arrays do not fit together.

    Examples
    --------
    >>> from gnncal.decisions import judge_decisions
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]
    >>> judge_decisions([0, 1, 1], probs, [True, True, False]).accuracy
    0.5

    """
    checked = check_probs(probs)
    n_nodes, n_classes = checked.shape
    truth = check_truth(labels, n_nodes, n_classes)
    chosen = _check_flags(decided, (n_nodes,), "decided")
    predicted = checked[chosen].argmax(axis=1)
    right = predicted[predicted == truth[chosen]]
    n_decided, n_correct = len(predicted), len(right)
    low, high = clopper_pearson(n_correct, n_decided)
    return DecisionOutcome(
        n_nodes=n_nodes,
        n_decided=n_decided,
        n_correct=n_correct,
        coverage=n_decided / n_nodes,
        accuracy=n_correct / n_decided if n_decided else float("nan"),
        accuracy_low=float(low),
        accuracy_high=float(high),
        decided_by_class=tuple(np.bincount(predicted, minlength=n_classes).tolist()),
        correct_by_class=tuple(np.bincount(right, minlength=n_classes).tolist()),
    )


def judge_sets(labels: Any, sets: Any, *, class_names: Any = None) -> SetOutcome:
    """Count the sets that have the true class, overall and by class, and measure their size.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    sets : array_like of bool of shape (n_nodes, n_classes)
        Classes in the set of each node, as ``ConformalClassifier.predict_set`` returns them.
    class_names : list of str, optional
        A name for each class.

    Returns
    -------
    SetOutcome
        Coverage and size of the sets.

    Raises
    ------
    InputError
        If the arrays do not fit together.

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
            f"sets has shape {array.shape}; expected one row for each node, one "
            "column for each class."
        )
    members = _check_flags(array, array.shape, "sets")
    n_nodes, n_classes = members.shape
    truth = check_truth(labels, n_nodes, n_classes)
    names = check_class_names(class_names, n_classes) or [f"class {c}" for c in range(n_classes)]
    covered = members[np.arange(n_nodes), truth]
    n_covered = int(covered.sum())
    size = members.sum(axis=1)
    low, high = clopper_pearson(n_covered, n_nodes)
    n_by_class = np.bincount(truth, minlength=n_classes)
    covered_by_class = np.bincount(truth[covered], minlength=n_classes)
    lows, highs = clopper_pearson(covered_by_class, n_by_class)
    shares = np.full(n_classes, np.nan)
    np.divide(covered_by_class, n_by_class, out=shares, where=n_by_class > 0)
    return SetOutcome(
        n_nodes=n_nodes,
        n_covered=n_covered,
        coverage=n_covered / n_nodes,
        coverage_low=float(low),
        coverage_high=float(high),
        mean_size=float(size.mean()),
        single=float((size == 1).mean()),
        empty=float((size == 0).mean()),
        nodes_by_class=tuple(n_by_class.tolist()),
        covered_by_class=tuple(covered_by_class.tolist()),
        coverage_by_class=tuple(shares.tolist()),
        low_by_class=tuple(lows.tolist()),
        high_by_class=tuple(highs.tolist()),
        class_names=tuple(names),
    )


def check_truth(labels: Any, n_nodes: int, n_classes: int) -> IntArray:
    """Return the classes of nodes, all of them known."""
    return check_used_labels(check_labels(labels, n_nodes), np.arange(n_nodes), n_classes, "labels")


def _check_flags(values: Any, shape: tuple[int, ...], name: str) -> BoolArray:
    array = as_numpy(values)
    if array.dtype != np.bool_ or array.shape != shape:
        raise InputError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; expected booleans of shape "
            f"{shape}."
        )
    return array
