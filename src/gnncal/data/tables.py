"""Records that can be shown as text, and as a pandas frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, NamedTuple

from gnncal.data.errors import require

DECIMALS = 4  # of a number, unless told
LISTED = 12  # values that a cell shows of a long list
WIDEST = 56  # characters of a last cell before it is wrapped


class Cell(NamedTuple):
    """One entry of a table: the value as data, and the text that is shown for it."""

    value: Any
    text: str


@dataclass(frozen=True)
class Table:
    """A small table. The first column names the rows; a row of one cell is a heading."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]

    def as_text(self) -> str:
        """Return aligned lines: names to the left, everything else to the right; texts wrapped."""
        rows = [tuple(cell.text for cell in row) for row in self.rows]
        lines = [self.columns, *(line for row in rows for line in _wrapped(row))]
        full = [line for line in lines if len(line) > 1]
        widths = [max(map(len, column)) for column in zip(*full, strict=True)]
        body = [
            "  ".join(
                text.ljust(width) if i == 0 else text.rjust(width)
                for i, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            if len(line) > 1
            else f"\n{line[0]}"
            for line in lines
        ]
        rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
        return "\n".join([*([self.title] if self.title else []), body[0], rule, *body[1:]])

    def to_frame(self) -> Any:
        """Return the values as a pandas DataFrame whose index is the first column."""
        pandas = require("pandas", extra="report", purpose="to_frame()")
        rows = [[cell.value for cell in row] for row in self.rows if len(row) > 1]
        return pandas.DataFrame(rows, columns=list(self.columns)).set_index(self.columns[0])


class Tabular(ABC):
    """Base of records that print as small tables. A subclass says what its tables are."""

    @abstractmethod
    def _tables(self) -> Sequence[Table]:
        """Return the tables to show. The first one is what ``to_frame`` returns."""

    def __repr__(self) -> str:
        return "\n\n".join(table.as_text() for table in self._tables())

    def to_frame(self) -> Any:
        """Return the first table as a pandas DataFrame; values are not rounded or scaled."""
        return self._tables()[0].to_frame()


def _wrapped(row: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the lines of a row whose last cell may be a long text."""
    if len(row) == 1 or len(row[-1]) <= WIDEST:
        return [row]
    lines = [each.ljust(WIDEST) for each in wrap(row[-1], WIDEST)]
    blank = ("",) * (len(row) - 1)
    return [(*(blank if i else row[:-1]), line) for i, line in enumerate(lines)]


def number_cell(value: float, decimals: int) -> Cell:
    """Return a cell that shows a number with so many decimals, and nothing for NaN."""
    return Cell(value, "" if value != value else f"{value:,.{decimals}f}")


def text_cell(value: str, shown: str | None = None) -> Cell:
    """Return a cell of text, shown unchanged or as a more readable text."""
    return Cell(value, value if shown is None else shown)


def value_cell(value: Any) -> Cell:
    """Return a cell that shows a value as its kind asks for; of a long list the first few."""
    if isinstance(value, float):
        return number_cell(value, DECIMALS)
    if isinstance(value, str | bool):
        return Cell(value, str(value))
    if isinstance(value, int):
        return Cell(value, f"{value:,}")
    shown = ", ".join(map(str, value[:LISTED])) or "none"
    return Cell(value, f"{shown}, ..." if len(value) > LISTED else shown)
