"""The paper's tables from the records of one protocol, each figure beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gnncal.bench import paper
from gnncal.bench.measure import COVERAGES
from gnncal.bench.plan import ABLATIONS, PAPER_METHODS
from gnncal.bench.results import FLOOR_OF, POOLED, Results, scale
from gnncal.bench.summary import average_present, mean_ranks
from gnncal.bench.table import FLOORS, NAN, UNRANKED, Entry, ResultTable, Row, marked
from gnncal.datasets import FACTS

OVER_18 = "The paper's figures are over its 18 datasets; compare columns within a row."
TITLES = {"ece": "ECE (%)", "degree_ece": "Degree-stratified ECE (%)", "nll": "NLL"}
DECIMALS = {"nll": 3}


def paper_tables(results: Results) -> list[ResultTable]:
    """Every table of the paper that compares calibrators."""
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
    methods = _present(results, PAPER_METHODS)
    backbones = results.pooled_backbones
    figures = paper.main_ece() if set(backbones) == set(POOLED) else _figures("ece", backbones)
    rows = [
        Row(dataset, _row(results, "ece", dataset, backbones, methods, figures), regime)
        for regime, dataset in _by_regime(results)
    ]
    floors = np.array([[entry.floor for entry in row.entries] for row in rows])
    ours = np.array([[entry.value for entry in row.entries] for row in rows])
    theirs = np.array([[entry.paper for entry in row.entries] for row in rows])
    theirs[np.isnan(ours)] = NAN  # averages of the same rows
    ranked = np.array([method != UNRANKED for method in methods])
    average = map(average_present, (ours, floors, theirs))
    ranks = [mean_ranks(np.where(ranked, table, NAN)) for table in (ours, theirs)]
    for name, columns in (
        ("average", average),
        ("average rank", (ranks[0], np.full(len(methods), NAN), ranks[1])),
    ):
        entries = [
            Entry(value, floor=floor, paper=other)
            for value, floor, other in zip(*columns, strict=True)
        ]
        rows.append(Row(name, marked(entries, methods), "All of these"))
    return ResultTable(
        "main_ece",
        f"ECE (%) over {results.pooled_names}, mean ± standard deviation of all runs",
        tuple(methods),
        tuple(rows),
        note=(
            f"{FLOORS} The paper's averages and ranks are over the entries that this table has."
            f"{_incomplete(results, methods)}"
        ),
    )


def nll_and_degree_ece(results: Results) -> ResultTable:
    """NLL and degree-stratified ECE, averaged over datasets."""
    methods = _present(results, [m for m in PAPER_METHODS if m not in (UNRANKED, "vs")])
    rows = []
    metrics: tuple[paper.Metric, ...] = ("nll", "degree_ece")
    for metric in metrics:
        figures = paper.per_backbone(metric)
        entries = [
            Entry(
                _average(results, metric, results.pooled_backbones, method),
                floor=_average(results, FLOOR_OF.get(metric), results.pooled_backbones, method),
                paper=_mean(
                    [
                        figure.mean
                        for (dataset, backbone, m), figure in figures.items()
                        if m == method and (dataset, backbone, m) in results.runs
                    ]
                ),
            )
            for method in methods
        ]
        decimals = DECIMALS.get(metric, 2)
        rows.append(
            Row(TITLES[metric], marked(entries, methods, decimals=decimals), decimals=decimals)
        )
    return ResultTable(
        "nll_and_degree_ece",
        f"NLL and degree-stratified ECE, averaged over datasets, {results.pooled_names}",
        tuple(methods),
        tuple(rows),
        corner="metric",
        note=f"{FLOORS} The paper's figures are averaged over the same runs."
        f"{_incomplete(results, methods)}",
    )


def per_backbone(results: Results, metric: paper.Metric) -> ResultTable:
    """A metric by dataset and backbone."""
    methods = _present(results, PAPER_METHODS)
    rows = []
    for regime, dataset in _by_regime(results):
        for backbone in [b for d, [b] in results.graph_rows if d == dataset]:
            figures = _figures(metric, [backbone])
            entries = _row(results, metric, dataset, [backbone], methods, figures)
            name = f"{dataset}, {paper.BACKBONES.get(backbone, backbone)}"
            rows.append(Row(name, entries, regime))
    return ResultTable(
        f"per_backbone_{metric}",
        f"{TITLES[metric]} by backbone, mean ± standard deviation over seeds",
        tuple(methods),
        tuple(rows),
        decimals=DECIMALS.get(metric, 2),
        corner="dataset, backbone",
        note=FLOORS if metric in FLOOR_OF else "",
    )


def cross_backbone(results: Results) -> ResultTable:
    """Mean ECE over datasets for each backbone."""
    methods = _present(results, PAPER_METHODS[1:])
    figures = paper.summary("cross_backbone")
    rows = []
    for backbone in results.backbones:
        n_datasets = len({d for d, b, _ in results.runs if b == backbone})
        entries = [
            Entry(
                _average(results, "ece", [backbone], method),
                floor=_average(results, FLOOR_OF["ece"], [backbone], method),
                paper=figures.get((backbone, method), NAN),
            )
            for method in methods
        ]
        plural = "" if n_datasets == 1 else "s"
        name = f"{paper.BACKBONES.get(backbone, backbone)} ({n_datasets} dataset{plural})"
        rows.append(Row(name, marked(entries, methods)))
    return ResultTable(
        "cross_backbone",
        "Mean ECE (%) over datasets by backbone",
        tuple(methods),
        tuple(rows),
        corner="backbone",
        note=(
            f"{FLOORS} The paper's figures, of four backbones, are over 17 datasets; compare "
            "columns within a row."
            f"{_incomplete(results, methods)}"
        ),
    )


def selective(results: Results) -> ResultTable:
    """Accuracy among the nodes kept at each coverage, for methods that keep predictions."""
    methods = _present(results, ["uncalibrated", "ts", "hts", "entropy-only", "hots"])
    figures = paper.summary("selective")
    kept = {method: _kept_accuracy(results, method) for method in methods}
    rows = []
    for i, coverage in enumerate(COVERAGES):
        name = f"{100 * coverage:.0f} %"
        entries = [Entry(kept[m][i], paper=figures.get((name, m), NAN)) for m in methods]
        rows.append(Row(name, marked(entries, methods, highest=True)))
    return ResultTable(
        "selective",
        f"Accuracy (%) of the most confident nodes, averaged over datasets, {results.pooled_names}",
        tuple(methods),
        tuple(rows),
        corner="coverage",
        note=OVER_18,
    )


def prediction_changes(results: Results) -> ResultTable:
    """In how many runs a method changes the predicted class of a test node."""
    figures = paper.summary("prediction_changes")
    rows = []
    for method in results.methods:
        records = results.records(method)
        changes = np.array([record.metrics["prediction_changes"] for record in records])
        nodes = np.array([record.metrics["n_nodes"] for record in records])
        share = Entry(
            100 * float((changes > 0).mean()), paper=figures.get(("share of runs", method), NAN)
        )
        nodes_share = Entry(100 * float((changes / nodes).mean()))
        rows.append(Row(method, (share, nodes_share, Entry(float(len(records))))))
    return ResultTable(
        "prediction_changes",
        "Runs in which at least one test node changes its predicted class",
        ("% of runs", "% of test nodes", "runs"),
        tuple(rows),
        decimals=(1, 3, 0),
        corner="method",
    )


def ablation(results: Results) -> ResultTable:
    """TS, the parts of HoTS alone, HoTS with a fixed exponent, HoTS."""
    methods = _present(results, ABLATIONS)
    figures = paper.summary("ablation")
    ece = [
        Entry(
            _average(results, "ece", results.pooled_backbones, method),
            floor=_average(results, FLOOR_OF["ece"], results.pooled_backbones, method),
            paper=figures[("mean ECE", method)],
        )
        for method in methods
    ]
    nll = [Entry(_average(results, "nll", results.pooled_backbones, method)) for method in methods]
    return ResultTable(
        "ablation",
        f"Components of HoTS, averaged over datasets, {results.pooled_names}",
        tuple(methods),
        (
            Row("ECE (%)", marked(ece, methods)),
            Row("NLL", marked(nll, methods, decimals=4), decimals=4),
        ),
        corner="metric",
        note=f"{FLOORS} {OVER_18}",
    )


def _figures(metric: paper.Metric, backbones: Sequence[str]) -> dict[tuple[str, str], paper.Figure]:
    """The paper's of a single backbone; none of several, which it does not report together."""
    if len(backbones) != 1:
        return {}
    return {
        (dataset, method): figure
        for (dataset, backbone, method), figure in paper.per_backbone(metric).items()
        if backbone == backbones[0]
    }


def _row(
    results: Results,
    metric: str,
    dataset: str,
    backbones: Sequence[str],
    methods: Sequence[str],
    figures: Mapping[tuple[str, str], paper.Figure],
) -> tuple[Entry, ...]:
    entries = []
    for method in methods:
        figure = figures.get((dataset, method), paper.Figure(NAN, NAN))
        where = (dataset, backbones, method)
        floor = FLOOR_OF.get(metric)
        entries.append(
            Entry(
                scale(metric) * results.mean(metric, *where),
                scale(metric) * results.spread(metric, *where),
                NAN if floor is None else scale(floor) * results.mean(floor, *where),
                figure.mean,
                figure.spread,
            )
        )
    return marked(entries, methods, decimals=DECIMALS.get(metric, 2))


def _kept_accuracy(results: Results, method: str) -> Sequence[float]:
    means = [
        np.mean([record.metrics["selective_accuracy"] for record in records], axis=0)
        for (_, backbone, m), records in results.runs.items()
        if m == method and backbone in results.pooled_backbones
    ]
    return (
        [float(value) for value in 100 * np.mean(means, axis=0)]
        if means
        else [NAN] * len(COVERAGES)
    )


def _incomplete(results: Results, methods: Sequence[str]) -> str:
    """Which methods miss rows that others have, and so have averages over fewer graphs."""
    rows = results.table("ece", [(d, results.pooled_backbones) for d in results.datasets], methods)
    n_rows = (~np.isnan(rows)).sum(axis=0)
    fewer = [f"{m} {n}" for m, n in zip(methods, n_rows, strict=True) if n < n_rows.max()]
    if not fewer:
        return ""
    return f" Datasets with records: {n_rows.max()}, but of {', '.join(fewer)}."


def _average(results: Results, metric: str | None, backbones: Sequence[str], method: str) -> float:
    """Over the datasets that have the method."""
    if metric is None:
        return NAN
    rows = [(dataset, backbones) for dataset in results.datasets]
    return float(scale(metric) * average_present(results.table(metric, rows, [method]))[0])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else NAN


def _present(results: Results, methods: Sequence[str]) -> list[str]:
    return [method for method in methods if method in results.methods]


def _by_regime(results: Results) -> list[tuple[str, str]]:
    regime = {name: facts.regime.capitalize() for name, facts in FACTS.items()}
    return [(regime.get(dataset, "Other"), dataset) for dataset in results.datasets]
