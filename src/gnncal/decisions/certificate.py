r"""The threshold beyond which a share of right decisions is certified, by fixed-sequence testing.

Write :math:`\tau` for the target and :math:`\delta` for one minus the confidence level. The
calibration nodes are sorted by a score. The first r of them, with E mistakes, pass if
:math:`P(\mathrm{Bin}(r, 1 - \tau) \le E) \le \delta`. Every r from a start on is tested in turn;
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
thresholds are put between the two. It does not cover ties. For two to five tied scores, tests
compute the chance of a violation exactly; it never exceeds :math:`\delta`.

**The start** is the first r that allows c mistakes: a later one that allows no more is not better.
c depends on no label. With ties, the first r may allow more than c. All of them are allowed unless
a lower target with the same c starts earlier, because it must pass there too. Some hundred worlds
are drawn in which the probabilities of the nodes are wrong by a random slope and shift,
:math:`\mathrm{logit}\, q = e^{a \xi} \mathrm{logit}\, p + b \zeta`; c is chosen by the mean number
of nodes that are decided in them.

**Nested.** Whoever asks for less must not get less. With one c a lower target passes wherever a
higher one does: it starts earlier, where no more mistakes can have been made, and allows more. But
low targets want a larger c than high ones. Where c changes, at a target b, the sequence of b goes
on below b next to the one with the larger c, and what either certifies is certified. It costs the
largest chance with which one of its tests passes at a share of :math:`\tau`, which falls quickly
with the target; the other sequence has the rest of :math:`\delta`.

References: Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then Test" (2021); Geifman, El-Yaniv,
"Selective classification for deep neural networks" (NeurIPS 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log, log1p, log10
from operator import itemgetter

import numpy as np
from scipy import special

from gnncal.data.arrays import BoolArray, FloatArray, IntArray

WORLDS = (0.5, 0.8)  # how wrong the probabilities of a world are: a and b above
AS_STATED = (0.0, 0.0)  # worlds in which they are right
N_WORLDS = 100
FIRST_MISTAKES = np.array([0, 2, 6, 18, 54, 162, 486])  # among which c is chosen
CHANGE = 0.02  # what another c must gain, in shares of what the best decides, over all targets
TARGETS = 1.0 - np.append([0.999, 0.9, 0.8, 0.7, 0.6], 0.5 / 1.25 ** np.arange(32))
# (n_targets,) rising; those at which c is compared
SURE = 1e-9  # probabilities are kept so far from 0 and 1
FINE, COARSE = (2_000, 0.0005), (60, 0.02)  # ranks that are tested, and those of simulations:
# each one up to a number, beyond it in steps of a ratio
ROUNDING = 1e-9  # ln(1/8) / ln(1/2) is 3, not 4
STEP = 1e-3  # of targets that are advised
GOOD_CHANCE = 0.8  # with which the advised number of labels certifies
HOPELESS = 0.02  # chance of a certificate below which a guarantee gives its share of delta away
MOST_LABELS = 10_000_000  # advice beyond this helps no one

Plan = tuple[tuple[float, int], ...]  # (targets from here up, c), from high targets to low
Worlds = tuple[float, float]


@dataclass(frozen=True)
class RankedNodes:
    """Calibration nodes from the highest score to the lowest, at the ranks that are tested."""

    ends: IntArray  # (m,) rising numbers of nodes, never inside a tie
    mistakes: IntArray  # (n_worlds, m) wrong ones among so many nodes; one world is the real one

    @classmethod
    def of(cls, score: FloatArray, right: BoolArray) -> RankedNodes:
        """Sort nodes by score."""
        order = np.argsort(-score, kind="stable")
        end = np.searchsorted(-score[order], -score[order], side="right")
        ends = np.unique(end[ranks_up_to(end.size, FINE) - 1])
        return cls(ends, np.cumsum(~right[order], dtype=np.int64)[None, ends - 1])


def certified_ranks(ranked: RankedNodes, plan: Plan, target: float, delta: float) -> IntArray:
    """Return the first and last certified number of nodes, (2, n_worlds); zeros if none is."""
    ends, mistakes = ranked.ends, ranked.mistakes
    found = np.zeros((2, len(mistakes)), dtype=np.int64)
    for start, allowed in sequences(ends, plan, target, delta):
        failed = mistakes[:, start:] > allowed[start:]
        n_passed = np.where(failed.any(axis=1), failed.argmax(axis=1), failed.shape[1])
        last = np.where(n_passed > 0, ends[start + n_passed - 1], 0)
        found = np.where(last > found[1], [np.full_like(last, ends[start]), last], found)
    return found


def sequences(
    ends: IntArray, plan: Plan, target: float, delta: float
) -> list[tuple[int, IntArray]]:
    """Return the sequences of tests: where each starts, and how many mistakes it allows."""
    found: list[tuple[int, IntArray]] = []

    def left(at: float) -> float:
        """Return what the sequences so far leave of delta at a target."""
        return delta - sum(
            float(special.bdtr(allowed[start:].astype(float), ends[start:], 1 - at).max())
            for start, allowed in found
        )

    for lowest, c in plan:
        at = max(target, lowest)
        if (rest := left(at)) > 0:
            allowed = allowed_mistakes(ends, at, rest)
            start = int(np.searchsorted(allowed, c))
            if start < ends.size:
                # Ties may allow more, but a lower target that starts earlier must pass here too.
                if start > np.searchsorted(allowed_mistakes(ends, lowest, left(lowest)), c):
                    allowed[start] = c
                found.append((start, allowed))
        if target >= lowest:
            break
    return found


def make_plan(
    chance: FloatArray, ends: IntArray, delta: float, *, most: tuple[float, float] | None = None
) -> Plan:
    """Choose c for every target by probabilities alone; ``most`` limits all mistakes together."""
    return _planned(chance.astype(np.float64).tobytes(), ends.tobytes(), delta, most)


@lru_cache(maxsize=64)  # the same for every target that is asked for
def _planned(
    chance: bytes, all_ends: bytes, delta: float, most: tuple[float, float] | None
) -> Plan:
    every = np.frombuffer(all_ends, dtype=np.int64)
    ends = every[ranks_up_to(every.size, COARSE) - 1]
    mistakes = simulated_mistakes(np.frombuffer(chance), ends, WORLDS)
    limit = np.full(len(mistakes), ends[-1])
    if most is not None:
        may = allowed_mistakes(mistakes[:, -1], *most)
        limit = ends[np.maximum((mistakes <= may[:, None]).sum(axis=1) - 1, 0)]
    # Where a sequence starts with a tie, it may allow more than c mistakes there.
    has_ties = every.size < ranks_up_to(int(every[-1]), COARSE).size
    starts: dict[float, IntArray] = {0.0: np.searchsorted(ends - 1, FIRST_MISTAKES)}  # by target
    cut, free = np.empty((2, TARGETS.size, FIRST_MISTAKES.size))
    for row, target in enumerate(TARGETS.tolist()):
        starts[target], *both = _gains(ends, mistakes, limit, target, delta)
        cut[row], free[row] = both if has_ties else both[:1] * 2
    # c never rises with the target; the best plan changes it, or the start, where that pays.
    best: list[tuple[float, Plan]] = [(0.0, ((0.0, c),)) for c in FIRST_MISTAKES.tolist()]
    for row, target in enumerate(TARGETS.tolist()):
        for i, c in enumerate(FIRST_MISTAKES.tolist()):  # those of larger c are still to come
            total, plan = best[i]
            same = starts[target][i] == starts[plan[0][0]][i]
            options = [(total + (free if same else cut)[row, i], plan)]
            for total, plan in best[i if has_ties else i + 1 :] if row else ():
                options.append((total - CHANGE + free[row, i], ((target, c), *plan)))
            best[i] = max(options, key=itemgetter(0))
    return max(best, key=itemgetter(0))[1]


def _gains(
    ends: IntArray, mistakes: IntArray, limit: IntArray, target: float, delta: float
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return where each c starts, and what it decides as a share of what the best does.

    The share is given twice: if no more than c mistakes may be made at the start, and if as many as
    the test allows there.
    """
    allowed = allowed_mistakes(ends, target, delta)
    passes = (mistakes <= allowed) & (ends <= limit[:, None])
    fails = np.where(passes, ends.size, np.arange(ends.size))
    first_failure = np.minimum.accumulate(fails[:, ::-1], axis=1)[:, ::-1]
    start = np.minimum(np.searchsorted(allowed, FIRST_MISTAKES), ends.size - 1)
    few = mistakes[:, start] <= FIRST_MISTAKES
    last = np.where(passes[:, start], ends[first_failure[:, start] - 1], 0)
    last[:, allowed[-1] < FIRST_MISTAKES] = 0
    cut, free = (last * few).mean(axis=0), last.mean(axis=0)
    return start, cut / max(cut.max(), SURE), free / max(free.max(), SURE)


def simulated_mistakes(chance: FloatArray, ends: IntArray, worlds: Worlds) -> IntArray:
    """Return the mistakes up to each rank in drawn worlds, (n_worlds, m)."""
    (slope, shift), generator = worlds, np.random.default_rng(0)
    place = ends * (chance.size / ends[-1])
    upto = np.interp(place, np.arange(chance.size + 1), np.append(0.0, np.cumsum(chance)))
    mean = np.diff(upto, prepend=0.0) / np.diff(place, prepend=0.0)
    odds = special.logit(np.clip(mean, SURE, 1 - SURE))
    stretch = np.exp(slope * generator.standard_normal((N_WORLDS, 1)))
    q = special.expit(stretch * odds + shift * generator.standard_normal((N_WORLDS, 1)))
    return np.cumsum(generator.binomial(np.diff(ends, prepend=0), 1 - q), axis=1)


def chance_to_certify(
    chance: FloatArray, n: int, target: float, delta: float, worlds: Worlds = WORLDS
) -> float:
    """Return in which share of the worlds n nodes certify the target."""
    ends = ranks_up_to(n, COARSE)
    drawn = RankedNodes(ends, simulated_mistakes(chance, ends, worlds))
    _, last = certified_ranks(drawn, make_plan(chance, ends, delta), target, delta)
    return float((last > 0).mean())


def best_target(ranked: RankedNodes, plan: Plan, below: float, delta: float) -> float:
    """Return the highest certified target below this one, in whole steps; 0 if none is."""
    low, high = 0, ceil(below / STEP - ROUNDING)
    while high - low > 1:  # nested: what is certified at low is certified below it
        middle = (low + high) // 2
        _, last = certified_ranks(ranked, plan, middle * STEP, delta)
        low, high = (middle, high) if last > 0 else (low, middle)
    return round(low * STEP, 3)


def labels_for_precision(chance: FloatArray, n: int, target: float, delta: float) -> int | None:
    """Return how many labels certify the target with a good chance if the probabilities hold."""
    if (np.cumsum(chance) / np.arange(1, chance.size + 1)).max() <= target:
        return None

    def is_enough(n: int) -> bool:
        return chance_to_certify(chance, n, target, delta, AS_STATED) >= GOOD_CHANCE

    low, high = n, 2 * n
    while not is_enough(high):
        low, high = high, 2 * high
        if low > MOST_LABELS:
            return None
    while high - low > max(1, 0.05 * low):
        middle = round((low * high) ** 0.5)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return two_digits(high)


def labels_for_share(rate: float, target: float, delta: float) -> int:
    """Return how many labels hold enough nodes of a class with a good chance."""
    fewest = fewest_nodes(target, delta)
    n = fewest / rate
    while special.bdtr(fewest - 1, ceil(n), rate) > 1 - GOOD_CHANCE:
        n *= 1.02
    return two_digits(n)


def allowed_mistakes(ranks: IntArray, target: float, delta: float) -> IntArray:
    """Return max{c : P(Bin(r, 1 - target) <= c) <= delta} for each r; -1 where there is none."""
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


def ranks_up_to(n: int, fineness: tuple[int, float]) -> IntArray:
    """Return 1, 2, ... up to a number, and then steps of a ratio up to n."""
    every, ratio = fineness
    if n <= every:
        return np.arange(1, n + 1)
    steps = np.geomspace(every, n, ceil(log(n / every) / log1p(ratio)) + 1)
    return np.unique(np.append(np.arange(1, every), steps.round().astype(np.int64)))
