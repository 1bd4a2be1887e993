"""Entries of tables: means of results with their noise floors and the published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gnncal_lab.bench import published
from gnncal_lab.bench.results import Results, metric_of
from gnncal_lab.bench.summary import average_present
from gnncal_lab.bench.tables.model import NAN, TIES, Entry, marked
from gnncal_lab.datasets import FACTS

PRINTED_DECIMALS = {"nll": 3}  # as the paper prints it; 2 for the other metrics


def printed_decimals(metric: str) -> int:
    """Return the number of decimals that the paper prints a metric with."""
    return PRINTED_DECIMALS.get(metric, 2)


def entries_of(
    results: Results,
    metric: str,
    dataset: str,
    backbones: Sequence[str],
    methods: Sequence[str],
    paper: Mapping[tuple[str, str], published.Value],
) -> tuple[Entry, ...]:
    """Return the entries of one dataset, one for each method, the best three marked."""
    scale, floor = metric_of(metric).scale, metric_of(metric).floor_name
    entries = []
    for method in methods:
        theirs = paper.get((dataset, method), published.Value(NAN, NAN))
        where = (dataset, backbones, method)
        entries.append(
            Entry(
                scale * results.mean(metric, *where),
                scale * results.spread(metric, *where),
                NAN if floor is None else scale * results.mean(floor, *where),
                theirs.mean,
                theirs.spread,
            )
        )
    return marked(entries, methods, decimals=printed_decimals(metric))


def average_entry(
    results: Results, metric: str, backbones: Sequence[str], method: str, theirs: float = NAN
) -> Entry:
    """The average over the datasets that have the method, with its floor and the paper's value."""
    floor = metric_of(metric).floor_name
    return Entry(
        _average(results, metric, backbones, method),
        floor=NAN if floor is None else _average(results, floor, backbones, method),
        published=theirs,
    )


def published_for(
    metric: published.Metric, backbones: Sequence[str]
) -> dict[tuple[str, str], published.Value]:
    """The paper's values for one backbone; none for several, which it does not report together."""
    if len(backbones) != 1:
        return {}
    return {
        (dataset, method): value
        for (dataset, backbone, method), value in published.per_backbone(metric).items()
        if backbone == backbones[0]
    }


def present(results: Results, methods: Sequence[str]) -> list[str]:
    """Return the methods that have records."""
    return [method for method in methods if method in results.methods]


def by_regime(results: Results) -> list[tuple[str, str]]:
    """Return every dataset behind the regime that the paper puts it in."""
    regime = {name: facts.regime.capitalize() for name, facts in FACTS.items()}
    return [(regime.get(dataset, "Other"), dataset) for dataset in results.datasets]


def note_on_gaps(results: Results, methods: Sequence[str]) -> str:
    """Name the methods whose averages are over fewer datasets than those of others."""
    rows = [(dataset, results.pooled_backbones) for dataset in results.datasets]
    n_rows = (~np.isnan(results.matrix("ece", rows, methods))).sum(axis=0)
    fewer = [f"{m} {n}" for m, n in zip(methods, n_rows, strict=True) if n < n_rows.max()]
    if not fewer:
        return ""
    return f" Datasets with records: {n_rows.max()}; fewer for {', '.join(fewer)}."


def note_on_ties(results: Results) -> str:
    """Say beside degree-stratified ECE which rules the records have for nodes of equal degree."""
    return f" {TIES}" if results.mixes_ties else ""


def _average(results: Results, metric: str, backbones: Sequence[str], method: str) -> float:
    rows = [(dataset, backbones) for dataset in results.datasets]
    means = average_present(results.matrix(metric, rows, [method]))
    return float(metric_of(metric).scale * means[0])
