"""A guarantee as a value: which nodes count, which of them are right, and the share asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import check_positive
from gnncal.data.constraints import number, one_of
from gnncal.decisions import certificate
from gnncal.decisions.certificate import RankedNodes, make_plan

Action = Literal["decide", "act", "clear"]
SHARE = number(above=0, below=1)
MOST_CELLS = 1_000  # in which the probabilities of the pool are kept
DONE = {"decide": "decided", "act": "acted on", "clear": "cleared"}
WORDS = {  # goal and claim; {} is the target, or what it leaves
    "accuracy": ("an accuracy of {}", "at least {} of these decisions are correct"),
    "act": ("a precision of {} for acting", "at least {} of these nodes are positive"),
    "clear": ("{} negatives among the cleared", "at least {} of these nodes are negative"),
    "recall": ("a recall of {}", "at least {} of the positives are not cleared"),
    "false_positive_rate": (
        "a false-positive rate of {}",
        "at most {} of the negatives are acted on",
    ),
}


@dataclass(frozen=True)
class Guarantee:
    """A guarantee about one action of a :class:`Policy`, for its parameter ``also``.

    Parameters
    ----------
    name, target : str and float
        Name in reports, and the minimum share, between 0 and 1.
    action : {"act", "clear"}
        ``"act"``, for nodes with a high probability of the positive class, or ``"clear"``.
    classes : tuple of int or str
        Numbers or names of the classes that ``of`` refers to.
    of : {"action", "class"}, default="action"
        ``"action"``: of the nodes with this action, at least ``target`` have one of the classes.
        ``"class"``: of the nodes of these classes, at least ``target`` do not get the action.

    Examples
    --------
    At least 99% of the cleared nodes are legitimate or appealed, and at most 5% of the appealed
    nodes are acted on:

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
        return np.add.reduceat(chance[order], ends[:-1]) / np.diff(ends)


def named_guarantee(name: str, asked: float, positive: int | None, n_classes: int) -> Guarantee:
    """Return what a policy calls by this name; all but accuracy are about one class."""
    mine, others = (positive,), tuple(c for c in range(n_classes) if c != positive)
    target = 1.0 - asked if name == "false_positive_rate" else float(asked)
    made: dict[str, tuple[Any, ...]] = {
        "accuracy": ("decide", ()),
        "act": ("act", mine),
        "clear": ("clear", others),
        "recall": ("clear", mine, "class"),
        "false_positive_rate": ("act", others, "class"),
    }
    return Guarantee(name, target, *made[name])


@dataclass(frozen=True)
class Certified(Guarantee):
    """A guarantee, whether the calibration nodes certify it, and its threshold."""

    confidence_level: float = np.nan
    is_certified: bool = False
    threshold: float = np.inf
    n_counted: int = 0
    n_right: int = 0
    best_target: float = np.nan  # NaN without advice
    labels_needed: int | None = None

    def reaches(self, score: FloatArray) -> BoolArray:
        """Return which nodes of these scores get the action."""
        return score <= self.threshold if self.action == "clear" else score >= self.threshold

    def sentence(self, of_what: str) -> str:
        """Return the guarantee in plain words."""
        goal, claim = self._words()
        if not self.is_certified:
            return f"No threshold certifies {goal}.{self._advice()}"
        if not np.isfinite(self.threshold):
            return f"{goal.capitalize()} is certified, but the other guarantees leave no node."
        side, verb = "at most" if self.action == "clear" else "at least", self.action.capitalize()
        return f"{verb} where {of_what} is {side} {self.threshold:.4g}: {claim}."

    def _words(self) -> tuple[str, str]:
        """Return what is asked for, and what is certified."""
        share, done = percent(self.target), DONE[self.action]
        if self.name in WORDS:
            goal, claim = WORDS[self.name]
            return goal.format(self._shown(self.target)), claim.format(self._shown(self.target))
        if self.of == "class":
            claim = f"at least {share} of {self.name} are not {done}"
            return f"{self.name}: {share} not {done}", claim
        return f"{share} {self.name} among the {done}", f"at least {share} are {self.name}"

    def _shown(self, target: float) -> str:
        """Return a target as it was asked for."""
        return percent(1 - target if self.name == "false_positive_rate" else target)

    def _advice(self) -> str:
        if np.isnan(self.best_target):
            return ""
        best = " These labels certify no other target."
        if self.best_target > 0:
            best = f" The best target that these labels certify is {self._shown(self.best_target)}."
        if self.labels_needed is None:
            return (
                f"{best} If the probabilities are calibrated, more labels help only through a new "
                "fit of the calibrator, which may give more confident probabilities."
            )
        return (
            f"{best} If the probabilities are calibrated, about {self.labels_needed:,} labelled "
            f"nodes certify {self._shown(self.target)} in 4 of 5 draws."
        )


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
    """Certify guarantees; ``holds`` is of calibration nodes, ``pools`` of all nodes to decide."""
    shares = _shares_of_delta(guarantees, pools, score.size, delta)
    asked = list(zip(guarantees, holds, pools, shares, strict=True))
    found: dict[str, Certified] = {}
    room = score.size  # nodes that no other action has
    for action in ("decide", "act", "clear"):
        here = [each for each in asked if each[0].action == action]
        if not here:
            continue
        sign = -1.0 if action == "clear" else 1.0
        values = sign * score
        first, most, passed, cap = 1, room, {}, None
        for g, has, pool, share in sorted(here, key=lambda each: each[0].of == "action"):
            if g.of == "class":  # it limits how many nodes may get the action
                ranked, n = RankedNodes.of(values, ~has), int(has.sum())
                misses = certificate.allowed_mistakes(np.array([n]), g.target, share)
                most = min(most, int(ranked.ends[ranked.mistakes[0] <= misses].max(initial=0)))
                passed[g.name] = certificate.fewest_nodes(g.target, share) <= n
                cap = (g.target, share) if cap is None and passed[g.name] else cap
                continue
            ranked = RankedNodes.of(values, has)
            plan = make_plan(pool, ranked.ends, share, most=cap)
            low, high = certificate.certified_ranks(ranked, plan, g.target, share)[:, 0].tolist()
            passed[g.name] = high > 0
            first, most = max(first, low), min(most, high)
        ends = ranked.ends[(ranked.ends >= first) & (ranked.ends <= most)]
        last = int(ends.max(initial=0)) if all(passed.values()) else 0
        cut = _between(values, last, -1.0 if action == "clear" else lowest)
        room -= last
        for g, has, pool, share in here:
            best, needed = g.target if passed[g.name] else np.nan, None
            if not passed[g.name] and is_advised:  # without hope it had given its share away
                fair = max(share, delta / len(guarantees))
                best, needed = _advice(g, values, has, pool, fair, labels_for_one)
            certified = 1.0 - share, passed[g.name], sign * cut, *g._counted(values >= cut, has)
            asked_for = g.name, g.target, g.action, g.classes, g.of
            found[g.name] = Certified(*asked_for, *certified, best, needed)
    return {g.name: found[g.name] for g in guarantees}


def _advice(
    guarantee: Guarantee,
    score: FloatArray,
    holds: BoolArray,
    pool: FloatArray,
    delta: float,
    labels_for_one: float,
) -> tuple[float, int | None]:
    """Return the highest target that is certified, and how many labels the asked one takes."""
    n, target, m = score.size, guarantee.target, int(holds.sum())
    if guarantee.of == "action":
        ranked = RankedNodes.of(score, holds)
        plan = make_plan(pool, ranked.ends, delta)
        best = certificate.best_target(ranked, plan, target, delta)
        needed = certificate.labels_for_precision(pool, n, target, delta)
    else:
        best = float(np.floor(1000 * delta ** (1 / m)) / 1000) if m else 0.0
        rate = max(float(pool.mean()), 1 / (n + 1))
        needed = certificate.labels_for_share(rate, target, delta)
    return best, None if needed is None else certificate.two_digits(needed * labels_for_one)


def _shares_of_delta(
    guarantees: Sequence[Guarantee], pools: Sequence[FloatArray], n: int, delta: float
) -> list[float]:
    """Divide delta evenly; a guarantee without hope at its share gives it to the others."""
    hopeful = list(range(len(guarantees)))
    while len(hopeful) > 1:
        share = delta / len(hopeful)
        kept = [i for i in hopeful if _has_hope(guarantees[i], pools[i], n, share)]
        if len(kept) in (0, len(hopeful)):
            break
        hopeful = kept
    none = np.finfo(np.float64).tiny  # nothing is certified with it
    return [delta / len(hopeful) if i in hopeful else none for i in range(len(guarantees))]


def _has_hope(guarantee: Guarantee, pool: FloatArray, n: int, delta: float) -> bool:
    if guarantee.of == "class":  # five times as many may be there after all
        return n * float(pool.mean()) >= 0.2 * certificate.fewest_nodes(guarantee.target, delta)
    return certificate.chance_to_certify(pool, n, guarantee.target, delta) >= certificate.HOPELESS


def _between(score: FloatArray, n_decided: int, lowest: float) -> float:
    """Return a threshold between the last decided score and the next; infinite if none is."""
    if n_decided == 0:
        return np.inf
    ranked = np.sort(score)[::-1]
    following = ranked[n_decided] if n_decided < ranked.size else lowest
    return float((ranked[n_decided - 1] + max(following, lowest)) / 2)


def percent(share: float) -> str:
    """Return a share as text, such as ``99.5%``."""
    return f"{100 * share:g}%"
