"""What a policy about one class promises, and what it does to some nodes, in numbers and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.core.tabular import Cell, Table, Tabular, count, number, quantities, text
from gnncal.decisions.budget import BudgetOutlook
from gnncal.decisions.costs import Amount, CostOutlook
from gnncal.decisions.promises import Kind, Promise, percent

COUNTED = {"act": "acted on", "clear": "cleared", "catch": "positives"}


@dataclass(frozen=True, repr=False)
class Outlook(Tabular):
    """What a policy does with some nodes, and what is expected to come of it.

    It prints as a table.

    Attributes
    ----------
    n_nodes : int
        Number of nodes.
    n_act, n_clear, n_review : int
        How many of them get each action.
    confidence_level : float
        Level of the intervals.
    budget : BudgetOutlook or None
        What people are expected to find; None without a budget.
    costs : CostOutlook or None
        Expected totals; None without costs.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> outlook = ClassPolicy(1, budget=100).fit(probs, labels).outlook_
    >>> outlook.n_act, outlook.n_clear, outlook.n_review
    (0, 1900, 100)

    """

    n_nodes: int
    n_act: int
    n_clear: int
    n_review: int
    confidence_level: float
    budget: BudgetOutlook | None = None
    costs: CostOutlook | None = None

    @property
    def amounts(self) -> dict[str, Amount]:
        """Everything that is expected with an interval, by the words of the table."""
        found: dict[str, Amount | None] = {}
        if self.budget is not None:
            found |= {
                "precision among the reviewed": self.budget.precision,
                "share of the positives found": self.budget.recall,
            }
        if self.costs is not None:
            found |= {
                "cost": self.costs.policy,
                "cost of doing nothing": self.costs.nothing,
                "cost of reviewing everyone": self.costs.review_all,
                "cost of the model as it was": self.costs.model,
            }
        return {name: amount for name, amount in found.items() if amount is not None}

    def _tables(self) -> Sequence[Table]:
        ends = f"of its {percent(self.confidence_level)} interval"
        columns = ("quantity", "expected", f"lower end {ends}", "upper end")
        empty = number(float("nan"), 0)
        rows = [
            [text(f"n_{name}", f"nodes to {name}"), count(n), empty, empty]
            for name, n in zip(
                ("act", "clear", "review"), (self.n_act, self.n_clear, self.n_review), strict=True
            )
        ]
        rows += [
            [text(name), *(_shown(value, name) for value in (a.expected, a.low, a.high))]
            for name, a in self.amounts.items()
        ]
        return [Table(f"{self.n_nodes:,} nodes", columns, rows)]


@dataclass(frozen=True, repr=False)
class PolicyReport(Tabular):
    """What the calibration nodes certify about a policy, and which thresholds follow.

    It prints as a table.

    Attributes
    ----------
    name : str
        What the probability is called, such as ``P(fraud)``.
    confidence_level : float
        Probability with which all promises hold together.
    n_calibration, n_positive : int
        Number of calibration nodes, and how many of them are positive.
    act_threshold, clear_threshold : float
        Lowest probability that is acted on, highest that is cleared; infinite if there is none.
        NaN where the action depends on more than the probability.
    promises : mapping of str to Promise
        What was promised, by kind.
    budget : int or None
        How many nodes people look at, if that was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> report = ClassPolicy(1, catch=0.9).fit(probs, labels).report_
    >>> report.n_positive, report.n_uncertified, round(report.clear_threshold, 3)
    (235, 0, 0.074)

    """

    name: str
    confidence_level: float
    n_calibration: int
    n_positive: int
    act_threshold: float
    clear_threshold: float
    promises: Mapping[Kind, Promise]
    budget: int | None

    @property
    def n_uncertified(self) -> int:
        """Number of promises that were asked for and are not certified."""
        return sum(not promise.is_certified for promise in self.promises.values())

    @property
    def certifies_nothing(self) -> bool:
        """Whether promises were asked for and none of them is certified."""
        return 0 < len(self.promises) == self.n_uncertified

    @property
    def sentence(self) -> str:
        """The promises in plain words."""
        parts = [promise.sentence(self.name) for promise in self.promises.values()]
        n_certified = len(self.promises) - self.n_uncertified
        if n_certified:
            holds = "This holds" if n_certified == 1 else "All of this holds together"
            parts.append(
                f"{holds} with probability at least {percent(self.confidence_level)} over the "
                "draw of the calibration nodes."
            )
        return " ".join(parts)

    def _tables(self) -> Sequence[Table]:
        columns = ("promise", "target", "certified", "threshold", "counted", "right", "best target")
        rows = [
            [
                text(kind, f"{kind} ({COUNTED[kind]})"),
                number(promise.target, 3),
                text("yes" if promise.is_certified else "no"),
                number(promise.threshold, 4),
                count(promise.n_counted),
                count(promise.n_right),
                number(promise.best_target, 3),
            ]
            for kind, promise in self.promises.items()
        ]
        nodes = f"{self.n_calibration:,} calibration nodes, {self.n_positive:,} positive"
        if not rows:
            names = {"act_threshold": "act from", "clear_threshold": "clear to"}
            return [quantities(self, nodes, names)]
        return [Table(f"{self.sentence}\n{nodes}", columns, rows)]


def in_words(report: PolicyReport, outlook: Outlook | None) -> str:
    """Return what a policy says and, if these are known, what it does with the nodes to decide."""
    parts = [report.sentence] if report.promises else []
    if outlook is None:
        return " ".join([*parts, _thresholds(report)]).strip()
    rest = f"{outlook.n_review:,} of {outlook.n_nodes:,} nodes"
    level = percent(outlook.confidence_level)
    if outlook.budget is not None:
        found, caught = outlook.budget.precision, outlook.budget.recall
        parts.append(
            f"The {outlook.budget.n_reviewed:,} most suspicious of {outlook.n_nodes:,} nodes go to "
            f"people: about {_percents(found, level)} of them are positive, which makes "
            f"{_percents(caught)} of all positives found."
        )
    elif outlook.costs is not None:
        costs = outlook.costs
        others = [f"doing nothing {costs.nothing.expected:,.0f}"]
        if costs.review_all is not None:
            others.append(f"reviewing everyone {costs.review_all.expected:,.0f}")
        others.append(f"the model as it was {costs.model.expected:,.0f}")
        parts.append(
            f"{_thresholds(report)} Of {outlook.n_nodes:,} nodes, {outlook.n_act:,} are acted on, "
            f"{outlook.n_clear:,} cleared and {outlook.n_review:,} go to people. Expected cost: "
            f"{costs.policy.expected:,.0f} ({level} interval {costs.policy.low:,.0f} to "
            f"{costs.policy.high:,.0f}); {', '.join(others)}."
        )
    else:
        parts.append(
            f"{outlook.n_act:,} nodes are acted on, {outlook.n_clear:,} cleared; the rest, {rest}, "
            "goes to people."
        )
    return " ".join(parts).strip()


def _thresholds(report: PolicyReport) -> str:
    """What a policy without promises does; nothing is certified about it."""
    if report.budget is not None:
        return f"The {report.budget:,} most suspicious nodes go to people, the others are cleared."
    if report.promises:
        return "The rest goes to people."
    act, clear = report.act_threshold, report.clear_threshold
    if np.isnan(act):
        return "Each node gets the action that is expected to cost least."
    return (
        f"Cheapest: act on {report.name} of at least {act:.4g}, clear up to {clear:.4g}"
        f"{', have a person look between' if clear < act else ''}."
    )


def _percents(amount: Amount, level: str | None = None) -> str:
    ends = f"{100 * amount.low:.0f} to {100 * amount.high:.0f} %"
    interval = ends if level is None else f"{level} interval {ends}"
    return f"{100 * amount.expected:.0f} % ({interval})"


def _shown(value: float, name: str) -> Cell:
    return number(value, 0 if name.startswith("cost") else 4)
