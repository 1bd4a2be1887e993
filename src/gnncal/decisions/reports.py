"""What policies guarantee, do and let expect, in numbers and in words; each sentence once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnncal.decisions.certificate import missed_on_the_rest
from gnncal.decisions.costs import Estimate
from gnncal.decisions.guarantees import DONE, Certified, percent

MUCH_LABELLED = 0.25  # share of the nodes with a label from which the rest is spoken of
UNPROVEN = " (cross-fitting: tested in experiments, not proven)"
POOL = (
    "A guarantee requires that the calibration nodes were drawn at random from the same population "
    "as the nodes to decide. It does not cover nodes that join the graph later, and does not hold "
    "after the graph or the base rates drift."
)
ALL_CLASSES = (
    "The accuracy is that of all decisions together, not of each class: where a class is rare, "
    "most decisions concern other classes."
)
OBSERVED = {"act": "precision of acting", "clear": "negatives among the cleared"}


class Said:
    """A record that shows itself in plain words."""

    @property
    def sentence(self) -> str:
        """The record in plain words."""
        return repr(self)


@dataclass(frozen=True)
class Forecast(Said):
    """Numbers of nodes by action, and expected precision, recall and costs."""

    n_nodes: int
    counts: Mapping[str, int]  # how many nodes get each action
    confidence_level: float  # of the intervals
    estimates: Mapping[str, Estimate]  # precision and recall of a budget, costs

    def __repr__(self) -> str:
        parts = [f"{n:,} {DONE[action]}" for action, n in self.counts.items() if action in DONE]
        parts.append(f"{self.counts['review']:,} to review")
        done = f"Of {self.n_nodes:,} nodes: {', '.join(parts)}."
        found, level = self.estimates, percent(self.confidence_level)
        if "precision" in found:
            hits, recall = found["precision"], found["recall"]
            done += (
                f" About {hits.expected:.0%} of the reviewed nodes are positive ({level} interval "
                f"{100 * hits.low:.0f} to {hits.high:.0%}). Acting and review together find "
                f"{recall.expected:.0%} ({100 * recall.low:.0f} to {recall.high:.0%}) of all "
                "positives."
            )
        if "cost" in found:
            cost, (_, *names) = found["cost"], [n for n in found if n.startswith("cost")]
            others = [f"{n.removeprefix('cost of ')} {found[n].expected:,.0f}" for n in names]
            done += (
                f" Expected cost: {cost.expected:,.0f} ({level} interval {cost.low:,.0f} to "
                f"{cost.high:,.0f}); {', '.join(others)}."
            )
        return done


@dataclass(frozen=True)
class PolicyReport(Said):
    """Guarantees of a policy, certified or not, and its thresholds."""

    of_what: str
    confidence_level: float
    n_calibration: int
    labelled_share: float
    is_proven: bool
    act_threshold: float
    clear_threshold: float
    review_threshold: float | None
    guarantees: Mapping[str, Certified]
    may_train: bool = False  # whether training nodes may be among the nodes to decide

    @property
    def n_uncertified(self) -> int:
        """Number of guarantees that were asked for and are not certified."""
        return sum(not each.is_certified for each in self.guarantees.values())

    def __repr__(self) -> str:
        if not self.guarantees:
            return self._without_guarantee()
        parts = [each.sentence(self.of_what) for each in self.guarantees.values()]
        n_certified = len(self.guarantees) - self.n_uncertified
        if n_certified:
            holds = "This guarantee holds" if n_certified == 1 else "These guarantees hold jointly"
            parts.append(
                f"{holds} with probability at least {percent(self.confidence_level)} over the "
                f"draw of the calibration nodes{'' if self.is_proven else UNPROVEN}."
            )
        if n_certified and self.labelled_share >= MUCH_LABELLED:
            missed = missed_on_the_rest(self.labelled_share, 1 - self.confidence_level)
            parts.append(
                "Each share is that of the calibration nodes and the nodes to decide together "
                f"({100 * self.labelled_share:.0f}% are calibration nodes). Among the nodes to "
                "decide alone, a share can miss its target with probability up to about "
                f"{100 * missed:.0f}%."
            )
        if n_certified and self.may_train:
            parts.append(
                "The guarantee counts the nodes to decide, and training nodes may be among these; "
                "fit(train_nodes=...) leaves them out."
            )
        return " ".join(parts)

    @property
    def assumption(self) -> str | None:
        """Condition of the guarantees in plain words; None if nothing is certified."""
        if len(self.guarantees) == self.n_uncertified:
            return None
        return f"{POOL} {ALL_CLASSES}" if "accuracy" in self.guarantees else POOL

    def _without_guarantee(self) -> str:
        act, clear = self.act_threshold, self.clear_threshold
        if self.review_threshold is not None:
            score = "the expected saving" if np.isnan(act) else self.of_what
            limit = f"{self.review_threshold:.4g}"
            return f"Review where {score} is at least {limit}. Nothing is guaranteed."
        if np.isnan(act):
            return "Each node gets the action with the lowest expected cost."
        return (
            f"Lowest expected cost: act where {self.of_what} is at least {act:.4g}, clear up to "
            f"{clear:.4g}{', review between' if clear < act else ''}."
        )


@dataclass(frozen=True)
class GuaranteeCheck(Said):
    """A guaranteed or expected share or cost, and the observed one."""

    what: str
    asked: float
    low: float
    high: float
    found: float

    @property
    def is_kept(self) -> bool:
        """Whether the observed value is within its limits; True if nothing was observed."""
        return not (self.found < self.low or self.found > self.high)

    def __repr__(self) -> str:
        if self.what == "cost":
            return f"cost {self.found:,.0f} (expected {self.low:,.0f} to {self.high:,.0f})"
        if self.what == "false_positive_rate":  # guaranteed as the share that is left alone
            limit = percent(1 - self.asked)
            return f"false-positive rate {100 * (1 - self.found):.1f}% (target at most {limit})"
        what = OBSERVED.get(self.what, self.what.replace("_", "-"))
        found = f"{what} {100 * self.found:.1f}%"
        if self.high < 1 or self.asked != self.low:
            return f"{found} (expected {100 * self.low:.1f} to {100 * self.high:.1f}%)"
        return f"{found} (target {percent(self.asked)})"


@dataclass(frozen=True)
class PolicyOutcome(Said):
    """Result of a policy on labelled nodes, next to its guarantees and its forecast.

    Attributes
    ----------
    n_nodes, counts, positives, checks : int, two dicts and a tuple of GuaranteeCheck
        Number of nodes; nodes by action; how many of these are positive (without a positive class:
        predicted correctly); each guaranteed or expected value, next to the observed one.

    """

    n_nodes: int
    counts: Mapping[str, int]
    positives: Mapping[str, int]
    checks: tuple[GuaranteeCheck, ...]

    def __repr__(self) -> str:
        which = "correct" if "decide" in self.counts else "positive"
        parts = [
            f"{n:,} {DONE.get(action, 'to review')}, {self.positives[action]:,} of them {which}"
            for action, n in self.counts.items()
            if n
        ]
        found = "; ".join(each.sentence for each in self.checks)
        said = f"On {self.n_nodes:,} nodes with known labels: {'; '.join(parts)}."
        return f"{said} Observed: {found}." if found else said
