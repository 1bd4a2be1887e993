"""A guarantee as a value: which nodes count, which of them are right, and the share asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import check_positive
from gnncal.data.constraints import choice, number
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
    plan_starts,
    two_digits,
)

Action = Literal["decide", "act", "clear"]
Of = Literal["action", "class"]
SHARE = number(above=0, below=1)
MOST_CELLS = 1_000  # in which the probabilities of the pool are kept
DONE = {"decide": "decided", "act": "acted on", "clear": "cleared"}
DOING = {"decide": "deciding", "act": "acting", "clear": "clearing"}


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
    Of the nodes cleared, at least 99 % are neither fraud nor abuse; of those that have had an
    appeal granted, at most 5 % are acted on:

    >>> from gnncal.decisions import Guarantee, Policy
    >>> fine = Guarantee("fine", 0.99, "clear", ("legitimate", "appealed"))
    >>> spared = Guarantee("spared", 0.95, "act", ("appealed",), of="class")
    >>> policy = Policy(positive="fraud", act=0.9, also=(fine, spared))

    """

    name: str
    target: float
    action: Action
    classes: tuple[Any, ...]
    of: Of = "action"

    def check(self) -> None:
        """Check the fields, which ``Policy.fit`` does first.

        Raises
        ------
        InputError
            If a field cannot be used; the message names the first one.

        """
        SHARE.check(f"target of {self.name}", self.target)
        choice("act", "clear", "decide").check(f"action of {self.name}", self.action)
        choice("action", "class").check(f"of of {self.name}", self.of)

    def numbered(self, n_classes: int, class_names: Any) -> Guarantee:
        """Return the same guarantee with the numbers of its classes.

        Parameters
        ----------
        n_classes : int
            Number of classes.
        class_names : list of str or None
            A name for each class.

        Returns
        -------
        Guarantee
            With sorted class numbers.

        Raises
        ------
        InputError
            If a class is unknown, or all of them are named.

        """
        numbers = {check_positive(c, n_classes, class_names) for c in self.classes}
        if len(numbers) == n_classes:
            raise InputError(f"the guarantee {self.name} names every class; leave one out.")
        found = tuple(sorted(numbers))
        return Guarantee(self.name, float(self.target), self.action, found, self.of)

    def holds_for(self, labels: IntArray, predicted: IntArray) -> BoolArray:
        """Return which nodes have one of the classes; for deciding, the predicted one.

        Parameters
        ----------
        labels : ndarray of shape (n_nodes,)
            Class numbers.
        predicted : ndarray of shape (n_nodes,)
            Predicted class numbers.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Booleans.

        """
        if self.action == "decide":
            return labels == predicted
        return np.isin(labels, self.classes)

    def chance(self, probs: FloatArray) -> FloatArray:
        """Return the probability of :meth:`holds_for`.

        Parameters
        ----------
        probs : ndarray of shape (n_nodes, n_classes)
            Probabilities.

        Returns
        -------
        ndarray of shape (n_nodes,)
            A probability for each node.

        """
        if self.action == "decide":
            return probs.max(axis=1).astype(np.float64)
        return probs[:, list(self.classes)].sum(axis=1, dtype=np.float64)

    def counted(self, has_action: BoolArray, holds: BoolArray) -> tuple[int, int]:
        """Return how many nodes count, and how many of them are right.

        Parameters
        ----------
        has_action : ndarray of shape (n_nodes,)
            Which nodes get the action.
        holds : ndarray of shape (n_nodes,)
            What :meth:`holds_for` returned.

        Returns
        -------
        tuple of int
            Nodes that count, nodes that are right.

        """
        if self.of == "class":
            return int(holds.sum()), int((holds & ~has_action).sum())
        return int(has_action.sum()), int((holds & has_action).sum())


def accuracy(target: float) -> Guarantee:
    """Of the nodes decided, at least the target has the predicted class."""
    return Guarantee("accuracy", target, "decide", ())


def of_one_class(
    positive: int, n_classes: int, targets: dict[str, float | None]
) -> list[Guarantee]:
    """Return act, clear, recall and false-positive rate as guarantees about one class."""
    others = tuple(c for c in range(n_classes) if c != positive)
    rate = targets.get("false_positive_rate")
    known = {
        "act": ("act", (positive,), "action", targets.get("act")),
        "clear": ("clear", others, "action", targets.get("clear")),
        "recall": ("clear", (positive,), "class", targets.get("recall")),
        "false_positive_rate": ("act", others, "class", None if rate is None else 1.0 - rate),
    }
    return [
        Guarantee(name, float(target), action, classes, of)  # type: ignore[arg-type]
        for name, (action, classes, of, target) in known.items()
        if target is not None
    ]


@dataclass(frozen=True)
class Certified:
    """One guarantee: what was asked for, and what the calibration nodes certify."""

    name: str
    target: float
    action: Action
    of: Of
    confidence_level: float
    is_certified: bool
    threshold: float
    n_counted: int
    n_right: int
    best_target: float
    labels_needed: int | None

    def sentence(self, of_what: str) -> str:
        """Return the guarantee in plain words."""
        if not self.is_certified:
            return f"No threshold is certified for {self._goal}.{self._advice}"
        if not np.isfinite(self.threshold):
            return f"{self._goal.capitalize()} is certified, but other guarantees leave no node."
        side = "at most" if self.action == "clear" else "at least"
        verb = "Act on" if self.action == "act" else self.action.capitalize()
        return f"{verb} {of_what} of {side} {self.threshold:.4g}: {self._claim}."

    @property
    def _goal(self) -> str:
        if self.name == "recall":
            return f"a recall of {percent(self.target)}"
        if self.name == "false_positive_rate":
            return f"a false-positive rate of {percent(1 - self.target)}"
        what = "right" if self.name in ("accuracy", "act", "clear") else f"{self.name}"
        if self.of == "class":
            return f"{what}: {percent(self.target)} not {DONE[self.action]}"
        return f"{DOING[self.action]} with {percent(self.target)} {what}"

    @property
    def _claim(self) -> str:
        if self.name == "recall":
            return f"at least {percent(self.target)} of the positives are not cleared"
        if self.name == "false_positive_rate":
            return f"at most {percent(1 - self.target)} of the negatives are acted on"
        if self.of == "class":
            return f"at least {percent(self.target)} of {self.name} are not {DONE[self.action]}"
        right = "right" if self.name in ("accuracy", "act", "clear") else self.name
        return f"at least {percent(self.target)} are {right}"

    @property
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


def certify_all(
    guarantees: list[Guarantee],
    scores: dict[Action, FloatArray],
    holds: dict[str, BoolArray],
    pools: dict[str, FloatArray],
    delta: float,
    *,
    labels_for_one: float = 1.0,
    bounds: dict[Action, float] | None = None,
    is_advised: bool = True,
) -> dict[str, Certified]:
    """Certify every guarantee on the calibration nodes, all of them together."""
    n = len(next(iter(scores.values())))
    shares = _shares_of_delta(guarantees, pools, n, delta)
    found: dict[str, Certified] = {}
    room = n  # nodes that no other action has
    for action in ("decide", "act", "clear"):
        here = [g for g in guarantees if g.action == action]
        if not here:
            continue
        score = scores[action]
        most, first, passed = room, 1, {}
        capping = {g.name: g for g in here if g.of == "class"}
        for g in capping.values():
            most = min(most, _most_nodes(g, score, holds[g.name], shares[g.name]))
            passed[g.name] = fewest_nodes(g.target, shares[g.name]) <= holds[g.name].sum()
        cap = next(((g.target, shares[g.name]) for g in capping.values() if passed[g.name]), None)
        for g in here:
            if g.of == "class":
                continue
            ranked = RankedNodes.of(score, holds[g.name])
            starts = plan_starts(pools[g.name], n, shares[g.name], most=cap)
            low, high = certified_ranks(ranked, starts, g.target, shares[g.name])
            passed[g.name] = high > 0
            first, most = max(first, low), min(most, high)
        ends = RankedNodes.of(score, np.ones(n, np.bool_)).end
        ends = np.unique(ends)
        ends = ends[(ends >= first) & (ends <= most)]
        last = int(ends[-1]) if ends.size and all(passed.values()) else 0
        lowest = (bounds or {}).get(action, 0.0 if action != "clear" else -1.0)
        cut = _between(score, last, lowest)
        room -= last
        for g in here:
            of_g = score, holds[g.name], pools[g.name]
            share, fair = shares[g.name], delta / len(guarantees)
            advice: tuple[float, int | None] = (np.nan, None)
            if is_advised and not passed[g.name]:  # without hope it had given its share away
                advice = _advice(g, *of_g, max(share, fair), labels_for_one)
            found[g.name] = _concluded(g, passed[g.name], cut, score, holds[g.name], share, advice)
    return {g.name: found[g.name] for g in guarantees}


def _shares_of_delta(
    guarantees: list[Guarantee], pools: dict[str, FloatArray], n: int, delta: float
) -> dict[str, float]:
    """Divide delta evenly; a guarantee without hope at its share gives it to the others."""
    hopeful = list(guarantees)
    while len(hopeful) > 1:
        share = delta / len(hopeful)
        kept = [g for g in hopeful if _hope(g, pools[g.name], n, share) >= HOPELESS]
        if len(kept) in (0, len(hopeful)):
            break
        hopeful = kept
    named = {g.name for g in hopeful}
    none = np.finfo(np.float64).tiny  # nothing is certified with it
    return {g.name: delta / len(hopeful) if g.name in named else none for g in guarantees}


def _hope(guarantee: Guarantee, pool: FloatArray, n: int, delta: float) -> float:
    if guarantee.of == "action":
        return chance_to_certify(pool, n, guarantee.target, delta, slope=SLOPE, shift=SHIFT)
    fewest = fewest_nodes(guarantee.target, delta)
    return float(n * pool.mean() >= 0.2 * fewest)  # five times as many may be there after all


def _most_nodes(guarantee: Guarantee, score: FloatArray, holds: BoolArray, delta: float) -> int:
    """Return how many nodes may get the action so that few of the classes do."""
    misses = allowed_misses(int(holds.sum()), guarantee.target, delta)
    ranked = RankedNodes.of(score, ~holds)
    ends = np.unique(ranked.end)
    within = ends[ranked.mistakes[ends - 1] <= misses]
    return int(within[-1]) if within.size else 0


def _between(score: FloatArray, n_decided: int, lowest: float) -> float:
    """Return a threshold between the last decided score and the next; infinite if none is."""
    if n_decided == 0:
        return np.inf
    ranked = np.sort(score)[::-1]
    following = ranked[n_decided] if n_decided < ranked.size else lowest
    return float((ranked[n_decided - 1] + max(following, lowest)) / 2)


def _advice(
    guarantee: Guarantee,
    score: FloatArray,
    holds: BoolArray,
    pool: FloatArray,
    delta: float,
    labels_for_one: float,
) -> tuple[float, int | None]:
    """Return the highest target that is certified, and how many labels the asked one takes."""
    n, target = score.size, guarantee.target
    if guarantee.of == "action":
        starts = plan_starts(pool, n, delta)
        best = best_target(RankedNodes.of(score, holds), starts, target, delta)
        labels = labels_for_precision(pool, n, target, delta)
    else:
        m = int(holds.sum())
        best = float(np.floor(1000 * delta ** (1 / m)) / 1000) if m else 0.0
        labels = labels_for_share(max(float(pool.mean()), 1 / (n + 1)), target, delta)
    return best, None if labels is None else two_digits(labels * labels_for_one)


def _concluded(
    guarantee: Guarantee,
    is_certified: bool,
    cut: float,
    score: FloatArray,
    holds: BoolArray,
    delta: float,
    advice: tuple[float, int | None],
) -> Certified:
    n_counted, n_right = guarantee.counted(score >= cut, holds)
    best, labels = (guarantee.target, None) if is_certified else advice
    return Certified(
        name=guarantee.name,
        target=guarantee.target,
        action=guarantee.action,
        of=guarantee.of,
        confidence_level=1.0 - delta,
        is_certified=is_certified,
        threshold=-cut if guarantee.action == "clear" else cut,
        n_counted=n_counted,
        n_right=n_right,
        best_target=best,
        labels_needed=labels,
    )


def pool_of(guarantee: Guarantee, probs: FloatArray, score: FloatArray) -> FloatArray:
    """Return the chance that decisions about nodes are right, in order of the score, by cells."""
    order = np.argsort(score if guarantee.action == "clear" else -score, kind="stable")
    return in_cells(guarantee.chance(probs)[order])


def in_cells(values: FloatArray) -> FloatArray:
    """Return the means of at most so many cells of neighbouring values."""
    ends = np.linspace(0, values.size, min(values.size, MOST_CELLS) + 1).astype(np.int64)
    means: FloatArray = np.add.reduceat(values, ends[:-1]) / np.diff(ends)
    return means


def percent(share: float) -> str:
    """Return a share as text, such as ``99.5 %``."""
    return f"{100 * share:g} %"


def certify_targets(
    guarantees: list[Guarantee],
    pool_probs: FloatArray,
    pool_score: FloatArray,
    score: FloatArray,
    labels: IntArray,
    predicted: IntArray,
    delta: float,
) -> list[Certified]:
    """Certify one guarantee at several targets, each by itself, as a slider needs them."""
    first = guarantees[0]
    pool, holds = pool_of(first, pool_probs, pool_score), first.holds_for(labels, predicted)
    ranked = -score if first.action == "clear" else score
    return [
        certify_all(
            *([g], {g.action: ranked}, {g.name: holds}, {g.name: pool}, delta), is_advised=False
        )[g.name]
        for g in guarantees
    ]
