"""What a watch holds against the labels: each claim, and what they say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, nan
from typing import Any, NamedTuple

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.tables import Cell, Table, Tabular, number_cell, text_cell, value_cell
from gnncal.shift.betting import START, Evidence

MOST_BLOCKS = 256  # kept in a state; older ones are joined in pairs, so it stays small
STILL = 2.0  # standard errors by which labels disagree that still disagree after an alarm
COLUMNS = 5  # of a block: labels, sum predicted, number observed, sum of variances, ln evidence
LARGEST_LOG = 700.0  # beyond, exp overflows


class Change(NamedTuple):
    """The number of labels before a claim seems to have failed, and the two shares since."""

    before: int
    predicted: float
    observed: float


class Claim:
    """Labels of one claim, taken in as they come."""

    def __init__(
        self,
        name: str,
        tolerance: float,
        guaranteed: float | None,
        rate: tuple[float, float] | None = None,
    ) -> None:
        self.name, self.guaranteed = name, guaranteed  # a share; None: probabilities are claimed
        self.evidence = Evidence(tolerance=tolerance, rate=rate, only_below=guaranteed is not None)
        self.n_labels = 0
        self.alarm_at: int | None = None  # number of labels when it exceeded the limit
        self.change: Change | None = None  # what the labels until then say
        self.blocks: FloatArray = np.empty((0, COLUMNS))

    def add(self, predicted: FloatArray, observed: BoolArray, *, limit: float) -> None:
        """Take in labels (n,) in the order of their arrival; ``limit`` is that of ln evidence."""
        if not predicted.size:
            return
        logs = self.evidence.add(predicted[None], observed[None])[0]
        over = np.flatnonzero(logs >= limit)
        if over.size and self.alarm_at is None:
            n = int(over[0]) + 1  # what comes later must not change what the alarm was about
            self._take(predicted[:n], observed[:n], logs[:n])
            self.alarm_at, self.change = self.n_labels, self._at_alarm(self.n_labels)
            predicted, observed, logs = predicted[n:], observed[n:], logs[n:]
        if predicted.size:
            self._take(predicted, observed, logs)

    def _take(self, predicted: FloatArray, observed: BoolArray, logs: FloatArray) -> None:
        """Add labels (n,) and ln evidence after each to the blocks."""
        in_last = self.n_labels % START  # labels of a block that is not full
        block = (in_last + np.arange(predicted.size)) // START
        sums = (None, predicted, observed, predicted * (1.0 - predicted))
        ends = logs[np.append(np.flatnonzero(np.diff(block)), -1)]
        new = np.column_stack([*(np.bincount(block, values) for values in sums), ends])
        if in_last:
            new[0, :-1] += self.blocks[-1, :-1]
        self.blocks = np.concatenate([self.blocks[:-1] if in_last else self.blocks, new])
        self.n_labels += predicted.size
        while len(self.blocks) > MOST_BLOCKS:
            self.blocks = _joined(self.blocks)

    def change_point(self) -> tuple[Change, bool]:
        """Return where the labels changed, not after the alarm, and whether they still say so."""
        assert self.alarm_at is not None
        assert self.change is not None
        is_above = self.change.predicted > self.change.observed
        found, size = _strongest(self.blocks, self.alarm_at, 1.0 if is_above else -1.0)
        return (found, True) if size >= STILL else (self.change, False)

    def _at_alarm(self, until: int) -> Change:
        """Return the change that the labels until the alarm show."""
        n_blocks = int(np.searchsorted(np.cumsum(self.blocks[:, 0]), until)) + 1
        sign = 0.0 if self.guaranteed is None else 1.0
        return _strongest(self.blocks[:n_blocks], until, sign)[0]

    def to_plain(self) -> dict[str, Any]:
        """Return what a file keeps."""
        return {
            "n_labels": self.n_labels,
            "alarm_at": self.alarm_at,
            "change": self.change,
            "log_wealth": self.evidence.log_wealth[0].tolist() if self.n_labels else [],
            "blocks": self.blocks.tolist(),
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Take over what a file kept."""
        self.n_labels = self.evidence.n_labels = plain["n_labels"]
        self.alarm_at = plain["alarm_at"]
        if self.n_labels:
            self.blocks = np.array(plain["blocks"])
            self.evidence.log_wealth = np.array([plain["log_wealth"]])
        if self.alarm_at is not None:  # a state of gnncal 0.1.0 does not say what changed
            found = plain.get("change")
            self.change = self._at_alarm(self.alarm_at) if found is None else Change(*found)

    def report(self, limit: float, positive: str | None) -> ClaimReport:
        """Return what the labels say; ``positive`` is the name of the positive class."""
        n, alarm_at = self.n_labels, self.alarm_at
        predicted, observed = (float(self.blocks[:, i].sum()) / n if n else nan for i in (1, 2))
        evidence = exp(min(self.blocks[-1, -1], LARGEST_LOG)) if n else 1.0
        sentence = self._sentence(predicted, observed, positive)
        return ClaimReport(self.name, n, predicted, observed, evidence, limit, alarm_at, sentence)

    def _sentence(self, predicted: float, observed: float, positive: str | None) -> str:
        subject = {
            "confidence": "confidence",
            "positive": f"the probability of {positive}",
            "decide": "the accuracy of automatic decisions",
            "act": f"the share of {positive} among the nodes acted on",
            "clear": f"the share without {positive} among the nodes cleared",
        }[self.name]
        begun = subject[:1].upper() + subject[1:]
        if not self.n_labels:
            return f"No labels for {subject} yet."
        if self.alarm_at is None:
            shares = "{} predicted, {} observed".format(*_shares(predicted, observed))
            return f"{begun}: {shares}, {self.n_labels:,} labels."
        (before, predicted, observed), is_now = self.change_point()
        since = f"about label {before + 1:,}" if before else "the first label"
        is_, period = "is", f"since {since}"
        found = f" The alarm was raised at label {self.alarm_at:,}."
        if not is_now:  # the labels since the alarm agree again
            is_, period, found = "was", f"from {since} to the alarm at label {self.alarm_at:,}", ""
        mean, seen = _shares(predicted, observed, differ=True)
        if self.guaranteed is not None:
            target = f"below the guarantee of {self.guaranteed:.2f}"
            return f"{begun} {is_} too low: {seen} {period}, {target}.{found}"
        direction = "too high" if predicted > observed else "too low"
        share = "the accuracy" if self.name == "confidence" else f"the share of {positive}"
        gap = f"{period} its mean {is_} {mean}, and {share} {is_} {seen}"
        return f"{begun} {is_} {direction}: {gap}.{found}"


def _strongest(blocks: FloatArray, latest: int, sign: float) -> tuple[Change, float]:
    """Return the labels until the end that disagree most, begun before ``latest``, and how much.

    ``sign`` is 1 where predictions are too high, -1 where they are too low, and 0 for either.
    """
    begun = np.cumsum(blocks[:, 0]) - blocks[:, 0]
    sums = np.cumsum(blocks[::-1], axis=0)[::-1]
    gap = sums[:, 1] - sums[:, 2]
    size = np.where(sign, sign * gap, np.abs(gap)) / np.sqrt(np.maximum(sums[:, 3], 1e-9))
    size[begun >= latest] = -np.inf
    i = int(size.argmax())
    n, predicted, observed = sums[i, :3].tolist()
    return Change(int(begun[i]), predicted / n, observed / n), float(size[i])


def _shares(predicted: float, observed: float, *, differ: bool = False) -> list[str]:
    """Return two shares with two decimals, or up to four where they are small or must differ."""
    for digits in (2, 3, 4):
        texts = [f"{share:.{digits}f}" for share in (predicted, observed)]
        is_small = 0.0 < min(predicted, observed) < 10.0 ** (1 - digits)
        if not is_small and not (differ and texts[0] == texts[1]):
            break
    return texts


def _joined(blocks: FloatArray) -> FloatArray:
    """Join neighbouring blocks in pairs, the last two left as they are."""
    older = blocks[:-2]
    first = np.arange(0, len(older), 2)
    pairs = np.add.reduceat(older, first)
    pairs[:, -1] = older[np.minimum(first + 1, len(older) - 1), -1]
    return np.concatenate([pairs, blocks[-2:]])


@dataclass(frozen=True)
class ClaimReport:
    """Result of a watch for one claim."""

    name: str
    n_labels: int
    predicted: float
    observed: float
    evidence: float
    limit: float
    alarm_at: int | None
    sentence: str


@dataclass(frozen=True, repr=False)
class WatchReport(Tabular):
    """Result of a watch on all labels so far; it prints as a table.

    Attributes
    ----------
    is_alarm : bool
        Whether the labels contradict a claim.
    sentence : str
        The result in words, and what to do.
    false_alarms : float
        Maximum probability of ever raising an alarm while all claims hold.
    claims : tuple of ClaimReport
        The result for each claim.

    """

    is_alarm: bool
    sentence: str
    false_alarms: float
    claims: tuple[ClaimReport, ...]

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{super().__repr__()}"

    def _tables(self) -> Sequence[Table]:
        columns = ("claim", "labels", "predicted", "observed", "evidence", "alarm from", "alarm at")
        rows = [
            [
                text_cell(claim.name),
                value_cell(claim.n_labels),
                number_cell(claim.predicted, 3),
                number_cell(claim.observed, 3),
                Cell(claim.evidence, f"{claim.evidence:,.3g}"),
                Cell(claim.limit, f"{claim.limit:,.3g}"),
                Cell(claim.alarm_at, "" if claim.alarm_at is None else f"label {claim.alarm_at:,}"),
            ]
            for claim in self.claims
        ]
        return [Table("", columns, rows)]
