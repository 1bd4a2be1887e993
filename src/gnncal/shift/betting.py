r"""Evidence against a claim of calibration that may be looked at after every label.

The claim is that an event has the probability p that was stated for it, within a tolerance. A bet
is another probability q. If the event happens, the wealth of the bet is multiplied by q / p', else
by (1 - q) / (1 - p'), with p' the end of the tolerated interval that is nearer to q. If the claim
holds, no bet gains on average, whatever came before. The evidence is the mean wealth over many
bets, each begun at many times:

.. math:: E_t = \sum_b w_b \sum_j v_j \prod_{i > b}^{t} \frac{q_{ij}(y_i)}{p'_{ij}(y_i)}

By Ville's inequality the chance that E ever exceeds 1 / a is at most a if the claim holds. Bets
that begin late keep the evidence alert after a long time in which all was well; a bet that has not
begun keeps its stake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf, log
from typing import Any, Literal

import numpy as np
from scipy.special import expit, logit

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.constraints import NONE, Array, check_learned, integer, number
from gnncal.data.errors import InputError

GAPS = (0.02, 0.04, 0.07, 0.11, 0.16, 0.24, 0.36)  # bets on p plus or minus so much
LOG_ODDS = (0.3, 0.7, 1.3, 2.0)  # on odds that are so much larger or smaller, as if a rate changed
SLOPES = (0.5, 0.7, 1.4, 2.0)  # on log odds times so much, as if a temperature were wrong
SLOPE_WEIGHT = 0.2  # of all stakes
START = 50  # labels between the times when bets begin
FIRST = 0.5  # share of the stakes that are bet from the first label on
CERTAIN = 1e-3  # nearer to 0 or 1 no probability is taken at its word


class Evidence:
    """Evidence against a claim, for several streams of labels at once."""

    def __init__(self, n_streams: int = 1, *, tolerance: float = 0.0, only_below: bool = False):
        self.tolerance, self.only_below = tolerance, only_below
        self.n_labels = 0
        self.log_stakes = np.log(_stakes(only_below))  # (n_bets,)
        # ln of the wealth of the bets that have begun, (n_streams, n_bets)
        self.log_wealth = np.full((n_streams, self.log_stakes.size), -np.inf)

    def add(self, stated: FloatArray, happened: BoolArray) -> FloatArray:
        """Take some labels in and return ln E after each of them, (n_streams, n)."""
        evidence = np.empty(stated.shape)
        done = 0
        while done < stated.shape[1]:
            if self.n_labels % START == 0:
                begun = np.log(start_prior(self.n_labels // START)) + self.log_stakes
                self.log_wealth = np.logaddexp(self.log_wealth, begun)
            end = min(done + START - self.n_labels % START, stated.shape[1])
            gains = self._log_gains(stated[:, done:end], happened[:, done:end])
            wealth = self.log_wealth[:, None, :] + np.cumsum(gains, axis=1)
            kept = np.log(start_survival(self.n_labels // START))
            evidence[:, done:end] = np.logaddexp(_log_sum(wealth), kept)
            self.log_wealth = wealth[:, -1]
            self.n_labels += end - done
            done = end
        return evidence

    def _log_gains(self, stated: FloatArray, happened: BoolArray) -> FloatArray:
        """Return what each label does to ln wealth of each bet, (n_streams, n, n_bets)."""
        values, places = np.unique(stated, return_inverse=True)  # simulations have few
        both = np.concatenate(self._table(values))  # of events that do not happen, and that do
        return both[places.reshape(stated.shape) + values.size * happened]

    def _table(self, stated: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what happens to ln wealth if an event does not happen, and if it does."""
        q = _bets(stated, self.only_below)
        p = stated[..., None]
        # A wider interval is easier to hold to, so the claim is not made stronger than it is.
        low = np.minimum(p - self.tolerance, 1.0 - CERTAIN)
        high = np.maximum(p + self.tolerance, CERTAIN)
        q = np.clip(q, CERTAIN / 2, 1.0 - CERTAIN / 2)
        nearer = np.clip(q, low, high)  # q itself where it is tolerated: nothing is bet
        return np.log((1.0 - q) / (1.0 - nearer)), np.log(q / nearer)


def start_prior(start: int) -> float:
    """Return the share of the stakes whose bets begin at a start; 0 is the first label."""
    return FIRST if start == 0 else (1.0 - FIRST) / (start * (start + 1))


def start_survival(start: int) -> float:
    """Return the share of the stakes whose bets begin after a start."""
    return (1.0 - FIRST) / (start + 1)


def _log_sum(logs: FloatArray) -> FloatArray:
    """ln of the sum over the last axis of exp."""
    largest = logs.max(axis=-1)
    return largest + np.log(np.exp(logs - largest[..., None]).sum(axis=-1))


def _bets(stated: FloatArray, only_below: bool) -> FloatArray:
    """Return the probabilities (..., n_bets) that are bet on, in the order of :func:`_stakes`."""
    p = stated[..., None]
    if only_below:
        return p - np.array(GAPS)
    gaps, odds = (np.array([*values, *(-v for v in values)]) for values in (GAPS, LOG_ODDS))
    z = logit(np.clip(p, CERTAIN / 2, 1.0 - CERTAIN / 2))
    return np.concatenate([p + gaps, expit(z + odds), expit(z * np.array(SLOPES))], axis=-1)


def _stakes(only_below: bool) -> FloatArray:
    if only_below:
        return np.full(len(GAPS), 1.0 / len(GAPS))
    n_moves, n_slopes = 2 * (len(GAPS) + len(LOG_ODDS)), len(SLOPES)
    moves = np.full(n_moves, (1.0 - SLOPE_WEIGHT) / n_moves)
    return np.concatenate([moves, np.full(n_slopes, SLOPE_WEIGHT / n_slopes)])


ClaimName = Literal["confidence", "positive", "decide", "act", "clear"]
MOST_BLOCKS = 256  # kept in a state; older ones are joined in pairs, so it stays small
COLUMNS = 5  # of a block: labels, sum of stated, number that happened, sum of variances, evidence
BLOCKS = Array(f"n_blocks {COLUMNS}", may_be_empty=True)


@dataclass
class Claim:
    """Labels of one claim, taken in as they come."""

    name: ClaimName
    tolerance: float
    guaranteed: float | None = None  # a share; None where probabilities are claimed
    evidence: Evidence = field(init=False)
    n_labels: int = 0
    largest: float = 0.0  # ln of the largest evidence so far
    alarm_at: int | None = None  # number of labels when it exceeded the limit
    blocks: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.evidence = Evidence(tolerance=self.tolerance, only_below=self.guaranteed is not None)

    def add(self, stated: FloatArray, happened: BoolArray, *, limit: float) -> None:
        """Take in labels (n,) in the order of their arrival; ``limit`` is that of ln evidence."""
        if not stated.size:
            return
        logs = self.evidence.add(stated[None], happened[None])[0]
        self.largest = max(self.largest, float(logs.max()))
        over = np.flatnonzero(logs >= limit)
        if over.size and self.alarm_at is None:
            self.alarm_at = self.n_labels + int(over[0]) + 1
        done = 0
        while done < stated.size:
            end = min(done + START - self.n_labels % START, stated.size)
            part = slice(done, end)
            if self.n_labels % START == 0:
                self.blocks.append([0.0] * COLUMNS)
            self._extend(self.blocks[-1], stated[part], happened[part], float(logs[end - 1]))
            self.n_labels += end - done
            done = end
        while len(self.blocks) > MOST_BLOCKS:
            self.blocks = _joined(self.blocks)

    @staticmethod
    def _extend(
        block: list[float], stated: FloatArray, happened: BoolArray, evidence: float
    ) -> None:
        block[0] += stated.size
        block[1] += float(stated.sum())
        block[2] += float(happened.sum())
        block[3] += float((stated * (1.0 - stated)).sum())
        block[4] = evidence

    @property
    def stated(self) -> float:
        """Mean probability that was stated; NaN without labels."""
        return self._mean(1)

    @property
    def happened(self) -> float:
        """Share of the labels that were as stated; NaN without labels."""
        return self._mean(2)

    def _mean(self, column: int) -> float:
        return (
            sum(b[column] for b in self.blocks) / self.n_labels if self.n_labels else float("nan")
        )

    @property
    def latest(self) -> float:
        """Evidence now; 1 at the beginning."""
        return exp(min(self.blocks[-1][4], 700.0)) if self.blocks else 1.0

    def since(self) -> tuple[int, float, float]:
        """Return where the labels seem to have changed, and means of stated and happened since."""
        sums = np.cumsum(np.array(self.blocks)[::-1], axis=0)
        size = np.abs(sums[:, 1] - sums[:, 2]) / np.sqrt(np.maximum(sums[:, 3], 1e-9))
        n, stated, happened = sums[int(size.argmax()), :3]
        return self.n_labels - int(n), stated / n, happened / n

    def to_plain(self) -> dict[str, Any]:
        """Return what a file keeps."""
        return {
            "n_labels": self.n_labels,
            "largest": self.largest,
            "alarm_at": self.alarm_at,
            "log_wealth": self.evidence.log_wealth[0].tolist() if self.n_labels else [],
            "blocks": self.blocks,
        }

    def restore(self, plain: Any) -> None:
        """Take over what a file kept; every value is checked."""
        if not isinstance(plain, dict):
            raise InputError(f"the claim {self.name} is damaged.")
        n_bets = self.evidence.log_wealth.shape[1]
        values = {
            **plain,
            "log_wealth": np.array(plain.get("log_wealth"), dtype=np.float64),
            "blocks": np.array(plain.get("blocks") or np.empty((0, COLUMNS)), dtype=np.float64),
        }
        n_labels = plain.get("n_labels")
        table = {
            "n_labels": integer(at_least=0),
            "largest": number(at_least=0),
            "alarm_at": integer(at_least=1) | NONE,
            "log_wealth": Array(str(n_bets) if n_labels else "0"),
            "blocks": BLOCKS,
        }
        check_learned(table, values, {}, where=f"the claim {self.name}")
        if values["blocks"][:, 0].sum() != n_labels or (plain["alarm_at"] or 0) > plain["n_labels"]:
            raise InputError(f"the claim {self.name} counts its labels in two ways.")
        self.n_labels, self.largest = plain["n_labels"], float(plain["largest"])
        self.alarm_at = plain["alarm_at"]
        self.blocks = values["blocks"].tolist()
        self.evidence.n_labels = self.n_labels
        if self.n_labels:
            self.evidence.log_wealth = values["log_wealth"][None]


def log_limit(false_alarms: float, n_claims: int) -> float:
    """Return ln of the evidence that raises an alarm; the rate is shared among the claims."""
    return log(n_claims / false_alarms) if false_alarms > 0 else inf


def _joined(blocks: list[list[float]]) -> list[list[float]]:
    """Join neighbouring blocks in pairs, the last two left as they are."""
    older, last = blocks[:-2], blocks[-2:]
    pairs = [older[i : i + 2] for i in range(0, len(older), 2)]
    return [
        [sum(b[i] for b in pair) for i in range(COLUMNS - 1)] + [pair[-1][-1]] for pair in pairs
    ] + last


N_SIMULATED = 200
MOST_LABELS = 20_000  # a simulation ends there


@dataclass(frozen=True)
class Plan:
    """How many labels find a gap."""

    gap: float
    half: int | None
    most: int | None

    @property
    def sentence(self) -> str:
        """The same in words."""
        points = f"{100 * self.gap:g} {'point' if self.gap == 0.01 else 'points'}"
        if self.half is None:
            return f"A gap of {points} takes more than {MOST_LABELS:,} labels to find."
        most = f"more than {MOST_LABELS:,}" if self.most is None else f"{self.most:,}"
        return (
            f"A gap of {points} is found with {self.half:,} labels in half of the cases, and with "
            f"{most} in nine of ten."
        )


def plan_of(gap: float, confidence: FloatArray, log_limit: float, tolerance: float) -> Plan:
    """Simulate watches on nodes with these confidences, all right less often by the gap."""
    n_labels = np.sort(labels_needed(gap, confidence, log_limit, tolerance, N_SIMULATED))
    half, most = (n_labels[round(share * N_SIMULATED) - 1] for share in (0.5, 0.9))
    return Plan(gap, *(None if np.isinf(n) else int(n) for n in (half, most)))


def labels_needed(
    gap: float,
    confidence: FloatArray,
    log_limit: float,
    tolerance: float,
    n_streams: int,
    *,
    well_until: int = 0,
    most: int = MOST_LABELS,
    enough: float = 0.9,
) -> FloatArray:
    """Return the number of labels at the alarm of each stream; infinite without one."""
    generator = np.random.default_rng(0)
    evidence = Evidence(n_streams, tolerance=tolerance)
    n_labels = np.full(n_streams, np.inf)
    for before in range(0, most, START):
        stated = generator.choice(confidence, size=(n_streams, START))
        is_well = before + np.arange(START) < well_until
        truth = np.clip(stated - np.where(is_well, 0.0, gap), 0.0, 1.0)
        over = evidence.add(stated, generator.random(stated.shape) < truth) >= log_limit
        first = np.where(over.any(axis=1), before + 1.0 + over.argmax(axis=1), np.inf)
        n_labels = np.minimum(n_labels, first)
        if np.isfinite(n_labels).mean() >= enough:
            break
    return n_labels
