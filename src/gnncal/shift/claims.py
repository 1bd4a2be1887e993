"""A claim that is watched: its evidence, and what its labels were."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf, log
from typing import Any, Literal

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray
from gnncal.core.constraints import NONE, number, whole_number
from gnncal.core.errors import InputError
from gnncal.core.learned import Array, check_learned
from gnncal.shift.betting import START, Evidence

ClaimName = Literal["confidence", "positive", "decide", "act", "clear"]
MOST_BLOCKS = 256  # kept in a state; older ones are joined in pairs, so it stays small
COLUMNS = 5  # of a block: labels, sum of stated, number that happened, sum of variances, evidence
BLOCKS = Array(f"n_blocks {COLUMNS}", may_be_empty=True)


@dataclass
class Claim:
    """Labels of one claim, taken in as they come."""

    name: ClaimName
    tolerance: float
    promise: float | None = None  # a share that is promised; None where probabilities are claimed
    evidence: Evidence = field(init=False)
    n_labels: int = 0
    largest: float = 0.0  # ln of the largest evidence so far
    alarm_at: int | None = None  # number of labels when it exceeded the limit
    blocks: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.evidence = Evidence(tolerance=self.tolerance, only_below=self.promise is not None)

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
            "n_labels": whole_number(at_least=0),
            "largest": number(at_least=0),
            "alarm_at": whole_number(at_least=1) | NONE,
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
