"""What a watch holds against the labels: each claim, and what they say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, nan
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.tables import Cell, Table, Tabular, number_cell, text_cell, value_cell
from gnncal.shift.betting import START, Evidence

MOST_BLOCKS = 256  # kept in a state; older ones are joined in pairs, so it stays small
COLUMNS = 5  # of a block: labels, sum predicted, number observed, sum of variances, ln evidence
LARGEST_LOG = 700.0  # beyond, exp overflows


class Claim:
    """Labels of one claim, taken in as they come."""

    def __init__(self, name: str, tolerance: float, guaranteed: float | None) -> None:
        self.name, self.guaranteed = name, guaranteed  # a share; None: probabilities are claimed
        self.evidence = Evidence(tolerance=tolerance, only_below=guaranteed is not None)
        self.n_labels = 0
        self.alarm_at: int | None = None  # number of labels when it exceeded the limit
        self.blocks: FloatArray = np.empty((0, COLUMNS))

    def add(self, predicted: FloatArray, observed: BoolArray, *, limit: float) -> None:
        """Take in labels (n,) in the order of their arrival; ``limit`` is that of ln evidence."""
        if not predicted.size:
            return
        logs = self.evidence.add(predicted[None], observed[None])[0]
        over = np.flatnonzero(logs >= limit)
        if over.size and self.alarm_at is None:
            self.alarm_at = self.n_labels + int(over[0]) + 1
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

    def change_point(self) -> tuple[int, float, float]:
        """Return where the labels seem to have changed, and the two shares since."""
        sums = np.cumsum(self.blocks[::-1], axis=0)
        size = np.abs(sums[:, 1] - sums[:, 2]) / np.sqrt(np.maximum(sums[:, 3], 1e-9))
        n, predicted, observed = sums[int(size.argmax()), :3]
        return self.n_labels - int(n), predicted / n, observed / n

    def to_plain(self) -> dict[str, Any]:
        """Return what a file keeps."""
        return {
            "n_labels": self.n_labels,
            "alarm_at": self.alarm_at,
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
            shares = f"{predicted:.2f} predicted, {observed:.2f} observed"
            return f"{begun}: {shares}, {self.n_labels:,} labels."
        before, predicted, observed = self.change_point()
        since = f"since about label {before + 1:,}" if before else "since the first label"
        found = f"The alarm was raised at label {self.alarm_at:,}."
        if self.guaranteed is not None:
            target = f"below the guarantee of {self.guaranteed:.2f}"
            return f"{begun} is too low: {observed:.2f} {since}, {target}. {found}"
        direction = "too high" if predicted > observed else "too low"
        share = "the accuracy" if self.name == "confidence" else f"the share of {positive}"
        gap = f"{since} its mean is {predicted:.2f}, and {share} is {observed:.2f}"
        return f"{begun} is {direction}: {gap}. {found}"


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
