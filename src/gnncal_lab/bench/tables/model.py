"""A table of results as data: each entry with its spread, its noise floor, the published value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

NAN = float("nan")
UNRANKED = "uncalibrated"  # takes no part in marks and ranks
N_MARKS = 3
FLOORS = "In brackets: noise floor, the mean ECE of a perfectly calibrated model on the same nodes."
TIES = (
    "Degree-stratified ECE: some records take one order of the nodes of equal degree, that of the "
    "split or that of the node numbers, and not the mean over all orders. Part of a difference "
    "between methods can come from this rule."
)


@dataclass(frozen=True)
class Entry:
    """One number with its context; NaN where there is none."""

    value: float = NAN
    spread: float = NAN
    floor: float = NAN  # what perfect calibration would show
    published: float = NAN  # the paper's value
    published_spread: float = NAN
    mark: int = 0  # 1, 2, 3 for the best three of a row


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    entries: tuple[Entry, ...]
    group: str = ""  # rows of a group stand together under its name
    decimals: int | None = None  # where they differ from the columns'


@dataclass(frozen=True)
class ResultTable:
    """Rows of entries under named columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    decimals: int | tuple[int, ...] = 2  # of every column, or of each
    corner: str = "dataset"  # the heading above the names of the rows
    note: str = ""

    def decimals_of(self, row: Row) -> tuple[int, ...]:
        """Return the number of decimals that each entry of a row is printed with."""
        wanted = self.decimals if row.decimals is None else row.decimals
        return wanted if isinstance(wanted, tuple) else (wanted,) * len(self.columns)


def marked(
    entries: Sequence[Entry], columns: Sequence[str], *, decimals: int = 2, highest: bool = False
) -> tuple[Entry, ...]:
    """Mark the best three values of a row, the lowest or the ``highest``."""
    rounded = [round(entry.value, decimals) for entry in entries]
    ranked = [
        value
        for value, column in zip(rounded, columns, strict=True)
        if column != UNRANKED and not np.isnan(value)
    ]
    if len(set(ranked)) == 1:
        return tuple(entries)
    best = sorted(set(ranked), reverse=highest)[:N_MARKS]
    return tuple(
        replace(entry, mark=best.index(value) + 1)
        if column != UNRANKED and value in best
        else entry
        for entry, value, column in zip(entries, rounded, columns, strict=True)
    )
