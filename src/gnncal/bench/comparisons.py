"""Which gaps are real: every method at a glance, paired tests, ranks, and the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnncal.bench import paper
from gnncal.bench.plan import Protocol, knows_protocols
from gnncal.bench.results import FLOOR_OF, PERCENT, Results, scale
from gnncal.bench.summary import (
    average_present,
    compare_paired,
    critical_difference,
    holm,
    mean_ranks,
)
from gnncal.bench.table import FLOORS, NAN, UNRANKED, Entry, ResultTable, Row

RELEASED = "hots-release"  # also to be compared with the paper's HoTS
OVERVIEW = {
    "ece": "ECE %",
    "ece_floor": "floor %",
    "degree_ece": "degree ECE %",
    "classwise_ece": "class-wise ECE %",
    "smooth_ece": "smooth ECE %",
    "aurc": "AURC %",
    "nll": "NLL",
    "brier": "Brier",
}


def overview(results: Results) -> ResultTable:
    """Averages over graph x backbone means of every metric, for every method."""
    methods, rows = results.methods, results.graph_rows
    columns = [scale(m) * average_present(results.table(m, rows, methods)) for m in OVERVIEW]
    ranked = np.array([method != UNRANKED for method in methods])
    columns.append(mean_ranks(np.where(ranked, results.table("ece", rows, methods), NAN)))
    columns.append(np.array([_mean_fit_cpu_seconds(results, method) for method in methods]))
    columns.append((~np.isnan(results.table("ece", rows, methods))).sum(axis=0))
    columns.append(np.array([len(results.records(method)) for method in methods]))
    lines = [
        Row(method, tuple(Entry(float(column[i])) for column in columns))
        for i, method in enumerate(methods)
    ]
    return ResultTable(
        "overview",
        f"Every method, averaged over graph × backbone means ({results.pooled_names})",
        (*OVERVIEW.values(), "rank by ECE", "fit CPU s", "rows", "runs"),
        tuple(lines),
        decimals=(2,) * 6 + (4, 4, 2, 3, 0, 0),
        corner="method",
        note=(
            "A method that was not run everywhere is averaged over the graph × backbone rows that "
            "it was run on; methods with fewer rows are not to be compared by their averages."
        ),
    )


def by_dataset(results: Results, metric: str) -> ResultTable:
    """A metric of every method on every dataset, over the pooled backbones."""
    methods, datasets = results.methods, results.datasets
    rows = [(dataset, results.pooled_backbones) for dataset in datasets]
    table = scale(metric) * results.table(metric, rows, methods)
    floors = np.full_like(table, NAN)
    if metric in FLOOR_OF:
        floors = scale(metric) * results.table(FLOOR_OF[metric], rows, methods)
    lines = [
        Row(method, tuple(Entry(float(v), floor=float(f)) for v, f in zip(*column, strict=True)))
        for method, *column in zip(methods, table.T, floors.T, strict=True)
    ]
    return ResultTable(
        f"by_dataset_{metric}",
        f"{OVERVIEW[metric]} by dataset, mean over {results.pooled_names}",
        tuple(datasets),
        tuple(lines),
        decimals=3 if metric == "nll" else 2,
        corner="method",
        note=FLOORS if metric in FLOOR_OF else "",
    )


def against_reference(results: Results, metric: str, reference: str) -> ResultTable:
    """Every method against one: signed-rank test with Holm's correction, win rates."""
    others = [method for method in results.methods if method != reference]
    found = [compare_paired(*results.pairs(metric, m, reference), results.graphs) for m in others]
    adjusted = holm(np.array([comparison.p_value for comparison in found]))
    lines = [
        Row(
            method,
            tuple(
                Entry(value)
                for value in (
                    scale(metric) * comparison.mean_difference,
                    comparison.p_value,
                    float(p_holm),
                    100 * comparison.win_rate,
                    100 * comparison.win_rate_low,
                    100 * comparison.win_rate_high,
                    float(comparison.n_rows),
                )
            ),
        )
        for method, comparison, p_holm in zip(others, found, adjusted, strict=True)
    ]
    return ResultTable(
        f"against_{reference}_{metric}",
        f"{OVERVIEW[metric]} against {reference}, paired over graph × backbone means "
        f"({results.pooled_names})",
        ("difference", "p", "p (Holm)", "wins %", "low", "high", "pairs"),
        tuple(lines),
        decimals=(3 if metric in PERCENT else 4, 4, 4, 0, 0, 0, 0),
        corner="method",
        note=(
            f"Difference: method less {reference} over the seeds that both have, negative is "
            "better. p: Wilcoxon's signed ranks, two-sided, Holm over the methods of this table. "
            "Wins: share of pairs in which the method is lower, with a 95 % bootstrap interval "
            "over graphs."
        ),
    )


def ranks(results: Results, metric: str) -> ResultTable:
    """Mean ranks of the methods that have every row, and the critical difference."""
    rows = results.graph_rows
    methods = [method for method in results.methods if method != UNRANKED]
    table = results.table(metric, rows, methods)
    has_gap = np.isnan(table).any(axis=0)
    left_out = [methods[i] for i in np.flatnonzero(has_gap)]
    methods = [method for method in methods if method not in left_out]
    found = critical_difference(table[:, ~has_gap])
    order = np.argsort(found.mean_rank, kind="stable")
    best = found.mean_rank[order[0]] if len(order) else NAN
    lines = [
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
    lines += [Row(name, (Entry(value), Entry(), Entry()), "Tests") for name, value in tests.items()]
    absent = f" Left out, for want of rows: {', '.join(left_out)}." if left_out else ""
    return ResultTable(
        f"ranks_{metric}",
        f"Mean ranks by {OVERVIEW[metric]} with their critical difference",
        ("mean rank", "behind the best", "worse than the best (1 = yes)"),
        tuple(lines),
        decimals=(2, 2, 0),
        corner="method",
        note=(
            f"Over {len(rows)} graph × backbone rows ({results.pooled_names}).{absent} Nemenyi's "
            "critical difference at 5 %: methods closer than that are not told apart. Equal ranks: "
            "Friedman's test."
        ),
    )


def _exceeds(difference: float, limit: float) -> float:
    return NAN if np.isnan(limit) else float(difference > limit)


def protocols(results: Mapping[Protocol, Results], metric: str) -> ResultTable:
    """What the paper's early-stopped protocol does to each method."""
    stopped, converged = results["paper"], results["converged"]
    both = {m: m for m in stopped.methods if m in converged.methods and knows_protocols(m)}
    if "hots" in stopped.methods and "hots-predictor" in converged.methods:
        both["hots-predictor"] = "hots"  # the same estimate of homophily in both
    lines = []
    for method, counterpart in both.items():
        after, before = converged.pairs(metric, method, counterpart, stopped)
        comparison = compare_paired(after, before, converged.graphs)
        values = (
            *(scale(metric) * average_present(np.stack([before, after], axis=1))),
            scale(metric) * comparison.mean_difference,
            comparison.p_value,
            float(comparison.n_rows),
        )
        lines.append(Row(method, tuple(Entry(value) for value in values)))
    return ResultTable(
        f"protocols_{metric}",
        f"{OVERVIEW[metric]} fitted like the paper and to convergence",
        ("paper", "converged", "difference", "p", "pairs"),
        tuple(lines),
        decimals=(3, 3, 3, 4, 0) if metric in PERCENT else (4, 4, 4, 4, 0),
        corner="method",
        note=(
            "Difference: converged less paper. p: Wilcoxon's signed ranks, not corrected. hots, "
            "homophily-only and hots-alpha1 estimate homophily with the paper's predictor under "
            "its protocol and by support when converged; hots-predictor is hots with the "
            "predictor in both."
        ),
    )


def reproduction(results: Results) -> ResultTable:
    """How many of the paper's per-backbone figures lie within its own spread of ours."""
    lines = []
    metrics: tuple[paper.Metric, ...] = ("ece", "degree_ece", "nll")
    for metric in metrics:
        for method in [*paper.METHODS.values(), RELEASED]:
            named = "hots" if method == RELEASED else method
            distance = [
                abs(scale(metric) * mean - figure.mean) / figure.spread
                for (d, b, m), figure in paper.per_backbone(metric).items()
                if m == named
                and figure.spread > 0
                and not np.isnan(mean := results.mean(metric, d, [b], method))
            ]
            if distance:
                off = np.array(distance)
                values = (*(float((off <= k).sum()) for k in (1, 2, 3)), float(len(off)))
                entries = (*map(Entry, values), Entry(float(np.median(off))))
                lines.append(Row(method, entries, group=OVERVIEW[metric]))
    return ResultTable(
        "reproduction",
        "Figures of the paper (dataset × backbone) within its standard deviations of ours",
        ("within 1", "within 2", "within 3", "of", "median distance"),
        tuple(lines),
        decimals=(0, 0, 0, 0, 2),
        corner="method",
    )


def _mean_fit_cpu_seconds(results: Results, method: str) -> float:
    return float(np.mean([record.fit_cpu_seconds for record in results.records(method)]))
