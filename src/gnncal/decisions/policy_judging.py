"""What a policy promised about one class, beside what labelled nodes show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.tabular import Cell, Table, Tabular, number, text
from gnncal.decisions.actions import ACT, ACTIONS, CLEAR, REVIEW
from gnncal.decisions.budget import hits_among_most_suspicious
from gnncal.decisions.costs import Costs, cost_of
from gnncal.decisions.judging import check_truth
from gnncal.decisions.policy import ClassPolicy
from gnncal.decisions.policy_report import Outlook
from gnncal.metrics.proportions import clopper_pearson


@dataclass(frozen=True)
class Kept:
    """One thing that a policy promised or let expect, and what was found.

    Attributes
    ----------
    what : str
        ``"act"``, ``"clear"`` or ``"catch"``; ``"precision"`` or ``"recall"`` of a budget; or
        ``"cost"``.
    promised : float
        The target of a promise, or what was expected.
    low, high : float
        Between which it should lie: from the target up for a promise, the interval otherwise.
    found : float
        What the labels show; NaN where no node counts.
    found_low, found_high : float
        Ends of its 95 % interval as a chance: a promise is about the chance, and few nodes show
        it roughly. NaN for sums and for a budget.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy, judge_policy
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> policy = ClassPolicy(1, budget=100).fit(probs[:1000], labels[:1000])
    >>> outcome = judge_policy(labels[1000:], probs[1000:], policy)
    >>> kept = outcome.kept[0]
    >>> kept.what, round(kept.promised, 2), kept.found, kept.is_kept
    ('precision', 0.53, 0.49, True)

    """

    what: str
    promised: float
    low: float
    high: float
    found: float
    found_low: float = float("nan")
    found_high: float = float("nan")

    @property
    def is_kept(self) -> bool:
        """Whether what was found lies where it should; True if nothing could be found."""
        return not (self.found < self.low or self.found > self.high)


@dataclass(frozen=True, repr=False)
class PolicyOutcome(Tabular):
    """What a policy did to labelled nodes, and whether it kept its promises.

    It prints as a table.

    Attributes
    ----------
    n_nodes, n_positive : int
        Number of labelled nodes, and how many of them are positive.
    n_act, n_clear, n_review : int
        How many nodes got each action.
    n_act_positive, n_clear_positive, n_review_positive : int
        How many of them are positive.
    kept : tuple of Kept
        What was promised or expected, beside what was found.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy, judge_policy
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> policy = ClassPolicy(1, budget=100).fit(probs[:1000], labels[:1000])
    >>> outcome = judge_policy(labels[1000:], probs[1000:], policy)
    >>> outcome.n_review, outcome.n_review_positive, [kept.what for kept in outcome.kept]
    (100, 49, ['precision', 'recall'])

    """

    n_nodes: int
    n_positive: int
    n_act: int
    n_clear: int
    n_review: int
    n_act_positive: int
    n_clear_positive: int
    n_review_positive: int
    kept: tuple[Kept, ...]

    def _tables(self) -> Sequence[Table]:
        columns = ("what", "promised", "from", "to", "found", "kept")
        rows = [
            [
                text(each.what),
                *(_shown(each.what, v) for v in (each.promised, each.low, each.high, each.found)),
                Cell(each.is_kept, "yes" if each.is_kept else "no"),
            ]
            for each in self.kept
        ]
        title = (
            f"{self.n_nodes:,} labelled nodes, {self.n_positive:,} positive; positives among the "
            f"{self.n_act:,} acted on: {self.n_act_positive:,}, the {self.n_clear:,} cleared: "
            f"{self.n_clear_positive:,}, the {self.n_review:,} reviewed: {self.n_review_positive:,}"
        )
        return [Table(title, columns, rows)]


def judge_policy(
    labels: Any,
    probs: Any,
    policy: ClassPolicy,
    *,
    costs: Costs | None = None,
    predictions: Any = None,
) -> PolicyOutcome:
    """Compare what a policy promised with what labelled nodes show.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities, made as those that the policy was fitted with. A budget is for all of them.
    policy : ClassPolicy
        A fitted policy.
    costs : Costs, optional
        Costs of these nodes, if the policy decides by costs that differ from node to node.
    predictions : array_like of shape (n_nodes,), optional
        Classes that the model as it was predicts.

    Returns
    -------
    PolicyOutcome
        Promised beside found.

    Raises
    ------
    InputError
        If the arrays do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy, judge_policy
    >>> generator = np.random.default_rng(0)
    >>> p = generator.beta(0.3, 2, size=6000)
    >>> labels = (generator.random(6000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> policy = ClassPolicy(1, catch=0.9).fit(probs[:2000], labels[:2000])
    >>> (catch,) = judge_policy(labels[2000:], probs[2000:], policy).kept
    >>> catch.promised, round(catch.found, 2), catch.is_kept
    (0.9, 0.93, True)

    """
    p = policy._probability(probs)
    positive = check_truth(labels, p.size, policy.n_classes_) == policy.positive_
    prices = policy._prices(costs, p.size)
    codes = policy._codes(p, prices)
    outlook = policy.outlook(probs, costs=costs, predictions=predictions)
    kept = [*_promises(policy, codes, positive), *_expected(outlook, p, codes, positive)]
    if outlook.costs is not None and prices is not None:
        found = float(cost_of(prices, codes, positive.astype(np.int64)).sum())
        amount = outlook.costs.policy
        kept.append(Kept("cost", amount.expected, amount.low, amount.high, found))
    act, clear, review = np.bincount(codes, minlength=len(ACTIONS)).tolist()
    hits = np.bincount(codes[positive], minlength=len(ACTIONS)).tolist()
    return PolicyOutcome(
        n_nodes=p.size,
        n_positive=int(positive.sum()),
        n_act=act,
        n_clear=clear,
        n_review=review,
        n_act_positive=hits[ACT],
        n_clear_positive=hits[CLEAR],
        n_review_positive=hits[REVIEW],
        kept=tuple(kept),
    )


def _promises(policy: ClassPolicy, codes: IntArray, positive: BoolArray) -> list[Kept]:
    counted = {
        "act": (positive[codes == ACT].sum(), (codes == ACT).sum()),
        "clear": ((~positive[codes == CLEAR]).sum(), (codes == CLEAR).sum()),
        "catch": ((codes[positive] != CLEAR).sum(), positive.sum()),
    }
    kept = []
    for kind, promise in policy.promises_.items():
        if promise.is_certified:
            right, n = map(int, counted[kind])
            low, high = map(float, clopper_pearson(right, n))
            found = right / n if n else float("nan")
            kept.append(Kept(kind, promise.target, promise.target, 1.0, found, low, high))
    return kept


def _expected(outlook: Outlook, p: FloatArray, codes: IntArray, positive: BoolArray) -> list[Kept]:
    """What a budget let expect; equal probabilities at its end are averaged over."""
    if outlook.budget is None:
        return []
    rest = codes != ACT
    n = int((codes == REVIEW).sum())
    hits = hits_among_most_suspicious(p[rest], positive[rest], n)
    found = hits / n if n else float("nan")
    caught = hits + int(positive[~rest].sum())
    share = caught / int(positive.sum()) if positive.any() else float("nan")
    parts = (
        ("precision", outlook.budget.precision, found),
        ("recall", outlook.budget.recall, share),
    )
    return [Kept(name, a.expected, a.low, a.high, value) for name, a, value in parts]


def _shown(what: str, value: float) -> Cell:
    return number(value, 0 if what == "cost" else 4)
