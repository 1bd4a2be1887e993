"""A benchmark as data for its page: every cell with its seeds, and what ranking them needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.metrics.table import METRICS, Metric
from gnncal_lab.bench import published
from gnncal_lab.bench.plan import Protocol, list_methods
from gnncal_lab.bench.provenance import RunNote, read_runs
from gnncal_lab.bench.records import Record
from gnncal_lab.bench.results import EVERYTHING, Results, Selection, read_results
from gnncal_lab.bench.summary import (
    SAME_UNIT,
    average_present,
    nemenyi_quantile,
    spread_of_seeds,
)
from gnncal_lab.bench.tables.comparisons import RELEASED, overview, ranks
from gnncal_lab.bench.tables.model import NAN, UNRANKED
from gnncal_lab.datasets import FACTS

OPENING_METRIC = "ece"
PUBLISHED: tuple[published.Metric, ...] = ("ece", "degree_ece", "nll")


@dataclass(frozen=True)
class BenchmarkGraph:
    """A graph of the benchmark."""

    name: str
    regime: str  # that the paper puts it in, or "Other"
    unit: str  # graphs of one unit count once in ranks and tests


@dataclass(frozen=True)
class Summary:
    """One metric of one method on one graph with one backbone."""

    values: FloatArray  # (n_seeds,) NaN where a record does not have it
    mean: float
    spread: float  # standard deviation over seeds
    floor: float  # mean of what perfect calibration would show; NaN for metrics without floor
    paper: published.Value | None  # the published mean and spread


@dataclass(frozen=True)
class LeaderboardCell:
    """The results of all seeds of one method on one graph with one backbone."""

    graph: str
    backbone: str
    method: str
    protocols: tuple[Protocol, ...]  # whose results it is part of; both where a method knows none
    seeds: tuple[int, ...]
    fit_cpu_seconds: float
    metrics: Mapping[str, Summary]


@dataclass(frozen=True)
class Standing:
    """A line of the leaderboard for the first protocol and the pooled backbones."""

    method: str
    mean_rank: float  # by ECE over graphs; NaN for those that are not ranked
    values: Mapping[str, float]  # by metric, as the overview table has them
    floors: Mapping[str, float]
    fit_cpu_seconds: float
    n_pairs: int
    n_records: int


@dataclass(frozen=True)
class BenchmarkRun:
    """Which command made how many of the records."""

    name: str
    n_records: int
    date: str
    command: str
    source: str
    versions: str
    machine: str


@dataclass(frozen=True)
class Leaderboard:
    """A benchmark, ready to be ranked by any metric on any part of it."""

    protocols: tuple[Protocol, ...]
    graphs: tuple[BenchmarkGraph, ...]
    backbones: Mapping[str, str]  # name -> title
    pooled_backbones: tuple[str, ...]  # that the opening averages are over
    methods: tuple[str, ...]
    unranked: str  # the method that takes no part in ranks
    metrics: tuple[Metric, ...]  # that every record has
    cells: tuple[LeaderboardCell, ...]
    nemenyi: FloatArray  # (n_methods + 1,) q by number of methods; NaN below two
    opening: tuple[Standing, ...]
    runs: tuple[BenchmarkRun, ...]
    mixes_ties: bool  # whether some degree-stratified ECE is of one order of tied nodes


def make_leaderboard(folder: Path, wanted: Selection = EVERYTHING) -> Leaderboard:
    """Summarise the records of a folder, all of them or a selection."""
    results = read_results(folder, wanted)
    first = next(iter(results.values()))
    everything = list(results.values())
    metrics = [METRICS[m] for m in METRICS if all(m in found.metrics for found in everything)]
    datasets = _in_order([found.datasets for found in everything])
    backbones = _in_order([found.backbones for found in everything])
    present = {method for found in everything for method in found.methods}
    methods = tuple(method for method in list_methods() if method in present)
    return Leaderboard(
        tuple(results),
        tuple(_graph(name) for name in datasets),
        {name: published.BACKBONES.get(name, name) for name in backbones},
        tuple(first.pooled_backbones),
        methods,
        UNRANKED,
        tuple(metrics),
        tuple(_cells(results, metrics)),
        np.array([NAN, NAN, *map(nemenyi_quantile, range(2, len(methods) + 1))]),
        tuple(_opening(first, metrics)),
        tuple(_runs(folder, everything)),
        any(found.mixes_ties for found in everything),
    )


def _in_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of several lists, each of them once."""
    return list(dict.fromkeys(name for names in lists for name in names))


def _graph(name: str) -> BenchmarkGraph:
    regime = FACTS[name].regime.capitalize() if name in FACTS else "Other"
    return BenchmarkGraph(name, regime, SAME_UNIT.get(name, name))


def _cells(
    results: Mapping[Protocol, Results], metrics: Sequence[Metric]
) -> Sequence[LeaderboardCell]:
    """Return each group of records once, with all protocols that it belongs to."""
    protocols: dict[tuple[str, str, str, Protocol], list[Protocol]] = {}
    records: dict[tuple[str, str, str, Protocol], list[Record]] = {}
    for protocol, found in results.items():
        for where, group in found.records.items():
            key = (*where, group[0].protocol)
            protocols.setdefault(key, []).append(protocol)
            records[key] = group
    return [
        LeaderboardCell(
            *key[:3],
            tuple(protocols[key]),
            tuple(record.seed for record in group),
            float(np.mean([record.fit_cpu_seconds for record in group])),
            {metric.name: _summary(metric, group) for metric in metrics},
        )
        for key, group in records.items()
    ]


def _summary(metric: Metric, records: Sequence[Record]) -> Summary:
    values = np.array([record.metric(metric.name) for record in records])
    known = values[~np.isnan(values)]
    floor = NAN
    if metric.floor_name is not None:
        floors = np.array([[record.metric(metric.floor_name)] for record in records])
        floor = float(average_present(floors)[0])
    first = records[0]
    return Summary(
        values,
        float(known.mean()) if known.size else NAN,
        spread_of_seeds(known),
        floor,
        _published(metric, first.dataset, first.backbone, first.method),
    )


def _published(metric: Metric, dataset: str, backbone: str, method: str) -> published.Value | None:
    """Return the paper's value, in the unit of records."""
    named = "hots" if method == RELEASED else method
    for name in PUBLISHED:
        if name == metric.name:
            value = published.per_backbone(name).get((dataset, backbone, named))
            if value is not None:
                return published.Value(*(part / metric.scale for part in value))
    return None


def _opening(results: Results, metrics: Sequence[Metric]) -> list[Standing]:
    """Return the overview and the ranks of one protocol, line by line, the best rank first."""
    table, ranked = overview(results), ranks(results, OPENING_METRIC)
    rank_of = {row.name: row.entries[0].value for row in ranked.rows if not row.group}
    standings = []
    for row in table.rows:
        entry = dict(zip(table.columns, (entry.value for entry in row.entries), strict=True))
        floors = {m.name: f"{m.title} floor {m.unit}".rstrip() for m in metrics if m.floor_name}
        standings.append(
            Standing(
                row.name,
                rank_of.get(row.name, NAN),
                {metric.name: entry[metric.heading] / metric.scale for metric in metrics},
                {name: entry[head] / METRICS[name].scale for name, head in floors.items()},
                entry["fit CPU s"],
                int(entry["pairs"]),
                int(entry["records"]),
            )
        )
    return sorted(standings, key=lambda line: (np.isnan(line.mean_rank), line.mean_rank))


def _runs(folder: Path, results: Sequence[Results]) -> list[BenchmarkRun]:
    """Return the runs that made the chosen records, the largest part first."""
    used = {
        record.cell: record.run
        for found in results
        for group in found.records.values()
        for record in group
    }
    counts = Counter(used.values())
    known = read_runs(folder)
    return [_run(known.get(name, RunNote(name)), n) for name, n in counts.most_common()]


def _run(about: RunNote, n_records: int) -> BenchmarkRun:
    source = _listed(about.source) if isinstance(about.source, dict) else str(about.source or "")
    versions = _listed(about.versions or {})
    return BenchmarkRun(
        about.run, n_records, about.date, about.command, source, versions, about.machine
    )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
