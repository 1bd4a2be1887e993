r"""The threshold above which accuracy is certified, by fixed-sequence testing.

Write :math:`\tau` for the target accuracy and :math:`\delta` for one minus the confidence level.
The calibration nodes are sorted by confidence. For planned numbers of nodes
:math:`r_1 < r_2 < \dots`, which depend on no label, the r most confident nodes are tested in turn.
With E mistakes among them, the threshold at the r-th node passes if
:math:`P(\mathrm{Bin}(r, 1 - \tau) \le E) \le \delta`. The first that fails ends the sequence, and
the last that passed is the answer. Nothing is lost to the number of tests.

Why the answer is valid although the thresholds are confidences of the calibration nodes
themselves. Let :math:`G(u)` be the chance of "right" minus :math:`\tau` times the chance of
"decided", both for the threshold that decides a share u of all nodes. A threshold is bad where
:math:`G(u) < 0`. Bad shares form intervals at whose ends G is 0, so that between two ends a node
is right with probability :math:`\tau` exactly. Given how many calibration nodes lie between the
ends, it is fixed which planned test is the first at a bad threshold. The nodes before its
interval are right with probability :math:`\tau`, independently. Within the interval right nodes
come later than wrong ones (that is what :math:`G < 0` says), so the first j of them have at most
as many right ones as j draws with probability :math:`\tau`. Hence the first bad test passes with
probability at most :math:`\delta`, and a bad threshold is never reached without passing it.

Nodes of equal confidence cannot be separated, so a planned number is rounded up to the end of its
tie. The argument then no longer covers every case; the tests compute the chance of a violation
exactly for distributions with two or three confidences, and it stays below :math:`\delta`.

References: Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then Test" (2021), for the sequence of
tests; Geifman and El-Yaniv, "Selective classification for deep neural networks" (NeurIPS 2017),
for the task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log, log1p

import numpy as np
from scipy import special

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.decisions.outcomes import RankedNodes
from gnncal.metrics.proportions import lower_limit

START = 3.0  # times the square root of n, or of how many of them may be right, if these are few:
# the first test has at least so many nodes. Fewer would fail more often by bad luck and end the
# sequence; more would leave small coverages out of reach.
SINGLE_STEPS = 100  # allowed mistakes that are planned one by one
ROUNDING = 1e-9  # ln(1/8) / ln(1/2) is 3, not 4
TARGET_DIGITS = 3
TARGET_STEP = 10.0**-TARGET_DIGITS
STEP_RATIO = 1.01  # from one planned number of allowed mistakes to the next, beyond those


@dataclass(frozen=True)
class Certificate:
    """The lowest certified threshold, and the calibration nodes that reach it."""

    threshold: float  # infinite if none is certified
    n_decided: int
    n_correct: int


def certify(ranked: RankedNodes, target: float, confidence_level: float) -> Certificate:
    """Find the lowest threshold in the fixed sequence that is certified for this target."""
    return lowest(ranked, certified_ends(ranked, target, confidence_level))


def lowest(ranked: RankedNodes, ends: IntArray, *, above: float = -np.inf) -> Certificate:
    """Return the lowest of certified thresholds, or the lowest that lies above some value.

    With the probability of the confidence level all thresholds that pass are good at once, so
    whatever else asks for one above some value may choose among them.
    """
    ends = ends[ranked.confidence[ends - 1] > above]
    if ends.size == 0:
        return Certificate(np.inf, 0, 0)
    n_decided = int(ends[-1])
    wrong = int(ranked.mistakes[n_decided - 1])
    return Certificate(float(ranked.confidence[n_decided - 1]), n_decided, n_decided - wrong)


def certified_ends(
    ranked: RankedNodes, target: float, confidence_level: float, share: float = 1.0
) -> IntArray:
    """Return the numbers of nodes whose test passes, before the first test that fails.

    ``share`` is that of the nodes which a decision could be right about, known without labels.
    """
    ends = tested_ends(ranked, target, confidence_level, share)
    passed = p_values(ends, ranked.mistakes[ends - 1], target) <= 1.0 - confidence_level
    return ends[: int(np.argmin(np.append(passed, False)))]


def is_certified(certificate: Certificate, target: float, confidence_level: float) -> bool:
    """Return whether so many right decisions certify the target, at a threshold by itself."""
    n, mistakes = (
        np.array(certificate.n_decided),
        np.array(certificate.n_decided - certificate.n_correct),
    )
    return bool(p_values(n, mistakes, target) <= 1.0 - confidence_level)


def best_target(
    ranked: RankedNodes, below: float, confidence_level: float, share: float = 1.0
) -> float:
    """Return the highest target below this one that is certified, in whole steps; 0 if none is.

    A target is certified as soon as its first test passes. Which nodes that test takes depends on
    the target, so a lower target may fail where a higher one passes, and all of them are looked at.
    """
    targets = np.arange(1, ceil(below / TARGET_STEP - ROUNDING)) * TARGET_STEP
    first = first_ranks(len(ranked.end), targets, confidence_level, share)
    ends = ranked.end[np.maximum(first, 1) - 1]
    p = p_values(ends, ranked.mistakes[ends - 1], targets)
    passed = targets[(first > 0) & (p <= 1.0 - confidence_level)]
    return round(float(passed.max(initial=0.0)), TARGET_DIGITS)


def first_ranks(
    n: int, targets: FloatArray, confidence_level: float, share: float = 1.0
) -> IntArray:
    """Return the first of the planned ranks for each target; 0 where there is none."""
    planned, start = _planned_mistakes(n), ceil(START * np.sqrt(share * n))
    low, high = np.full(len(targets), -1), np.full(len(targets), len(planned))
    while (high - low > 1).any():  # at low, fewer nodes than the start pass; at high, they fail
        middle = (low + high) // 2
        p = p_values(np.full_like(middle, start - 1), planned[np.maximum(middle, 0)], targets)
        enough = (middle < 0) | (p <= 1.0 - confidence_level)
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    ranks = np.full(len(targets), n)
    inside = high < len(planned)
    ranks[inside] = ranks_allowing(planned[high[inside]], n, targets[inside], confidence_level)
    hopeless = ranks_allowing(np.zeros(len(targets), np.int64), n, targets, confidence_level) > n
    return np.where(hopeless, 0, np.minimum(ranks, n))


def tested_ends(
    ranked: RankedNodes, target: float, confidence_level: float, share: float
) -> IntArray:
    """Return how many of the most confident nodes each test takes, rising, never inside a tie."""
    n = len(ranked.end)
    return np.unique(ranked.end[planned_ranks(n, target, confidence_level, share) - 1])


@lru_cache(maxsize=1024)  # a curve of many targets asks for the same for each method
def planned_ranks(n: int, target: float, confidence_level: float, share: float = 1.0) -> IntArray:
    """Return the numbers of nodes, rising, at which one more mistake becomes allowed, and n itself.

    Empty if even n nodes without a mistake would not be enough.
    """
    ranks = ranks_allowing(_planned_mistakes(n), n, target, confidence_level)
    if ranks[0] > n:
        return np.empty(0, dtype=np.int64)
    return np.append(ranks[(ranks >= START * np.sqrt(share * n)) & (ranks < n)], n)


def ranks_allowing(
    mistakes: IntArray, n: int, target: float | FloatArray, confidence_level: float
) -> IntArray:
    """Return the fewest decided nodes among which so many mistakes pass, at most n + 1."""
    low, high = mistakes.copy(), np.full_like(mistakes, n + 1)  # fails at low, passes at high
    while (high - low > 1).any():
        middle = (low + high) // 2
        passes = p_values(middle, mistakes, target) <= 1.0 - confidence_level
        low, high = np.where(passes, low, middle), np.where(passes, middle, high)
    return np.maximum(high, mistakes + 1)


def fewest_nodes(target: float, confidence_level: float) -> int:
    """Return the smallest number of decided nodes, all of them right, that certifies the target."""
    return max(ceil(log1p(-confidence_level) / log(target) - ROUNDING), 1)


def p_values(n: IntArray, mistakes: IntArray, target: float | FloatArray) -> FloatArray:
    """P(Bin(n, 1 - target) <= mistakes): how surprising so few mistakes are at the target."""
    return special.bdtr(mistakes.astype(np.float64), n, 1.0 - target)


def accuracy_bounds(n: IntArray, correct: IntArray, confidence_level: float) -> FloatArray:
    """Lower Clopper-Pearson limit of the accuracy of one fixed threshold; NaN without nodes.

    It is at least the target exactly where the p-value is at most 1 - confidence_level.
    """
    return lower_limit(correct, n, 1.0 - confidence_level)


def _planned_mistakes(n: int) -> IntArray:
    """0, 1, ..., 100 and then one per cent more each time, up to n."""
    n_steps = int(np.log(max(n / SINGLE_STEPS, 1.0)) / np.log(STEP_RATIO)) + 1
    steps = SINGLE_STEPS * STEP_RATIO ** np.arange(1, n_steps)
    return np.unique(np.append(np.arange(SINGLE_STEPS + 1), steps.astype(np.int64)))
