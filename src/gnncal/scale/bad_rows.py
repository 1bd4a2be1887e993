"""Rows that cannot be used: counted, shown by example, and refused or skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnncal.data.errors import LONGEST_VALUE, InputError
from gnncal.scale.engines import Engine
from gnncal.scale.nodes import REASONS

N_EXAMPLES = 3


@dataclass(frozen=True)
class BadRows:
    """Rows of one table that cannot be used for one reason."""

    table: str  # nodes or edges
    reason: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.examples)
        what = "ids" if self.table == "nodes" else "edges"
        return f"{self.count:,} rows of the {self.table}: {self.reason} ({what} {shown})"


def bad_nodes(engine: Engine, flagged: Any, counts: dict[str, int]) -> list[BadRows]:
    """Say what is wrong with single rows; ``counts`` has a number for each reason."""
    bad_rows = []
    for reason, sentence in REASONS.items():
        if counts.get(reason):
            rows = flagged.filter(flagged["reason"] == reason).select("id").limit(N_EXAMPLES)
            examples = [_text(value) for value in engine.fetch(rows)["id"].to_pylist()]
            bad_rows.append(BadRows("nodes", sentence, counts[reason], tuple(examples)))
    return bad_rows


def duplicate_ids(flagged: Any) -> Any:
    """Return the ids that occur more than once, and how often."""
    named = flagged.filter(flagged["id"].notnull())
    counted = named.group_by("id").aggregate(times=named.count())
    return counted.filter(counted["times"] > 1)


def bad_duplicates(engine: Engine, duplicates: Any) -> list[BadRows]:
    """Return rows whose id occurs more than once, so that it is unknown which is right."""
    total = engine.fetch(duplicates.aggregate(rows=duplicates["times"].sum()))["rows"][0].as_py()
    if not total:
        return []
    few = engine.fetch(duplicates.order_by("id").limit(N_EXAMPLES))["id"].to_pylist()
    return [BadRows("nodes", "the id occurs more than once", int(total), _texts(few))]


def bad_edges(engine: Engine, edges: Any, nodes: Any, n_bad: int) -> list[BadRows]:
    """Find edges with an end that is null or not a node, if some edges are missing."""
    if n_bad == 0:
        return []
    is_null = edges["src"].isnull() | edges["dst"].isnull()
    n_null = int(engine.fetch(edges.aggregate(n=is_null.sum()))["n"][0].as_py() or 0)
    bad_rows = []
    if n_null:
        few = engine.fetch(edges.filter(is_null).limit(N_EXAMPLES))
        bad_rows.append(BadRows("edges", "an end is null", n_null, _pairs(few)))
    if n_bad > n_null:
        known = edges.filter(~is_null)
        ids = nodes.select("id")
        lost = [known.anti_join(ids, known[end] == ids["id"]) for end in ("src", "dst")]
        few = engine.fetch(lost[0].union(lost[1]).limit(N_EXAMPLES))
        bad_rows.append(BadRows("edges", "an end is not a node", n_bad - n_null, _pairs(few)))
    return bad_rows


def refuse(bad_rows: Sequence[BadRows]) -> None:
    """Raise one InputError that says everything, unless nothing is wrong."""
    if bad_rows:
        raise InputError(
            f"{'; '.join(str(bad) for bad in bad_rows)}. Correct them, or pass --skip-bad "
            "(skip_bad=True) to leave such rows out."
        )


def refuse_all(bad_rows: Sequence[BadRows]) -> None:
    """Raise an InputError because skipping the bad rows leaves none."""
    raise InputError(f"no row of the nodes is left: {'; '.join(str(bad) for bad in bad_rows)}.")


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _pairs(table: Any) -> tuple[str, ...]:
    return tuple(f"{_text(row['src'])} -> {_text(row['dst'])}" for row in table.to_pylist())
