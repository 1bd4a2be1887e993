"""Tables that compare methods: overview, paired tests, ranks, and the paper's values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.metrics.table import METRICS
from gnncal_lab.bench import published
from gnncal_lab.bench.plan import Protocol, knows_protocols
from gnncal_lab.bench.results import Results, metric_of
from gnncal_lab.bench.summary import (
    average_present,
    compare_paired,
    critical_difference,
    holm,
    mean_ranks,
    unit_means,
)
from gnncal_lab.bench.tables.entries import note_on_ties
from gnncal_lab.bench.tables.model import FLOORS, NAN, UNRANKED, Entry, ResultTable, Row

RELEASED = "hots-release"  # also to be compared with the paper's HoTS


def overview(results: Results) -> ResultTable:
    """Return the averages over graph x backbone means of every metric that all records have."""
    methods, pairs = results.methods, results.pairs
    columns: dict[str, FloatArray] = {}
    decimals: list[int] = []
    for metric in [METRICS[name] for name in results.metrics]:
        headings = {metric.name: metric.heading}
        if metric.floor_name is not None:
            headings[metric.floor_name] = f"{metric.title} floor {metric.unit}".rstrip()
        for name, heading in headings.items():
            means = average_present(results.matrix(name, pairs, methods))
            columns[heading] = metric.scale * means
            decimals.append(metric.decimals)
    ties = note_on_ties(results) if "degree_ece" in results.metrics else ""
    ece = results.matrix("ece", pairs, methods)
    ranked = np.array([method != UNRANKED for method in methods])
    columns["rank by ECE"] = mean_ranks(np.where(ranked, ece, NAN))
    columns["fit CPU s"] = average_present(results.fit_cpu_seconds(pairs, methods))
    columns["pairs"] = (~np.isnan(ece)).sum(axis=0)
    columns["records"] = np.array([len(results.records_of(method)) for method in methods])
    rows = [
        Row(method, tuple(Entry(float(values[i])) for values in columns.values()))
        for i, method in enumerate(methods)
    ]
    return ResultTable(
        "overview",
        f"All methods: averages over pairs of graph and backbone ({results.pooled_names})",
        tuple(columns),
        tuple(rows),
        decimals=(*decimals, 2, 3, 0, 0),
        corner="method",
        note=(
            "Pairs: pairs of graph and backbone with records of the method. Compare averages only "
            "between methods with all pairs. Floor: mean ECE of a perfectly calibrated model."
            f"{ties}"
        ),
    )


def by_dataset(results: Results, metric: str) -> ResultTable:
    """Return a metric of every method on every dataset, over the pooled backbones."""
    methods, datasets, shown = results.methods, results.datasets, METRICS[metric]
    where = [(dataset, results.pooled_backbones) for dataset in datasets]
    values = shown.scale * results.matrix(metric, where, methods)
    floors = np.full_like(values, NAN)
    if shown.floor_name is not None:
        floors = shown.scale * results.matrix(shown.floor_name, where, methods)
    rows = [
        Row(method, tuple(Entry(float(v), floor=float(f)) for v, f in zip(*column, strict=True)))
        for method, *column in zip(methods, values.T, floors.T, strict=True)
    ]
    return ResultTable(
        f"by_dataset_{metric}",
        f"{shown.heading} by dataset: mean over {results.pooled_names}",
        tuple(datasets),
        tuple(rows),
        decimals=3 if metric == "nll" else 2,
        corner="method",
        note=FLOORS if shown.floor_name is not None else "",
    )


def against_reference(results: Results, metric: str, reference: str) -> ResultTable:
    """Compare every method with one: signed-rank test with Holm's correction, win rates."""
    others = [method for method in results.methods if method != reference]
    found = [compare_paired(*results.matched(metric, m, reference), results.graphs) for m in others]
    adjusted = holm(np.array([comparison.p_value for comparison in found]))
    rows = [
        Row(
            method,
            tuple(
                Entry(value)
                for value in (
                    metric_of(metric).scale * comparison.mean_difference,
                    metric_of(metric).scale * comparison.low,
                    metric_of(metric).scale * comparison.high,
                    comparison.p_value,
                    float(p_holm),
                    100 * comparison.win_rate,
                    float(comparison.n_graphs),
                )
            ),
        )
        for method, comparison, p_holm in zip(others, found, adjusted, strict=True)
    ]
    return ResultTable(
        f"against_{reference}_{metric}",
        f"{metric_of(metric).heading}: difference from {reference}, paired over graphs "
        f"({results.pooled_names} averaged)",
        ("difference", "low", "high", "p", "p (Holm)", "wins %", "graphs"),
        tuple(rows),
        decimals=(*[3 if metric_of(metric).unit == "%" else 4] * 3, 4, 4, 0, 0),
        corner="method",
        note=(
            f"Difference: method minus {reference} over their common seeds (negative: the method "
            "is better). Low, high: ends of the 95% bootstrap interval over graphs. p: Wilcoxon's "
            "signed-rank test over graphs, two-sided. p (Holm): corrected for the methods of this "
            "table. Wins: share of graphs on which the method is better. Texas and Cornell count "
            "as one graph, because their files share labels and features."
        ),
    )


def ranks(results: Results, metric: str) -> ResultTable:
    """Return the mean ranks of the methods that have every pair, and the critical difference."""
    methods = [method for method in results.methods if method != UNRANKED]
    means = results.matrix(metric, results.pairs, methods)
    has_gap = np.isnan(means).any(axis=0)
    left_out = [methods[i] for i in np.flatnonzero(has_gap)]
    methods = [method for method in methods if method not in left_out]
    found = critical_difference(unit_means(means[:, ~has_gap], results.graphs))
    order = np.argsort(found.mean_rank, kind="stable")
    best = found.mean_rank[order[0]] if len(order) else NAN
    rows = [
        Row(
            methods[i],
            (
                Entry(float(found.mean_rank[i])),
                Entry(float(found.mean_rank[i] - best)),
                Entry(_exceeds(found.mean_rank[i] - best, found.difference)),
            ),
        )
        for i in order
    ]
    tests = {"critical difference": found.difference, "p of equal ranks": found.p_value}
    rows += [Row(name, (Entry(value), Entry(), Entry()), "Tests") for name, value in tests.items()]
    absent = f" Left out for missing records: {', '.join(left_out)}." if left_out else ""
    return ResultTable(
        f"ranks_{metric}",
        f"Mean ranks by {metric_of(metric).heading}, with the critical difference",
        ("mean rank", "difference from the best", "significantly worse than the best (1: yes)"),
        tuple(rows),
        decimals=(2, 2, 0),
        corner="method",
        note=(
            f"Ranks over {found.n_rows} graphs ({results.pooled_names} averaged; Texas and Cornell "
            f"count as one).{absent} Critical difference: from Nemenyi's test at 5%; a smaller "
            "difference of mean ranks is not significant. p of equal ranks: Friedman's test."
        ),
    )


def _exceeds(difference: float, limit: float) -> float:
    return NAN if np.isnan(limit) else float(difference > limit)


def protocols(results: Mapping[Protocol, Results], metric: str) -> ResultTable:
    """Show what the paper's early-stopped protocol does to each method."""
    stopped, converged = results["paper"], results["converged"]
    both = {m: m for m in stopped.methods if m in converged.methods and knows_protocols(m)}
    if "hots" in stopped.methods and "hots-predictor" in converged.methods:
        both["hots-predictor"] = "hots"  # the same estimate of homophily in both
    rows = []
    for method, counterpart in both.items():
        after, before = converged.matched(metric, method, counterpart, stopped)
        comparison = compare_paired(after, before, converged.graphs)
        values = (
            *(metric_of(metric).scale * average_present(np.stack([before, after], axis=1))),
            metric_of(metric).scale * comparison.mean_difference,
            comparison.p_value,
            float(comparison.n_graphs),
        )
        rows.append(Row(method, tuple(Entry(value) for value in values)))
    return ResultTable(
        f"protocols_{metric}",
        f"{metric_of(metric).heading} of early-stopped fits (paper) and of converged fits",
        ("paper", "converged", "difference", "p", "graphs"),
        tuple(rows),
        decimals=(3, 3, 3, 4, 0) if metric_of(metric).unit == "%" else (4, 4, 4, 4, 0),
        corner="method",
        note=(
            "Difference: converged minus paper (negative: converged fits are better). p: "
            "Wilcoxon's signed-rank test over graphs, not corrected. In the column paper, hots, "
            "homophily-only and hots-alpha1 estimate homophily with the paper's predictor; their "
            "converged fits use support. The row hots-predictor is hots with the paper's predictor "
            "in both columns."
        ),
    )


def reproduction(results: Results) -> ResultTable:
    """Count the paper's per-backbone values within its own standard deviations of ours."""
    rows = []
    metrics: tuple[published.Metric, ...] = ("ece", "degree_ece", "nll")
    for metric in metrics:
        for method in [*published.METHODS.values(), RELEASED]:
            named = "hots" if method == RELEASED else method
            distance = [
                abs(metric_of(metric).scale * mean - value.mean) / value.spread
                for (d, b, m), value in published.per_backbone(metric).items()
                if m == named
                and value.spread > 0
                and not np.isnan(mean := results.mean(metric, d, [b], method))
            ]
            if distance:
                off = np.array(distance)
                values = (*(float((off <= k).sum()) for k in (1, 2, 3)), float(len(off)))
                entries = (*map(Entry, values), Entry(float(np.median(off))))
                rows.append(Row(method, entries, group=metric_of(metric).heading))
    return ResultTable(
        "reproduction",
        "Agreement with the paper: published values by distance from our values",
        ("within 1", "within 2", "within 3", "all values", "median distance"),
        tuple(rows),
        decimals=(0, 0, 0, 0, 2),
        corner="method",
        note=(
            "Each value is the mean of a dataset with a backbone. Distance: absolute difference in "
            "published standard deviations. Within k: number of values at distance k or less."
            f"{note_on_ties(results)}"
        ),
    )
