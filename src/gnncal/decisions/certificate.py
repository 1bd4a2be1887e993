r"""The threshold beyond which a share of right decisions is certified, by fixed-sequence testing.

Write :math:`\tau` for the target and :math:`\delta` for one minus the confidence level. The
calibration nodes are sorted by a score. The first r of them, with E mistakes, pass if
:math:`P(\mathrm{Bin}(r, 1 - \tau) \le E) \le \delta`. Every r from a start s on is tested in turn;
the first that fails ends the sequence, and all that passed before are certified at once. Equal
scores end together.

**Valid.** Let :math:`G(u)` be the chance of "right" minus :math:`\tau` times the chance of
"decided" for the threshold that decides a share u of all nodes. A threshold is bad where
:math:`G(u) < 0`. Bad shares form intervals at whose ends G is 0. Given how many calibration nodes
lie between the ends, right nodes come later than uniform ones there and wrong nodes earlier. So at
every bad threshold the mistakes among the first r nodes are at least those of r independent draws
that are wrong with probability :math:`1 - \tau`. Which test is the first at a bad threshold is
fixed by the same counts, so it passes with probability at most :math:`\delta`, and no bad threshold
is reached without passing it. The argument holds at the r-th score and just before the next one;
thresholds are put between the two. It does not cover ties; tests compute the chance of a violation
exactly for two or three scores.

**The start** depends on no label. Some hundred worlds are drawn in which the probabilities of the
nodes are wrong by a random slope and shift, :math:`\mathrm{logit}\, q = e^{a \xi} \mathrm{logit}\,
p + b \zeta`. The value of a start is the mean number of nodes that the sequence decides.

**Nested.** Whoever asks for less must not get less. Targets are divided into ranges with one start
each, :math:`\max(s, m(\tau))` with the fewest nodes m that can pass. Within a range the sequence of
a lower target passes wherever that of a higher one does: it allows more mistakes, and a start at
:math:`m(\tau)` allows none. Across ranges it is demanded: a target counts as certified only where
the upper end of every lower range is. Each range is as wide as its start is nearly the best, and
neighbouring starts are nearly the best at the target between them, so this costs little.

References: Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then Test" (2021); Geifman, El-Yaniv,
"Selective classification for deep neural networks" (NeurIPS 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log, log1p, log10

import numpy as np
from scipy import special

from gnncal.data.arrays import BoolArray, FloatArray, IntArray

SLOPE, SHIFT = 0.5, 0.8  # how wrong the probabilities of a world are: a and b above
N_WORLDS = 200
GIVE = 0.01  # a start is nearly the best if it decides at most this share less
TARGETS = 1.0 - np.append(
    np.append(0.999, np.arange(0.95, 0.52, -0.05)), 0.5 / 1.15 ** np.arange(50)
)  # (n_targets,) rising; those at which starts are compared
SURE = 1e-9  # probabilities are kept so far from 0 and 1
EVERY_RANK = 2_000  # up to here each rank is tested, beyond every 0.05 %
EVERY_START = 60  # and up to here each rank may be a start, beyond every 2 %
ROUNDING = 1e-9  # ln(1/8) / ln(1/2) is 3, not 4
STEP = 1e-3  # of targets that are advised
GOOD_CHANCE = 0.8  # with which the advised number of labels certifies
HOPELESS = 0.02  # chance of a certificate below which a guarantee gives its share of delta away
MOST_LABELS = 10_000_000  # advice beyond this would help nobody

Starts = tuple[tuple[float, int], ...]  # (targets below this, start), from high targets to low


@dataclass(frozen=True)
class RankedNodes:
    """Calibration nodes from the highest score to the lowest."""

    score: FloatArray  # (n,) falling
    mistakes: IntArray  # (n,) wrong ones among the first 1, 2, ..., n nodes
    end: IntArray  # (n,) how many nodes have at least this score

    @classmethod
    def of(cls, score: FloatArray, right: BoolArray) -> RankedNodes:
        """Sort nodes by score; those of equal score end together."""
        order = np.argsort(-score, kind="stable")
        ranked = score[order]
        end = np.searchsorted(-ranked, -ranked, side="right")
        return cls(ranked, np.cumsum(~right[order]), end)

    def ends(self) -> IntArray:
        """Return the numbers of nodes that are tested, rising, never inside a tie."""
        return np.unique(self.end[_ranks(self.end.size, EVERY_RANK, 0.0005) - 1])


def certified_ranks(
    ranked: RankedNodes, starts: Starts, target: float, delta: float
) -> tuple[int, int]:
    """Return the first and the last number of nodes that are certified; (0, 0) if none is."""
    ends, last = ranked.ends(), ranked.end.size
    for above, start in reversed(starts):  # from low targets to high
        asked = min(target, above)
        first, passed = _sequence(ranked, ends, start, asked, delta)
        last = min(last, passed)
        if last < first:
            return 0, 0
        if target < above:
            return first, last
    return 0, 0  # no range reaches the target: by the probabilities it is hopeless


def _sequence(
    ranked: RankedNodes, ends: IntArray, start: int, target: float, delta: float
) -> tuple[int, int]:
    """Return the first test from the start on, and the last that passes before one fails."""
    ends = ends[ends >= max(start, fewest_nodes(target, delta))]
    failed = ranked.mistakes[ends - 1] > allowed_mistakes(ends, target, delta)
    n_passed = int(np.argmax(np.append(failed, True)))
    return (int(ends[0]), int(ends[n_passed - 1])) if n_passed else (1, 0)


def plan_starts(
    chance: FloatArray, n: int, delta: float, *, most: tuple[float, float] | None = None
) -> Starts:
    """Return the start of every target, chosen by probabilities alone."""
    return _planned(chance.astype(np.float64).tobytes(), n, delta, most)


@lru_cache(maxsize=64)  # the same for every target that is asked for
def _planned(chance: bytes, n: int, delta: float, most: tuple[float, float] | None) -> Starts:
    ranks, mistakes = simulated_mistakes(np.frombuffer(chance), n, SLOPE, SHIFT)
    limit = np.full(len(mistakes), n)
    if most is not None:
        allowed = np.array([allowed_misses(k, *most) for k in mistakes[:, -1]])
        within = mistakes <= allowed[:, None]
        limit = np.where(within.any(axis=1), ranks[within.sum(axis=1) - 1], 0)
    values = np.array([_values(ranks, mistakes, limit, t, delta) for t in TARGETS.tolist()])
    best = values.max(axis=1)
    near = (values >= (1 - GIVE) * best[:, None]) & (best[:, None] > 0)
    hopeful = np.flatnonzero(best > 0)
    starts: list[tuple[float, int]] = []
    at, above = int(hopeful[-1]) if hopeful.size else -1, np.inf
    while at >= 0:
        stays = np.logical_and.accumulate(near[at::-1], axis=0).sum(axis=0)
        longest = int(stays.max())
        starts.append((above, int(ranks[np.flatnonzero(stays == longest)[-1]])))
        lowest = at - longest + 1
        if lowest == 0:
            break
        at = lowest if lowest < at else at - 1
        above = float(TARGETS[at])
    return tuple(starts)


def _values(
    ranks: IntArray, mistakes: IntArray, limit: IntArray, target: float, delta: float
) -> FloatArray:
    """Return the mean number of decided nodes for each start, (n_ranks,)."""
    earliest = int(np.searchsorted(ranks, fewest_nodes(target, delta)))
    if earliest == ranks.size:
        return np.zeros(ranks.size)
    passes = (mistakes <= allowed_mistakes(ranks, target, delta)) & (ranks <= limit[:, None])
    index = np.arange(ranks.size)
    fails = np.where(passes, ranks.size, index)
    first_failure = np.minimum.accumulate(fails[:, ::-1], axis=1)[:, ::-1]
    decided = np.where(passes, ranks[first_failure - 1], 0).mean(axis=0)
    values: FloatArray = decided[np.maximum(index, earliest)]
    return values


def simulated_mistakes(
    chance: FloatArray, n: int, slope: float, shift: float, *, coarse: int = 1
) -> tuple[IntArray, IntArray]:
    """Return ranks (m,) and the mistakes up to each of them in drawn worlds, (n_worlds, m)."""
    generator = np.random.default_rng(0)
    ranks, n_worlds = _ranks(n, EVERY_START // coarse, 0.02 * coarse), N_WORLDS // coarse
    place = ranks * (chance.size / n)
    upto = np.interp(place, np.arange(chance.size + 1), np.append(0.0, np.cumsum(chance)))
    mean = np.diff(upto, prepend=0.0) / np.diff(place, prepend=0.0)
    odds = special.logit(np.clip(mean, SURE, 1 - SURE))
    stretch = np.exp(slope * generator.standard_normal((n_worlds, 1)))
    q = special.expit(stretch * odds + shift * generator.standard_normal((n_worlds, 1)))
    return ranks, np.cumsum(generator.binomial(np.diff(ranks, prepend=0), 1 - q), axis=1)


def chance_to_certify(
    chance: FloatArray, n: int, target: float, delta: float, *, slope: float, shift: float
) -> float:
    """Return in which share of the worlds the best start certifies the target."""
    ranks, mistakes = simulated_mistakes(chance, n, slope, shift, coarse=2)
    values = _values(ranks, mistakes, np.full(len(mistakes), n), target, delta)
    if values.max() == 0:
        return 0.0
    start = np.flatnonzero(values >= (1 - GIVE) * values.max())[-1]
    start = max(start, int(np.searchsorted(ranks, fewest_nodes(target, delta))))
    passed = mistakes[:, start] <= allowed_mistakes(ranks[start], target, delta)
    return float(passed.mean())


def best_target(ranked: RankedNodes, starts: Starts, below: float, delta: float) -> float:
    """Return the highest certified target below this one, in whole steps; 0 if none is."""
    low, high = 0, ceil(below / STEP - ROUNDING)
    while high - low > 1:  # nested: what is certified at low is certified below it
        middle = (low + high) // 2
        is_certified = certified_ranks(ranked, starts, middle * STEP, delta)[1] > 0
        low, high = (middle, high) if is_certified else (low, middle)
    return round(low * STEP, 3)


def labels_for_precision(chance: FloatArray, n: int, target: float, delta: float) -> int | None:
    """Return how many labels certify the target with a good chance, if the probabilities are
    right."""
    if (np.cumsum(chance) / np.arange(1, chance.size + 1)).max() <= target:
        return None
    low, high = n, 2 * n
    while not _is_enough(chance, high, target, delta):
        low, high = high, 2 * high
        if low > MOST_LABELS:
            return None
    while high - low > max(1, 0.05 * low):
        middle = round((low * high) ** 0.5)
        low, high = (low, middle) if _is_enough(chance, middle, target, delta) else (middle, high)
    return two_digits(high)


def _is_enough(chance: FloatArray, n: int, target: float, delta: float) -> bool:
    return chance_to_certify(chance, n, target, delta, slope=0.0, shift=0.0) >= GOOD_CHANCE


def labels_for_share(rate: float, target: float, delta: float) -> int:
    """Return how many labels hold enough nodes of a class with a good chance."""
    fewest = fewest_nodes(target, delta)
    n = fewest / rate
    while special.bdtr(fewest - 1, ceil(n), rate) > 1 - GOOD_CHANCE:
        n *= 1.02
    return two_digits(n)


def allowed_misses(n: int, target: float, delta: float) -> int:
    """Return how many of n nodes may be on the wrong side, so that a share is; -1 if n are few."""
    return int(allowed_mistakes(np.array([n]), target, delta)[0]) if n else -1


def allowed_mistakes(ranks: IntArray, target: float, delta: float) -> IntArray:
    """Return max{c : P(Bin(r, 1 - target) <= c) <= delta} for each r; -1 where there is none."""
    ranks = np.atleast_1d(ranks)
    if ranks.size > 1 and ranks.size == ranks[-1]:
        return _allowed_up_to(ranks.size, target, delta)
    return _allowed(ranks, target, delta)


@lru_cache(maxsize=4096)  # a policy asks for the same targets again and again
def _allowed_up_to(n: int, target: float, delta: float) -> IntArray:
    return _allowed(np.arange(1, n + 1), target, delta)


def _allowed(ranks: IntArray, target: float, delta: float) -> IntArray:
    wrong, z = 1.0 - target, special.ndtri(delta)
    guess = ranks * wrong + z * np.sqrt(ranks * wrong * target) + (z * z - 1) * (target - 0.5) / 3
    c = np.floor(np.clip(guess - 0.5, -1, ranks - 1)).astype(np.int64)
    while (more := (c + 1 < ranks) & (special.bdtr(c + 1.0, ranks, wrong) <= delta)).any():
        c += more
    while (fewer := (c >= 0) & (special.bdtr(np.maximum(c, 0.0), ranks, wrong) > delta)).any():
        c -= fewer
    return c


def fewest_nodes(target: float, delta: float) -> int:
    """Return the smallest number of decided nodes, all of them right, that certifies the target."""
    return max(ceil(log(delta) / log(target) - ROUNDING), 1)


def missed_on_the_rest(labelled_share: float, delta: float) -> float:
    """Return about how likely a guarantee about all nodes is missed on those without a label."""
    return float(special.ndtr(special.ndtri(delta) * np.sqrt(1.0 - labelled_share)))


def two_digits(value: float) -> int:
    """Return a number rounded up to two digits that count: 1,234 becomes 1,300."""
    unit = 10 ** max(floor(log10(max(value, 1.0))) - 1, 0)
    return ceil(value / unit - ROUNDING) * unit


def _ranks(n: int, every: int, ratio: float) -> IntArray:
    """Return 1, 2, ..., every, and then steps of a ratio up to n."""
    if n <= every:
        return np.arange(1, n + 1)
    steps = np.geomspace(every, n, ceil(log(n / every) / log1p(ratio)) + 1)
    return np.unique(np.append(np.arange(1, every), steps.round().astype(np.int64)))
