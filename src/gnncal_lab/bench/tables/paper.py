"""The paper's tables from the records of one protocol, each entry with the published value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnncal_lab.bench import published
from gnncal_lab.bench.plan import ABLATIONS, PAPER_METHODS
from gnncal_lab.bench.records import COVERAGES
from gnncal_lab.bench.results import POOLED, Results, metric_of
from gnncal_lab.bench.summary import average_present, mean_ranks
from gnncal_lab.bench.tables.entries import (
    average_entry,
    by_regime,
    entries_of,
    note_on_gaps,
    note_on_ties,
    present,
    printed_decimals,
    published_for,
)
from gnncal_lab.bench.tables.model import FLOORS, NAN, UNRANKED, Entry, ResultTable, Row, marked
from gnncal_lab.classifiers.treatments import TREATED

OVER_18 = "The paper averages over its 18 datasets, so compare values within a row only."
KEEPING = ("uncalibrated", "ts", "hts", "entropy-only", "hots")  # keep predictions; the paper's


def paper_tables(results: Results) -> list[ResultTable]:
    """Return every table of the paper that compares calibrators."""
    return [
        main_ece(results),
        nll_and_degree_ece(results),
        per_backbone(results, "ece"),
        per_backbone(results, "degree_ece"),
        per_backbone(results, "nll"),
        cross_backbone(results),
        selective(results),
        prediction_changes(results),
        ablation(results),
    ]


def main_ece(results: Results) -> ResultTable:
    """ECE by dataset over both backbones, averages, and average ranks."""
    methods = present(results, PAPER_METHODS)
    backbones = results.pooled_backbones
    pooled_as_in_paper = set(backbones) == set(POOLED)
    paper = published.main_ece() if pooled_as_in_paper else published_for("ece", backbones)
    rows = [
        Row(dataset, entries_of(results, "ece", dataset, backbones, methods, paper), regime)
        for regime, dataset in by_regime(results)
    ]
    return ResultTable(
        "main_ece",
        f"ECE (%): mean ± standard deviation over all seeds of {results.pooled_names}",
        tuple(methods),
        (*rows, *_averages_and_ranks(rows, methods)),
        note=(
            f"{FLOORS} The paper's averages and ranks cover the same datasets and methods as ours."
            f"{note_on_gaps(results, methods)}"
        ),
    )


def _averages_and_ranks(rows: Sequence[Row], methods: Sequence[str]) -> list[Row]:
    """Return the last two rows of the main table."""
    ours = np.array([[entry.value for entry in row.entries] for row in rows])
    floors = np.array([[entry.floor for entry in row.entries] for row in rows])
    theirs = np.array([[entry.published for entry in row.entries] for row in rows])
    theirs[np.isnan(ours)] = NAN  # averages of the same rows
    ranked = np.array([method != UNRANKED for method in methods])
    ranks = [mean_ranks(np.where(ranked, values, NAN)) for values in (ours, theirs)]
    columns = {
        "average": [average_present(values) for values in (ours, floors, theirs)],
        "average rank": [ranks[0], np.full(len(methods), NAN), ranks[1]],
    }
    return [
        Row(
            name,
            marked(
                [
                    Entry(value, floor=floor, published=other)
                    for value, floor, other in zip(*parts, strict=True)
                ],
                methods,
            ),
            "All datasets",
        )
        for name, parts in columns.items()
    ]


def nll_and_degree_ece(results: Results) -> ResultTable:
    """NLL and degree-stratified ECE, averaged over datasets."""
    methods = present(results, [m for m in PAPER_METHODS if m not in (UNRANKED, "vs")])
    rows = []
    metrics: tuple[published.Metric, ...] = ("nll", "degree_ece")
    for metric in metrics:
        paper = published.per_backbone(metric)
        entries = []
        for method in methods:
            same = [
                v.mean for key, v in paper.items() if key[2] == method and key in results.records
            ]
            theirs = float(np.mean(same)) if same else NAN
            entries.append(average_entry(results, metric, results.pooled_backbones, method, theirs))
        decimals = printed_decimals(metric)
        rows.append(
            Row(
                metric_of(metric).heading,
                marked(entries, methods, decimals=decimals),
                decimals=decimals,
            )
        )
    return ResultTable(
        "nll_and_degree_ece",
        f"NLL and degree-stratified ECE: averages over datasets ({results.pooled_names})",
        tuple(methods),
        tuple(rows),
        corner="metric",
        note=f"{FLOORS} The paper's averages cover the same datasets and backbones."
        f"{note_on_gaps(results, methods)}{note_on_ties(results)}",
    )


def per_backbone(results: Results, metric: published.Metric) -> ResultTable:
    """Return a metric by dataset and backbone."""
    methods = present(results, PAPER_METHODS)
    ties = note_on_ties(results) if metric == "degree_ece" else ""
    rows = []
    for regime, dataset in by_regime(results):
        for backbone in [b for d, [b] in results.pairs if d == dataset]:
            paper = published_for(metric, [backbone])
            entries = entries_of(results, metric, dataset, [backbone], methods, paper)
            name = f"{dataset}, {published.BACKBONES.get(backbone, backbone)}"
            rows.append(Row(name, entries, regime))
    return ResultTable(
        f"per_backbone_{metric}",
        f"By backbone: {metric_of(metric).heading}, mean ± standard deviation over seeds",
        tuple(methods),
        tuple(rows),
        decimals=printed_decimals(metric),
        corner="dataset, backbone",
        note=f"{FLOORS}{ties}" if metric_of(metric).floor_name else "",
    )


def cross_backbone(results: Results) -> ResultTable:
    """Return the mean ECE over datasets for each backbone."""
    methods = present(results, PAPER_METHODS[1:])
    paper = published.summary("cross_backbone")
    rows = []
    for backbone in [b for b in results.backbones if b not in TREATED]:
        n_datasets = len({d for d, b, _ in results.records if b == backbone})
        entries = [
            average_entry(results, "ece", [backbone], method, paper.get((backbone, method), NAN))
            for method in methods
        ]
        plural = "" if n_datasets == 1 else "s"
        name = f"{published.BACKBONES.get(backbone, backbone)} ({n_datasets} dataset{plural})"
        rows.append(Row(name, marked(entries, methods)))
    return ResultTable(
        "cross_backbone",
        "ECE (%) by backbone: averages over datasets",
        tuple(methods),
        tuple(rows),
        corner="backbone",
        note=(
            f"{FLOORS} The paper has values of four backbones, averaged over 17 datasets. Compare "
            "values within a row only."
            f"{note_on_gaps(results, methods)}"
        ),
    )


def selective(results: Results) -> ResultTable:
    """Accuracy among the nodes kept at each coverage, for methods that keep predictions."""
    methods = present(results, KEEPING)
    paper = published.summary("selective")
    kept = {method: _kept_accuracy(results, method) for method in methods}
    rows = []
    for i, coverage in enumerate(COVERAGES):
        share = f"{100 * coverage:.0f}"
        theirs = [paper.get((f"{share} %", method), NAN) for method in methods]
        entries = [Entry(kept[m][i], published=p) for m, p in zip(methods, theirs, strict=True)]
        rows.append(Row(f"{share}%", marked(entries, methods, highest=True)))
    return ResultTable(
        "selective",
        f"Accuracy (%) of the most confident nodes: dataset averages ({results.pooled_names})",
        tuple(methods),
        tuple(rows),
        corner="nodes kept",
        note=OVER_18,
    )


def prediction_changes(results: Results) -> ResultTable:
    """Return how often a method changes the predicted class of a test node."""
    paper = published.summary("prediction_changes")
    rows = []
    for method in results.methods:
        records = [r for r in results.records_of(method) if "prediction_changes" in r.metrics]
        changes = np.array([record.metric("prediction_changes") for record in records])
        share = changes / [record.metric("n_nodes") for record in records]
        theirs = paper.get(("share of runs", method), NAN)
        entries = (
            Entry(100 * float((changes > 0).mean()) if records else NAN, published=theirs),
            Entry(100 * float(share.mean()) if records else NAN),
            Entry(float(len(records))),
        )
        rows.append(Row(method, entries))
    return ResultTable(
        "prediction_changes",
        "Changed predictions",
        ("% of classifiers", "% of test nodes", "classifiers"),
        tuple(rows),
        decimals=(1, 3, 0),
        corner="method",
        note=(
            "% of test nodes: mean share of test nodes whose predicted class changes. "
            "% of classifiers: share of trained classifiers with at least one such node."
        ),
    )


def ablation(results: Results) -> ResultTable:
    """TS, the parts of HoTS alone, HoTS with a fixed exponent, HoTS."""
    methods, backbones = present(results, ABLATIONS), results.pooled_backbones
    paper = published.summary("ablation")
    ece = [average_entry(results, "ece", backbones, m, paper["mean ECE", m]) for m in methods]
    nll = [average_entry(results, "nll", backbones, m) for m in methods]
    return ResultTable(
        "ablation",
        f"Components of HoTS: averages over datasets ({results.pooled_names})",
        tuple(methods),
        (
            Row(metric_of("ece").heading, marked(ece, methods)),
            Row(metric_of("nll").heading, marked(nll, methods, decimals=4), decimals=4),
        ),
        corner="metric",
        note=f"{FLOORS} {OVER_18}",
    )


def _kept_accuracy(results: Results, method: str) -> Sequence[float]:
    """Return the accuracy in percent at each coverage, averaged over datasets and backbones."""
    means = [
        np.mean(kept, axis=0)
        for (_, backbone, m), records in results.records.items()
        if m == method
        and backbone in results.pooled_backbones
        and (
            kept := [r.metrics[key] for r in records if (key := "selective_accuracy") in r.metrics]
        )
    ]
    return (
        [float(value) for value in 100 * np.mean(means, axis=0)]
        if means
        else [NAN] * len(COVERAGES)
    )
