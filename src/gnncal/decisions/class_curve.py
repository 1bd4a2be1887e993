"""What acting from a threshold up would do to labelled nodes, for every threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.checks import check_positive
from gnncal.core.tabular import Table, Tabular, count, number
from gnncal.decisions.costs import Costs
from gnncal.decisions.outcomes import check_calibration

MOST_POINTS = 300


@dataclass(frozen=True, repr=False, eq=False)
class ClassCurve(Tabular):
    """Precision, recall, net benefit and cost of acting on every node from a threshold up.

    Attributes
    ----------
    n_nodes, n_positive : int
        Number of labelled nodes, and how many of them have the class.
    threshold : ndarray of shape (n_points,)
        Probabilities of the class, falling; at most 300 of those that occur.
    n_acted : ndarray of shape (n_points,)
        Number of nodes with at least this probability.
    n_right : ndarray of shape (n_points,)
        Number of them that have the class.
    precision : ndarray of shape (n_points,)
        Their share among the nodes that are acted on.
    recall : ndarray of shape (n_points,)
        Their share among all nodes of the class; NaN without any.
    net_benefit : ndarray of shape (n_points,)
        Right actions minus wrong ones, each for a node of the whole. A wrong one counts t / (1 - t)
        at the threshold t (Vickers and Elkin 2006).
    net_benefit_of_all : ndarray of shape (n_points,)
        The same if every node is acted on. Doing nothing has 0.
    cost : ndarray of shape (n_points,) or None
        Mean cost of a node if those below are cleared; None without costs.

    Examples
    --------
    >>> from gnncal.decisions import class_curve
    >>> curve = class_curve([1, 0, 1, 0], [[0.1, 0.9], [0.4, 0.6], [0.5, 0.5], [0.8, 0.2]], 1)
    >>> curve.threshold, curve.precision.round(2), curve.recall
    (array([0.9, 0.6, 0.5, 0.2]), array([1.  , 0.5 , 0.67, 0.5 ]), array([0.5, 0.5, 1. , 1. ]))

    """

    n_nodes: int
    n_positive: int
    threshold: FloatArray
    n_acted: IntArray
    n_right: IntArray
    precision: FloatArray
    recall: FloatArray
    net_benefit: FloatArray
    net_benefit_of_all: FloatArray
    cost: FloatArray | None

    def _tables(self) -> Sequence[Table]:
        names = ["threshold", "acted on", "right", "precision", "recall", "net benefit"]
        counts = (self.n_acted, self.n_right)
        values = [self.precision, self.recall, self.net_benefit]
        if self.cost is not None:
            names, values = [*names, "cost of a node"], [*values, self.cost]
        rows = [
            [
                number(self.threshold[i], 4),
                *(count(each[i]) for each in counts),
                *(number(each[i], 4) for each in values),
            ]
            for i in range(self.threshold.size)
        ]
        title = f"{self.n_nodes:,} labelled nodes, {self.n_positive:,} positive"
        return [Table(title, tuple(names), rows)]


def class_curve(
    labels: Any,
    probs: Any,
    positive: Any,
    *,
    nodes: Any = None,
    costs: Costs | None = None,
    class_names: Any = None,
) -> ClassCurve:
    """Say what acting on all nodes from a threshold up would do, for every threshold.

    Nothing is certified here: it is what these labelled nodes show. A threshold that was chosen
    because it looks good on them will look worse elsewhere; :class:`gnncal.decisions.ClassPolicy`
    certifies one.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    positive : int or str
        The class in view, by its number or its name.
    nodes : array_like, optional
        Labelled nodes to look at, mask or indices. Default: every node whose label is not -1.
    costs : Costs, optional
        What mistakes cost, for the column of costs.
    class_names : list of str, optional
        A name for each class.

    Returns
    -------
    ClassCurve
        What each threshold would do.

    Raises
    ------
    InputError
        If the arrays do not fit together.

    Examples
    --------
    >>> from gnncal.decisions import Costs, class_curve
    >>> probs = [[0.1, 0.9], [0.4, 0.6], [0.5, 0.5], [0.8, 0.2]]
    >>> class_curve([1, 0, 1, 0], probs, 1, costs=Costs(missed=8, false_alarm=1)).cost
    array([2.  , 2.25, 0.25, 0.5 ])

    """
    checked, chosen, used = check_calibration(probs, labels, nodes)
    c = check_positive(positive, checked.shape[1], class_names)
    prices = None if costs is None else costs.checked(len(checked)).of(chosen)
    return curve_of_class(checked[chosen, c].astype(np.float64), used == c, prices)


def curve_of_class(p: FloatArray, is_positive: BoolArray, costs: Costs | None) -> ClassCurve:
    """:func:`class_curve` of checked arrays (n,) and costs of the same nodes."""
    order = np.argsort(-p, kind="stable")
    ranked, right = p[order], np.cumsum(is_positive[order], dtype=np.int64)
    ends = np.flatnonzero(np.append(np.diff(ranked) != 0, True))  # the last of each tie
    if ends.size > MOST_POINTS:
        ends = ends[np.unique(np.linspace(0, ends.size - 1, MOST_POINTS).astype(np.int64))]
    n, n_positive, n_acted = p.size, int(is_positive.sum()), ends + 1
    hits, threshold = right[ends], ranked[ends]
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = threshold / (1.0 - threshold)
        benefit = hits / n - np.where(n_acted > hits, (n_acted - hits) / n * odds, 0.0)
        recall = hits / n_positive if n_positive else np.full(ends.size, np.nan)
        of_all = n_positive / n - (n - n_positive) / n * odds
    return ClassCurve(
        n_nodes=n,
        n_positive=n_positive,
        threshold=threshold,
        n_acted=n_acted,
        n_right=hits,
        precision=hits / n_acted,
        recall=recall,
        net_benefit=benefit,
        net_benefit_of_all=of_all,
        cost=None if costs is None else _mean_cost(costs, is_positive, order, ends),
    )


def _mean_cost(costs: Costs, is_positive: BoolArray, order: IntArray, ends: IntArray) -> FloatArray:
    missed = np.broadcast_to(costs.missed, is_positive.shape) * is_positive
    false_alarm = np.broadcast_to(costs.false_alarm, is_positive.shape) * ~is_positive
    change = np.cumsum((false_alarm - missed)[order])  # from clearing everyone
    return (missed.sum() + change[ends]) / is_positive.size
