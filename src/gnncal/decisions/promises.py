r"""Promises about one class: act or clear with a certified precision, catch a certified share.

**Act** ranks the calibration nodes by their probability of the class, **clear** by the lack of it.
A decision is right if the node has the class, or has it not, and the certificate of
``certificate.py`` finds the threshold. Where the class is rare, few decisions to act can be right,
so the first test takes fewer nodes. How rare it is comes from the mean probability, to the nearest
power of two, because the plan of the tests must not depend on the labels.

**Catch** looks at the calibration nodes of the class alone, n of them. Write :math:`\tau` for the
share to be caught and :math:`\delta` for one minus the confidence level. The threshold is the
k-th smallest of their probabilities, k being the largest number with
:math:`P(\mathrm{Bin}(n, 1 - \tau) \le k - 1) \le \delta`. It is valid with ties: let q be the
smallest probability that more than :math:`1 - \tau` of all positives do not exceed. The threshold
is bad only if it lies above q, so only if fewer than k of the n do not exceed q, and each of them
does not exceed it with a chance above :math:`1 - \tau`. If all nodes are a finite pool from which
the calibration nodes are drawn, their number up to q is hypergeometric, which is closer to its
mean than the binomial one.

Several promises share :math:`\delta` evenly, so all of them hold together with the confidence
level. What is acted on is not cleared, and what must be caught is not cleared either. That leaves
fewer nodes to clear, and the thresholds that passed before the first failure are certified all at
once, so clearing takes the best of those that remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log2, log10, sqrt
from typing import Literal

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray
from gnncal.decisions.certificate import (
    ROUNDING,
    TARGET_DIGITS,
    best_target,
    certified_ends,
    fewest_nodes,
    first_ranks,
    lowest,
    p_values,
)
from gnncal.decisions.outcomes import RankedNodes

Kind = Literal["act", "clear", "catch"]
MOST_LABELS = 10_000_000  # advice beyond this would help nobody
LABEL_STEP = 1.1  # from one number of labels that is tried to the next


@dataclass(frozen=True)
class Promise:
    """One promise about a class: what was asked for, and what the calibration nodes certify.

    Attributes
    ----------
    kind : {"act", "clear", "catch"}
        What is promised: right decisions to act, right decisions to clear, or positives caught.
    target : float
        Share of the decisions that must be right; for ``"catch"``, share of the positives that
        must not be cleared.
    confidence_level : float
        Probability with which this promise holds by itself.
    is_certified : bool
        Whether the calibration nodes certify it.
    threshold : float
        Lowest probability that is acted on or counts as caught; highest that is cleared. Infinite
        (negative for ``"clear"`` and ``"catch"``) if no node is.
    n_counted : int
        Number of calibration nodes that are acted on, or cleared; for ``"catch"``, that are
        positive.
    n_right : int
        Number of them that are decided rightly, or caught.
    best_target : float
        The target if it is certified; otherwise the highest, in steps of 0.001, that these labels
        certify, 0 if none. It is chosen by the labels, so take it as advice.
    labels_needed : int or None
        About how many labelled nodes, drawn like these, the target would take if the
        probabilities are right; None if it is certified or no number would do.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy
    >>> generator = np.random.default_rng(0)
    >>> p = generator.beta(0.3, 3, size=2000)
    >>> labels = (generator.random(2000) < p).astype(int)
    >>> policy = ClassPolicy(1, catch=0.9).fit(np.column_stack([1 - p, p]), labels)
    >>> promise = policy.promises_["catch"]
    >>> promise.is_certified, promise.n_counted, promise.n_right, round(promise.threshold, 3)
    (True, 174, 163, 0.051)

    """

    kind: Kind
    target: float
    confidence_level: float
    is_certified: bool
    threshold: float
    n_counted: int
    n_right: int
    best_target: float
    labels_needed: int | None

    def sentence(self, name: str) -> str:
        """Return the promise in plain words.

        Parameters
        ----------
        name : str
            What the probability is called, such as ``P(fraud)``.

        Returns
        -------
        str
            One or two sentences.

        """
        target = percent(self.target)
        if not self.is_certified:
            goal = {
                "act": f"acting with {target} right",
                "clear": f"clearing with {target} right",
                "catch": f"catching {target} of the positives",
            }[self.kind]
            return f"No threshold is certified for {goal}. {self._advice}"
        if self.kind == "act":
            return f"Act on {name} of at least {self.threshold:.4g}: at least {target} are right."
        if self.kind == "catch":
            return (
                f"Do not clear {name} of at least {self.threshold:.4g}: at least {target} of the "
                "positives are caught."
            )
        if not np.isfinite(self.threshold):
            return f"Clearing with {target} right is certified, but other promises leave no node."
        return f"Clear {name} of at most {self.threshold:.4g}: at least {target} are right."

    @property
    def _advice(self) -> str:
        best = "No lower target is certified either"
        if self.best_target > 0:
            best = f"These labels certify {percent(self.best_target)}"
        if self.labels_needed is None:
            return f"{best}; by these probabilities no number of labels would certify the target."
        return f"{best}; the target takes about {self.labels_needed:,} labelled nodes."


def make_promises(
    p: FloatArray,
    is_positive: BoolArray,
    targets: Mapping[Kind, float],
    confidence_level: float,
) -> dict[Kind, Promise]:
    """Certify each target on the calibration nodes, all of them together at this level.

    Parameters
    ----------
    p : (n,) probability of the class at the calibration nodes, in float64.
    is_positive : (n,) whether they have it.
    targets : the share that each promise is about, at most one for each kind.
    confidence_level : with which all of them hold at once.

    """
    level = 1.0 - (1.0 - confidence_level) / len(targets)
    made: dict[Kind, Promise] = {}
    for kind in ("catch", "act", "clear"):  # the later ones heed the earlier
        if kind not in targets:
            continue
        target = float(targets[kind])
        if kind == "catch":
            made[kind] = _catch(p, is_positive, target, level)
            continue
        # Clearing stays below what must be caught and below what is acted on.
        limits = [-made[other].threshold for other in made] if kind == "clear" else []
        made[kind] = _precise(kind, target, level, p, is_positive, max(limits, default=-np.inf))
    return {kind: made[kind] for kind in targets}


def _precise(
    kind: Kind, target: float, level: float, p: FloatArray, is_positive: BoolArray, above: float
) -> Promise:
    """Promise a precision of acting, or of clearing where the score -p lies above a limit."""
    sign, chance, right = 1.0, p, is_positive
    if kind == "clear":
        sign, chance, right = -1.0, 1.0 - p, ~is_positive
    ranked, share = RankedNodes.of(sign * p, right), power_of_two(float(chance.mean()))
    ends = certified_ends(ranked, target, level, share)
    certificate = lowest(ranked, ends, above=above)
    best, labels = target, None
    if ends.size == 0:
        best = best_target(ranked, target, level, share)
        labels = labels_for_precision(chance, target, level, share)
    return Promise(
        kind=kind,
        target=target,
        confidence_level=level,
        is_certified=ends.size > 0,
        threshold=sign * certificate.threshold,
        n_counted=certificate.n_decided,
        n_right=certificate.n_correct,
        best_target=best,
        labels_needed=labels,
    )


def _catch(p: FloatArray, is_positive: BoolArray, target: float, level: float) -> Promise:
    positives = np.sort(p[is_positive])
    n = positives.size
    missed = allowed_misses(n, target, level)
    threshold = float(positives[missed]) if missed >= 0 else -np.inf
    best, labels = target, None
    if missed < 0:
        steps = 10**TARGET_DIGITS
        best = floor(steps * (1.0 - level) ** (1.0 / n)) / steps if n else 0.0
        # Without a positive nobody knows how rare they are: the next node may be the first.
        labels = two_digits(fewest_nodes(target, level) * p.size / max(n, 1))
    return Promise(
        kind="catch",
        target=target,
        confidence_level=level,
        is_certified=missed >= 0,
        threshold=threshold,
        n_counted=n,
        n_right=int((positives >= threshold).sum()) if missed >= 0 else 0,
        best_target=best,
        labels_needed=labels,
    )


def allowed_misses(n: int, target: float, level: float) -> int:
    """Return how many of n positives may lie below the threshold; -1 if n are too few."""
    return int((p_values(np.full(n, n), np.arange(n), target) <= 1.0 - level).sum()) - 1


def labels_for_precision(
    chance: FloatArray, target: float, level: float, share: float
) -> int | None:
    """Return about how many calibration nodes pass the first test; None if no number would do.

    ``chance`` (n,) says how likely a decision on each of today's nodes is right. The first test
    with more labels takes some share of the most certain nodes. It should pass even with one
    standard deviation more mistakes among them than expected.
    """
    right = np.sort(chance)[::-1]
    precision = np.cumsum(right) / np.arange(1, right.size + 1)
    n = max(right.size, fewest_nodes(target, level))
    while (n := ceil(LABEL_STEP * n)) <= MOST_LABELS:
        first = int(first_ranks(n, np.array([target]), level, share)[0])
        if first == 0:
            continue
        expected = precision[max(ceil(first / n * right.size), 1) - 1]
        wrong = first * (1.0 - expected) + sqrt(first * expected * max(1.0 - expected, 0.0))
        if p_values(np.array(first), np.array(floor(wrong)), target) <= 1.0 - level:
            return two_digits(n)
    return None


def two_digits(value: float) -> int:
    """Return a number rounded up to two digits that count: 1,234 becomes 1,300."""
    unit = 10 ** max(floor(log10(max(value, 1.0))) - 1, 0)
    return ceil(value / unit - ROUNDING) * unit


def power_of_two(share: float) -> float:
    """Return the power of two nearest to a share."""
    return 2.0 ** round(log2(max(share, 1e-9)))


def percent(share: float) -> str:
    """Return a share as text, such as ``99.5 %``."""
    return f"{100 * share:g} %"
