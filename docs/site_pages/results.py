"""What each method came to in `results/`, held against temperature scaling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnncal.metrics.table import METRICS
from gnncal_lab.bench.results import Results, Selection, read_results
from gnncal_lab.bench.summary import PairedComparison, compare_paired, unit_means

REFERENCE = "ts"
BACKBONES = ("gcn", "gat")
FEW_NODES = ("Texas", "Cornell", "Wisconsin")  # 18 to 25 calibration nodes; others have 227 or more
SHOWN = ("nll", "ece", "accuracy")


@dataclass(frozen=True)
class Line:
    """One metric of a method and of the reference, on the same graphs and seeds."""

    metric: str
    method: float  # mean over graphs
    reference: float
    comparison: PairedComparison


@dataclass(frozen=True)
class MethodResults:
    """What a method came to on graphs with many and with few calibration nodes."""

    many: tuple[Line, ...]
    few: tuple[Line, ...]


def read_method_results(folder: Path) -> dict[str, MethodResults]:
    """Return the results of every method that has records, converged fits only."""
    everything = read_results(folder, Selection(backbones=BACKBONES))["converged"]
    many, few = _part(everything, few_nodes=False), _part(everything, few_nodes=True)
    return {name: MethodResults(_lines(many, name), _lines(few, name)) for name in many.methods}


def _part(results: Results, *, few_nodes: bool) -> Results:
    kept = {
        key: found for key, found in results.records.items() if (key[0] in FEW_NODES) == few_nodes
    }
    return Results(results.protocol, kept)


def _lines(results: Results, method: str) -> tuple[Line, ...]:
    return tuple(_line(results, method, metric) for metric in SHOWN)


def _line(results: Results, method: str, metric: str) -> Line:
    ours, theirs = results.matched(metric, method, REFERENCE)
    means = [float(np.nanmean(unit_means(part, results.graphs))) for part in (ours, theirs)]
    return Line(metric, *means, compare_paired(ours, theirs, results.graphs))


def difference(line: Line) -> str:
    """Return the difference with its 95% interval, in the unit of the metric's heading."""
    found, metric = line.comparison, METRICS[line.metric]
    mean, low, high = (
        f"{value * metric.scale:+.{metric.decimals}f}"
        for value in (found.mean_difference, found.low, found.high)
    )
    return f"{mean} [{low}, {high}]".replace(" ", "\N{NO-BREAK SPACE}")


def better_on(line: Line) -> str:
    """Return on how many graphs the method has the better value."""
    found = line.comparison
    lower = found.win_rate * found.n_graphs
    wins = lower if METRICS[line.metric].better == "lower" else found.n_graphs - lower
    return f"{wins:g} of {found.n_graphs}"
