"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from gnncal.metrics.evaluation import Difference, Evaluation


@dataclass(frozen=True)
class MethodRow:
    """One method's line: cells as text, and the number that decides what is best."""

    name: str
    cells: tuple[str, ...]
    scores: tuple[float | None, ...]  # lower is better; None takes no part


def best_marked(title: str, columns: Sequence[str], rows: Sequence[MethodRow]) -> Table:
    """Return a table with the lowest score of each column marked by a star."""
    table = plain_table(title)
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    lowest = [
        min((score for row in rows if (score := row.scores[i]) is not None), default=None)
        for i in range(len(columns))
    ]
    for row in rows:
        cells = zip(row.cells, row.scores, lowest, strict=True)
        table.add_row(row.name, *(_marked(*cell) for cell in cells))
    return table


def plain_table(title: str) -> Table:
    """Return an empty table in the house style."""
    return Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def _marked(cell: str, score: float | None, lowest: float | None) -> Text:
    if lowest is None:
        return Text(cell)
    return Text(f"{cell}*", "bold green") if score == lowest else Text(f"{cell} ")


def interval_text(evaluation: Evaluation) -> str:
    """Return the interval of the ECE in percent."""
    return f"[{100 * evaluation.ece.low:.1f}, {100 * evaluation.ece.high:.1f}]"


def difference_text(difference: Difference) -> str:
    """Return a paired difference with its interval."""
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
