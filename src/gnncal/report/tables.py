"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gnncal.evaluation import Comparison, Difference, Evaluation


@dataclass(frozen=True)
class Row:
    """One method's line: cells as text, and the number that decides what is best."""

    name: str
    cells: tuple[str, ...]
    scores: tuple[float | None, ...]  # lower is better; None takes no part


def best_marked(title: str, columns: Sequence[str], rows: Sequence[Row]) -> Table:
    """A table with the lowest score of each column marked by a star."""
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
    """An empty table in the house style."""
    return Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def _marked(cell: str, score: float | None, lowest: float | None) -> Text:
    if lowest is None:
        return Text(cell)
    return Text(f"{cell}*", "bold green") if score == lowest else Text(f"{cell} ")


def ece_text(evaluation: Evaluation) -> str:
    """ECE in percent with its interval."""
    return f"{100 * evaluation.ece.value:.2f} {interval_text(evaluation)}"


def interval_text(evaluation: Evaluation) -> str:
    """The interval of the ECE in percent."""
    return f"[{100 * evaluation.ece.low:.1f}, {100 * evaluation.ece.high:.1f}]"


def difference_text(difference: Difference) -> str:
    """A paired difference with its interval."""
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def evaluation_table(before: Evaluation, after: Evaluation | None) -> Table:
    """Every metric, before and after calibration."""
    table = plain_table(f"{before.n_nodes:,} test nodes")
    table.add_column("metric")
    sides = [before] if after is None else [before, after]
    for name in ("before", "after")[: len(sides)]:
        table.add_column(name, justify="right")
    lines = {
        "accuracy %": [f"{100 * e.accuracy:.2f}" for e in sides],
        "ECE % [95 % interval]": [ece_text(e) for e in sides],
        "  if perfectly calibrated": [f"{100 * e.ece.floor:.2f}" for e in sides],
        "  p-value of that": [f"{e.ece.p_value:.3f}" for e in sides],
        "maximum calibration error %": [f"{100 * e.maximum_calibration_error:.2f}" for e in sides],
        "class-wise ECE %": [f"{100 * e.classwise_calibration_error:.2f}" for e in sides],
        "smooth ECE %": [f"{100 * e.smooth_calibration_error:.2f}" for e in sides],
        "degree-stratified ECE %": [
            "-" if e.degree_stratified_ece is None else f"{100 * e.degree_stratified_ece:.2f}"
            for e in sides
        ],
        "NLL": [f"{e.nll:.4f}" for e in sides],
        "Brier score": [f"{e.brier:.4f}" for e in sides],
        "AURC %": [f"{100 * e.aurc:.2f}" for e in sides],
    }
    for name, cells in lines.items():
        table.add_row(name, *cells)
    return table


def comparison_lines(comparison: Comparison) -> list[str]:
    """What changed, with paired 95 % intervals."""
    return [
        f"NLL after - before:   {difference_text(comparison.nll)} (paired, 95 %)",
        f"Brier after - before: {difference_text(comparison.brier)} (paired, 95 %)",
        f"predictions changed:  {100 * comparison.prediction_change_rate:.2f} %",
    ]
