"""Tables of a benchmark as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from gnncal.files.output import result_folder
from gnncal_lab.bench.tables.model import Entry, ResultTable, Row

MARKS_NOTE = "Marks: ***best***, **second** and _third_ value of a row."
LATEX_NOTE = "Needs booktabs and xcolor. Marks: best value red, second bold, third underlined."


INTRODUCTION = """The tables compare calibrators on trained networks (backbones). Lower ECE and
NLL are better. A row named *paper* has the published values of the row above. The protocol *paper*
fits calibrators with the paper's early stopping, the protocol *converged* to convergence.
"""


class _Style(NamedTuple):
    """How an entry is written."""

    marks: tuple[str, str, str, str]  # of entries without one, and of the best three
    plus_minus: str
    absent: str
    number: Callable[[str], str]


def _latex_number(text: str) -> str:
    """1.9e-06 as a power of ten, and a minus that is not a hyphen."""
    mantissa, _, exponent = text.partition("e")
    if exponent:
        return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$"
    return f"${text}$" if text.startswith("-") else text


MARKDOWN = _Style(("{}", "***{}***", "**{}**", "_{}_"), "±", "–", str)
LATEX = _Style(
    ("{}", r"\textcolor{{red}}{{{}}}", r"\textbf{{{}}}", r"\underline{{{}}}"),
    r"$\pm$",
    "--",
    _latex_number,
)
TABLES = (  # the names that tables can have, as patterns
    *("overview", "main_ece", "nll_and_degree_ece", "cross_backbone", "selective", "ablation"),
    *("prediction_changes", "reproduction", "treatments", "structure*", "perturbation*"),
    *("by_dataset_*", "per_backbone_*", "against_*", "ranks_*", "protocols_*"),
)
ENDS = [f"{p}.{end}" for p in ("", "-paper", "-converged") for end in ("md", "csv", "tex")]
FILES = ("README.md", *(f"{name}{end}" for name in TABLES for end in ENDS))
CSV_COLUMNS = (
    "group",
    "row",
    "column",
    "value",
    "spread",
    "floor",
    "paper",
    "paper_spread",
    "mark",
)


def write_tables(tables: Sequence[tuple[str | None, ResultTable]], folder: Path) -> list[str]:
    """Write each table, of a protocol or of both, in all forms and one page with all of them."""
    with result_folder(folder, "bench tables", earlier=FILES) as staging:
        (staging / "README.md").write_bytes(to_page(tables).encode())
        files = ["README.md"]
        for protocol, table in tables:
            files += _write_table(table, staging, _file_name(protocol, table))
    return files


def to_page(tables: Sequence[tuple[str | None, ResultTable]]) -> str:
    """A list of the tables with links, then the tables, protocol by protocol."""
    contents, chapters = [], []
    for protocol in dict.fromkeys(protocol for protocol, _ in tables):
        heading = f"Protocol: {protocol or 'both'}"
        contents.append(f"**{heading}**\n")
        chapters.append(f"## {heading}\n")
        for table in [table for p, table in tables if p == protocol]:
            name = _file_name(protocol, table)
            contents.append(f"- [{table.title}](#{name})")
            chapters.append(f'<a id="{name}"></a>\n\n{to_markdown(table)}')
        contents.append("")
    return "\n".join(["# Tables of a benchmark\n", INTRODUCTION, *contents, *chapters])


def _file_name(protocol: str | None, table: ResultTable) -> str:
    return f"{table.name}-{protocol}" if protocol else table.name


def _write_table(table: ResultTable, folder: Path, stem: str) -> list[str]:
    forms: dict[str, Callable[[ResultTable], str]] = {
        "md": to_markdown,
        "csv": to_csv,
        "tex": to_latex,
    }
    names = []
    for extension, form in forms.items():
        name = f"{stem}.{extension}"
        (folder / name).write_bytes(form(table).encode())
        names.append(name)
    return names


def to_markdown(table: ResultTable) -> str:
    """A heading, the table with the paper's values in lines of their own, and notes."""
    lines = [
        f"### {table.title}",
        "",
        _markdown_line([table.corner, *table.columns]),
        "|---" + "|---:" * len(table.columns) + "|",
    ]
    for group, rows in groupby(table.rows, key=lambda row: row.group):
        if group:
            lines.append(_markdown_line([f"*{group}*", *[""] * len(table.columns)]))
        for row in rows:
            shown = list(zip(row.entries, table.decimals_of(row), strict=True))
            ours = [_ours(entry, places, MARKDOWN) for entry, places in shown]
            lines.append(_markdown_line([row.name, *ours]))
            if _has_published(row):
                theirs = [_theirs(entry, places, MARKDOWN) for entry, places in shown]
                lines.append(_markdown_line(["paper", *theirs]))
    marked = any(entry.mark for row in table.rows for entry in row.entries)
    notes = [note for note in (MARKS_NOTE if marked else "", table.note) if note]
    return "\n".join([*lines, "", *([" ".join(notes), ""] if notes else [])])


def to_csv(table: ResultTable) -> str:
    """One line for each entry, numbers in full."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in table.rows:
        for column, entry in zip(table.columns, row.entries, strict=True):
            numbers = (
                entry.value,
                entry.spread,
                entry.floor,
                entry.published,
                entry.published_spread,
            )
            texts = ["" if math.isnan(number) else repr(float(number)) for number in numbers]
            writer.writerow([row.group, row.name, column, *texts, entry.mark or ""])
    return sink.getvalue()


def to_latex(table: ResultTable) -> str:
    """A tabular for booktabs and xcolor, the paper's values in grey lines, notes as comments."""
    heading = " & ".join(_latex_text(name) for name in (table.corner, *table.columns))
    lines = [
        *(f"% {text}" for text in (table.title, table.note, LATEX_NOTE) if text),
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        rf"{heading} \\",
    ]
    for group, rows in groupby(table.rows, key=lambda row: row.group):
        lines.append(r"\midrule")
        if group:
            span = len(table.columns) + 1
            lines.append(rf"\multicolumn{{{span}}}{{l}}{{\textit{{{_latex_text(group)}}}}} \\")
        for row in rows:
            shown = list(zip(row.entries, table.decimals_of(row), strict=True))
            ours = [_ours(entry, places, LATEX) for entry, places in shown]
            lines.append(" & ".join([_latex_text(row.name), *ours]) + r" \\")
            if _has_published(row):
                theirs = [_theirs(entry, places, LATEX) for entry, places in shown]
                grey = [rf"\textcolor{{gray}}{{{text}}}" for text in ["paper", *theirs]]
                lines.append(" & ".join(grey) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _ours(entry: Entry, decimals: int, style: _Style) -> str:
    if math.isnan(entry.value):
        return style.absent
    text = style.marks[entry.mark].format(style.number(_number(entry.value, decimals)))
    if not math.isnan(entry.spread):
        text += f" {style.plus_minus} {entry.spread:.{decimals}f}"
    if not math.isnan(entry.floor):
        text += f" [{entry.floor:.{decimals}f}]"
    return text


def _theirs(entry: Entry, decimals: int, style: _Style) -> str:
    if math.isnan(entry.published):
        return ""
    text = style.number(_number(entry.published, decimals))
    if not math.isnan(entry.published_spread):
        text += f" {style.plus_minus} {entry.published_spread:.{decimals}f}"
    return text


def _number(value: float, decimals: int) -> str:
    """Return a number with its decimals; a small one as a power of ten instead of zero."""
    if value != 0 and abs(value) < 0.5 * 10.0**-decimals:
        return f"{value:.1e}"
    return f"{value:.{decimals}f}"


def _has_published(row: Row) -> bool:
    return any(not math.isnan(entry.published) for entry in row.entries)


def _markdown_line(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _latex_text(text: str) -> str:
    for character in "%&_#":
        text = text.replace(character, f"\\{character}")
    return text.replace("×", r"$\times$").replace("±", r"$\pm$")
