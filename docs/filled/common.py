"""What the parts share: records, tables in Markdown, intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
NAN = float("nan")
FILLS: dict[str, Callable[[], str]] = {}


def fill(name: str, *given: Any) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register what makes a part, with its arguments."""

    def register(make: Callable[..., str]) -> Callable[..., str]:
        FILLS[name] = partial(make, *given)
        return make

    return register


def record(name: str) -> Any:
    """Return what a script of benchmarks/ has recorded."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


@cache
def results(protocol: str) -> Any:
    """Return the records of GCN and GAT."""
    return results_of(("gcn", "gat"), protocol)


@cache
def results_of(backbones: tuple[str, ...], protocol: str) -> Any:
    """Return the records of some networks."""
    from gnncal_lab.bench.results import Selection, read_results

    return read_results(RESULTS, Selection(backbones=backbones))[protocol]  # type: ignore[index]


def some_graphs(part: str, every: Any) -> Any:
    """Return the results on all graphs, or on those with many or few calibration nodes."""
    from site_pages.results import FEW_NODES, Results

    wanted = {"all": (True, False), "many": (False,), "few": (True,)}[part]
    kept = {key: v for key, v in every.records.items() if (key[0] in FEW_NODES) in wanted}
    return Results(every.protocol, kept)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, texts: int = 1) -> str:
    """Return a table in Markdown; all but the first columns are numbers."""
    rule = "|---" * texts + "|---:" * (len(heads) - texts) + "|"
    lines = (f"| {' | '.join(map(str, row))} |" for row in (heads, *rows))
    head, *others = lines
    return "\n".join([head, rule, *others])


def numbers(values: Iterable[float], decimals: int = 2) -> list[str]:
    """Return numbers as texts, a dash where there is none."""
    return ["–" if np.isnan(value) else f"{value:.{decimals}f}" for value in values]


def signed(mean: float, low: float, high: float, *, scale: float = 1, decimals: int = 1) -> str:
    """Return a difference with its interval."""
    one, two, three = (f"{scale * value:+.{decimals}f}" for value in (mean, low, high))
    return f"{one} [{two}, {three}]"


def thousandths(found: Any) -> str:
    """Return a paired difference in thousandths of a nat, with its interval."""
    return signed(found.mean_difference, found.low, found.high, scale=1e3)
