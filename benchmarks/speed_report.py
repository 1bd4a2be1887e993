"""What the pieces of the speed benchmark share: a report with targets, and a stopwatch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

Record = dict[str, Any]


@dataclass
class Report:
    """Figures of one piece, and the targets it is held to."""

    figures: list[Record] = field(default_factory=list)
    targets: list[Record] = field(default_factory=list)

    def add(self, line: str, **figures: Any) -> None:
        """Print a line and keep its figures."""
        print("  " + line, flush=True)
        self.figures.append(figures)

    def target(
        self, name: str, value: float, *, at_least: float = -np.inf, at_most: float = np.inf
    ) -> None:
        """Keep whether a value meets its limits."""
        limit = {"at_least": at_least} if np.isfinite(at_least) else {"at_most": at_most}
        met = bool(at_least <= value <= at_most)
        self.targets.append({"name": name, "value": value, **limit, "met": met})


def seconds_of(run: Callable[[], Any]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def clock_and_cpu_in_turn(
    contestants: dict[str, Callable[[], Any]], rounds: int
) -> dict[str, tuple[float, float]]:
    """Median seconds on the clock and of all cores together, one after the other in every round.

    Those of the cores say something on a busy machine too.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            cpu = process_time()
            times[name].append((seconds_of(run), process_time() - cpu))
    return {name: (median(c for c, _ in t), median(p for _, p in t)) for name, t in times.items()}


def in_turn(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each, one after the other in every round."""
    times = [{name: seconds_of(run) for name, run in contestants.items()} for _ in range(rounds)]
    return {name: median(turn[name] for turn in times) for name in contestants}
