"""A guarantee as a value: which nodes count, which of them are right, and the share asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import check_positive
from gnncal.data.constraints import number, one_of
from gnncal.data.errors import InputError
from gnncal.decisions.certificate import (
    HOPELESS,
    SHIFT,
    SLOPE,
    RankedNodes,
    allowed_misses,
    best_target,
    certified_ranks,
    chance_to_certify,
    fewest_nodes,
    labels_for_precision,
    labels_for_share,
    make_plan,
    two_digits,
)

Action = Literal["decide", "act", "clear"]
SHARE = number(above=0, below=1)
MOST_CELLS = 1_000  # in which the probabilities of the pool are kept
DONE = {"decide": "decided", "act": "acted on", "clear": "cleared"}
DOING = {"decide": "deciding", "act": "acting", "clear": "clearing"}
# Goal and claim of guarantees about the nodes of classes; {} is the target, or what it leaves.
RECALL = ("a recall of {}", "at least {} of the positives are not cleared")
FALSE_POSITIVES = ("a false-positive rate of {}", "at most {} of the negatives are acted on")


@dataclass(frozen=True)
class Guarantee:
    """A share that decisions must reach: which nodes count, which of them are right, the target.

    Of the nodes that get an action, at least the target has one of some classes. Or, with
    ``of="class"``, of the nodes that have one of the classes, at least the target does not get the
    action.

    Parameters
    ----------
    name : str
        What it is called in reports.
    target : float
        The share, between 0 and 1.
    action : {"act", "clear"}
        What is done with nodes: ``"act"`` on a high probability of the positive class, ``"clear"``
        a low one.
    classes : tuple of int or str
        Classes of the nodes that are right, or that count.
    of : {"action", "class"}, default="action"
        Whether the share is one of the nodes with the action or of the nodes of the classes.

    Examples
    --------
    Of the nodes cleared, at least 99% are neither fraud nor abuse; of those that have had an
    appeal granted, at most 5% are acted on:

    >>> from gnncal.decisions import Guarantee, Policy
    >>> fine = Guarantee("fine", 0.99, "clear", ("legitimate", "appealed"))
    >>> spared = Guarantee("spared", 0.95, "act", ("appealed",), of="class")
    >>> policy = Policy(positive="fraud", act=0.9, also=(fine, spared))

    """

    name: str
    target: float
    action: Action
    classes: tuple[Any, ...]
    of: Literal["action", "class"] = "action"

    def _check(self) -> None:
        SHARE.check(f"target of {self.name}", self.target)
        one_of("act", "clear", "decide").check(f"action of {self.name}", self.action)
        one_of("action", "class").check(f"of of {self.name}", self.of)

    def _numbered(self, n_classes: int, class_names: Any) -> Guarantee:
        """Return the same guarantee with the sorted numbers of its classes."""
        numbers = {check_positive(c, n_classes, class_names) for c in self.classes}
        if len(numbers) == n_classes:
            raise InputError(f"the guarantee {self.name} names every class; leave one out.")
        return replace(self, target=float(self.target), classes=tuple(sorted(numbers)))

    def _holds_for(self, labels: IntArray, predicted: IntArray) -> BoolArray:
        """Return which nodes have one of the classes; for deciding, the predicted one."""
        return labels == predicted if self.action == "decide" else np.isin(labels, self.classes)

    def _counted(self, has_action: BoolArray, holds: BoolArray) -> tuple[int, int]:
        """Return how many nodes count, and how many of them are right."""
        if self.of == "class":
            return int(holds.sum()), int((holds & ~has_action).sum())
        return int(has_action.sum()), int((holds & has_action).sum())

    def _pool(self, probs: FloatArray, score: FloatArray) -> FloatArray:
        """Return the chances that nodes hold, in order of the score, as means of cells."""
        if self.action == "decide":
            chance = probs.max(axis=1).astype(np.float64)
        else:
            chance = probs[:, list(self.classes)].sum(axis=1, dtype=np.float64)
        order = np.argsort(score if self.action == "clear" else -score, kind="stable")
        ends = np.linspace(0, score.size, min(score.size, MOST_CELLS) + 1).astype(np.int64)
        means: FloatArray = np.add.reduceat(chance[order], ends[:-1]) / np.diff(ends)
        return means


def accuracy(target: float) -> Guarantee:
    """Of the nodes decided, at least the target has the predicted class."""
    return Guarantee("accuracy", target, "decide", ())


def of_one_class(
    positive: int, n_classes: int, targets: Mapping[str, float | None]
) -> list[Guarantee]:
    """Return act, clear, recall and false-positive rate as guarantees about one class."""
    others, rate = tuple(c for c in range(n_classes) if c != positive), "false_positive_rate"
    known = [
        Guarantee("act", targets.get("act") or 0.0, "act", (positive,)),
        Guarantee("clear", targets.get("clear") or 0.0, "clear", others),
        Guarantee("recall", targets.get("recall") or 0.0, "clear", (positive,), "class"),
        Guarantee(rate, 1.0 - float(targets.get(rate) or 0.0), "act", others, "class"),
    ]
    return [each for each in known if targets.get(each.name) is not None]


@dataclass(frozen=True)
class Certified:
    """One guarantee: what was asked for, and what the calibration nodes certify."""

    name: str
    target: float
    action: Action
    of: str
    confidence_level: float
    is_certified: bool
    threshold: float
    n_counted: int
    n_right: int
    best_target: float
    labels_needed: int | None

    def sentence(self, of_what: str) -> str:
        """Return the guarantee in plain words."""
        goal, claim = self._words()
        if not self.is_certified:
            return f"No threshold is certified for {goal}.{self._advice()}"
        if not np.isfinite(self.threshold):
            return f"{goal.capitalize()} is certified, but other guarantees leave no node."
        side = "at most" if self.action == "clear" else "at least"
        verb = "Act on" if self.action == "act" else self.action.capitalize()
        return f"{verb} {of_what} of {side} {self.threshold:.4g}: {claim}."

    def _words(self) -> tuple[str, str]:
        """Return what is asked for, and what is certified."""
        share, done = percent(self.target), DONE[self.action]
        if self.name in ("recall", "false_positive_rate"):
            is_recall = self.name == "recall"
            goal, claim = RECALL if is_recall else FALSE_POSITIVES
            shown = share if is_recall else percent(1 - self.target)
            return goal.format(shown), claim.format(shown)
        if self.of == "class":
            claim = f"at least {share} of {self.name} are not {done}"
            return f"{self.name}: {share} not {done}", claim
        right = "right" if self.name in ("accuracy", "act", "clear") else self.name
        return f"{DOING[self.action]} with {share} {right}", f"at least {share} are {right}"

    def _advice(self) -> str:
        if np.isnan(self.best_target):
            return ""
        best = " No lower target is certified either"
        if self.best_target > 0:
            best = f" These labels certify {percent(self.best_target)}"
        if self.labels_needed is None:
            return f"{best}; by these probabilities no number of labels would certify the target."
        return (
            f"{best}; about {self.labels_needed:,} labelled nodes certify the target in 4 of 5 "
            "draws, if the probabilities are right."
        )


@dataclass(frozen=True, eq=False)
class _Asked:
    """A guarantee with what it is certified by."""

    guarantee: Guarantee
    holds: BoolArray  # (n,) of the calibration nodes
    pool: FloatArray  # (n_cells,) chances of all nodes to decide
    delta: float  # its share

    def ranked(self, score: FloatArray) -> RankedNodes:
        """Return the nodes in order of a score; mistakes are those that a test counts."""
        is_share = self.guarantee.of == "class"
        return RankedNodes.of(score, ~self.holds if is_share else self.holds)

    def most_nodes(self, score: FloatArray) -> int:
        """Return how many nodes may get the action so that few of the classes do."""
        misses = allowed_misses(int(self.holds.sum()), self.guarantee.target, self.delta)
        ranked = self.ranked(score)
        return int(ranked.ends[ranked.mistakes <= misses].max(initial=0))

    def advice(self, score: FloatArray, labels_for_one: float) -> tuple[float, int | None]:
        """Return the highest target that is certified, and how many labels the asked one takes."""
        n, target, delta = score.size, self.guarantee.target, self.delta
        if self.guarantee.of == "action":
            ranked = self.ranked(score)
            plan = make_plan(self.pool, ranked.ends, delta)
            best = best_target(ranked, plan, target, delta)
            labels = labels_for_precision(self.pool, n, target, delta)
        else:
            m = int(self.holds.sum())
            best = float(np.floor(1000 * delta ** (1 / m)) / 1000) if m else 0.0
            labels = labels_for_share(max(float(self.pool.mean()), 1 / (n + 1)), target, delta)
        return best, None if labels is None else two_digits(labels * labels_for_one)


def certify_all(
    guarantees: Sequence[Guarantee],
    score: FloatArray,
    holds: Sequence[BoolArray],
    pools: Sequence[FloatArray],
    delta: float,
    *,
    labels_for_one: float = 1.0,
    lowest: float = 0.0,
    is_advised: bool = True,
) -> dict[str, Certified]:
    """Certify every guarantee on the calibration nodes, all of them together."""
    shares = _shares_of_delta(guarantees, pools, score.size, delta)
    asked = [_Asked(*each) for each in zip(guarantees, holds, pools, shares, strict=True)]
    found: dict[str, Certified] = {}
    room = score.size  # nodes that no other action has
    for action in ("decide", "act", "clear"):
        here = [each for each in asked if each.guarantee.action == action]
        if not here:
            continue
        sign = -1.0 if action == "clear" else 1.0
        first, most, passed, cap = 1, room, {}, None
        for each in sorted(here, key=lambda each: each.guarantee.of == "action"):
            g, values = each.guarantee, sign * score
            if g.of == "class":
                most = min(most, each.most_nodes(values))
                passed[g.name] = fewest_nodes(g.target, each.delta) <= each.holds.sum()
                cap = (g.target, each.delta) if cap is None and passed[g.name] else cap
                continue
            ranked = each.ranked(values)
            plan = make_plan(each.pool, ranked.ends, each.delta, most=cap)
            low, high = certified_ranks(ranked, plan, g.target, each.delta)
            passed[g.name] = high > 0
            first, most = max(first, low), min(most, high)
        ends = here[0].ranked(values).ends
        ends = ends[(ends >= first) & (ends <= most)]
        last = int(ends.max(initial=0)) if all(passed.values()) else 0
        cut = _between(values, last, -1.0 if action == "clear" else lowest)
        room -= last
        for each in here:
            g = each.guarantee
            advice: tuple[float, int | None] = g.target, None
            if not passed[g.name]:  # without hope it had given its share away
                fair = replace(each, delta=max(each.delta, delta / len(guarantees)))
                advice = fair.advice(values, labels_for_one) if is_advised else (np.nan, None)
            n_counted, n_right = g._counted(values >= cut, each.holds)
            found[g.name] = Certified(
                *(g.name, g.target, g.action, g.of, 1.0 - each.delta, bool(passed[g.name])),
                *(sign * cut, n_counted, n_right, *advice),
            )
    return {g.name: found[g.name] for g in guarantees}


def certify_targets(
    guarantees: Sequence[Guarantee],
    pool_probs: FloatArray,
    pool_score: FloatArray,
    score: FloatArray,
    labels: IntArray,
    predicted: IntArray,
    delta: float,
) -> list[Certified]:
    """Certify one guarantee at several targets, each by itself, as a slider needs them."""
    first = guarantees[0]
    pool, holds = first._pool(pool_probs, pool_score), first._holds_for(labels, predicted)
    return [
        certify_all([g], score, [holds], [pool], delta, is_advised=False)[g.name]
        for g in guarantees
    ]


def _shares_of_delta(
    guarantees: Sequence[Guarantee], pools: Sequence[FloatArray], n: int, delta: float
) -> list[float]:
    """Divide delta evenly; a guarantee without hope at its share gives it to the others."""
    hopeful = list(range(len(guarantees)))
    while len(hopeful) > 1:
        share = delta / len(hopeful)
        kept = [i for i in hopeful if _hope(guarantees[i], pools[i], n, share) >= HOPELESS]
        if len(kept) in (0, len(hopeful)):
            break
        hopeful = kept
    none = np.finfo(np.float64).tiny  # nothing is certified with it
    return [delta / len(hopeful) if i in hopeful else none for i in range(len(guarantees))]


def _hope(guarantee: Guarantee, pool: FloatArray, n: int, delta: float) -> float:
    if guarantee.of == "action":
        return chance_to_certify(pool, n, guarantee.target, delta, SLOPE, SHIFT)
    fewest = fewest_nodes(guarantee.target, delta)
    return float(n * pool.mean() >= 0.2 * fewest)  # five times as many may be there after all


def _between(score: FloatArray, n_decided: int, lowest: float) -> float:
    """Return a threshold between the last decided score and the next; infinite if none is."""
    if n_decided == 0:
        return np.inf
    ranked = np.sort(score)[::-1]
    following = ranked[n_decided] if n_decided < ranked.size else lowest
    return float((ranked[n_decided - 1] + max(following, lowest)) / 2)


def percent(share: float) -> str:
    """Return a share as text, such as ``99.5 %``."""
    return f"{100 * share:g}%"
