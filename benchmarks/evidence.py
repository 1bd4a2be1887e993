"""The tables of docs/evidence.md, from the records of `gnncal bench run`.

    python benchmarks/evidence.py results
    python benchmarks/evidence.py results --after NEW   # the structural methods of two versions

Converged fits, GCN and GAT averaged, graphs as units (Texas and Cornell are one), differences over
the seeds that both methods have, Holm over the tests of a table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import stats

from families import FAMILIES
from gnncal_lab.bench.results import Results, Selection, metric_of, read_results
from gnncal_lab.bench.summary import compare_paired, holm, unit_means

TINY = FAMILIES["web pages"]  # 18 to 25 calibration nodes; the other graphs have at least 227
CLAIMED = ("ts", "entropy-only", "hts", "hots", "rbs", "cagcn", "gats", "wats")
KEEPING = (*CLAIMED, "ets", "hts-log", "irm", "order-invariant", "simi-mailbox")
FREE = ("vs", "svs", "sms", "dirichlet", "gets", "platt", "beta", "matrix")
OURS = ("structural", "structural-temperature", "structural-vector", "structural-free")
MEASURED = ("nll", "brier", "ece", "classwise_ece", "aurc", "accuracy")


def overview(results: Results, methods: list[str]) -> str:
    """Mean over graphs of every metric and of ECE above its floor, seeds as `structural` has."""
    heads = [metric_of(name).heading for name in MEASURED]
    lines = [
        "| method | " + " | ".join([*heads, "ECE above floor"]) + " |",
        "|---" * (len(MEASURED) + 2) + "|",
    ]
    for method in methods:
        cells = []
        for name in MEASURED:
            metric = metric_of(name)
            mean = unit_means(results.matched(name, method, OURS[0])[0], results.graphs)
            cells.append(metric.shown(float(np.nanmean(mean))))
        cells.append(f"{100 * excess(results, method):.2f}")
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def excess(results: Results, method: str) -> float:
    """Mean over graphs of ECE minus the ECE that perfect calibration would show."""
    ece, floor = (results.matched(name, method, OURS[0])[0] for name in ("ece", "ece_floor"))
    return float(np.nanmean(unit_means(ece - floor, results.graphs)))


def against(results: Results, method: str, rivals: list[str], metric: str = "nll") -> str:
    """Differences from rivals with tests: thousandths of a nat, or percentage points."""
    unit, scale = ("points", 100) if metric_of(metric).unit == "%" else ("10⁻³ nats", 1000)
    found = [compare_paired(*results.matched(metric, method, r), results.graphs) for r in rivals]
    adjusted = holm(np.array([comparison.p_value for comparison in found]))
    lines = [
        f"| `{method}` minus | difference, {unit} | 95% interval | graphs where lower | p "
        "| p (Holm) |",
        "|---|---|---|---|---|---|",
    ]
    for rival, c, p in zip(rivals, found, adjusted, strict=True):
        lines.append(
            f"| `{rival}` | {scale * c.mean_difference:+.1f} | [{scale * c.low:+.1f}, "
            f"{scale * c.high:+.1f}] | {c.win_rate * c.n_graphs:g} of {c.n_graphs} | "
            f"{shown(c.p_value)} | {shown(p)} |"
        )
    return "\n".join(lines)


def shown(p: float) -> str:
    """Return a p-value as a table shows it."""
    return f"{p:.4f}" if p >= 5e-5 else "< 0.0001"


def by_graph(results: Results, method: str, reference: str) -> str:
    """On each graph: difference over seeds and backbones, and whether it is worse."""
    lines = [
        f"| graph | `{method}` minus `{reference}`, 10⁻³ nats | runs where lower | p |",
        "|---|---|---|---|",
    ]
    for dataset in results.datasets:
        gaps: list[float] = []
        for backbone in results.pooled_backbones:
            ours = results._by_seed("nll", dataset, backbone, method)
            theirs = results._by_seed("nll", dataset, backbone, reference)
            gaps += [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
        gap = np.array(gaps)
        if not gap.size:
            continue
        p = stats.wilcoxon(gap).pvalue
        lines.append(
            f"| {dataset} | {1000 * gap.mean():+.1f} | {(gap < 0).sum()} of {gap.size} "
            f"| {shown(p)} |"
        )
    return "\n".join(lines)


def before_and_after(before: Results, after: Results) -> str:
    """The structural methods of two versions on the same frozen logits, graphs as units."""
    lines = [
        "| after minus before | graphs | difference, 10⁻³ nats | 95% interval | graphs where lower "
        "| after minus `ts` |",
        "|---" * 6 + "|",
    ]
    kinds = {"at least 100 nodes": lambda graph: graph not in TINY, "few": lambda g: g in TINY}
    for method in OURS:
        for title, belongs in kinds.items():
            rows, graphs = [], []
            for graph in filter(belongs, after.datasets):
                for backbone in after.pooled_backbones:
                    cells = [
                        results._by_seed("nll", graph, backbone, name)
                        for results, name in ((before, method), (after, method), (after, "ts"))
                    ]
                    seeds = sorted(set.intersection(*(set(cell) for cell in cells)))
                    if seeds:
                        rows.append([np.mean([cell[seed] for seed in seeds]) for cell in cells])
                        graphs.append(graph)
            if not rows:
                continue
            earlier, later, reference = np.array(rows).T
            c, ts = compare_paired(later, earlier, graphs), compare_paired(later, reference, graphs)
            lines.append(
                f"| `{method}` | {title} | {1000 * c.mean_difference:+.1f} | "
                f"[{1000 * c.low:+.1f}, {1000 * c.high:+.1f}] | {c.win_rate * c.n_graphs:g} of "
                f"{c.n_graphs} | {1000 * ts.mean_difference:+.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--after", type=Path, help="records of a later version on the same logits")
    parser.add_argument("--backbones", default="gcn,gat")
    options = parser.parse_args()
    backbones = tuple(options.backbones.split(","))
    if options.after is not None:
        both = (options.folder, options.after)
        selection = Selection(backbones=backbones)
        print(before_and_after(*(read_results(f, selection)["converged"] for f in both)))
        return
    everything = read_results(options.folder, Selection(backbones=backbones))["converged"]
    of_ours = Selection(methods=("structural",), backbones=backbones)
    judged = read_results(options.folder, of_ours)["converged"].datasets
    large = tuple(dataset for dataset in judged if dataset not in TINY)
    results = read_results(options.folder, Selection(datasets=large, backbones=backbones))[
        "converged"
    ]
    tiny = read_results(options.folder, Selection(datasets=TINY, backbones=backbones))["converged"]
    keeping = [m for m in KEEPING if m in results.methods]
    free = [m for m in FREE if m in results.methods]
    ours = [m for m in OURS if m in results.methods]
    print(f"## At least 100 calibration nodes ({len(large)} graphs)\n")
    print(overview(results, ["uncalibrated", *keeping, *free, *ours]), "\n")
    for method in ours[:2]:
        print(against(results, method, [m for m in keeping if m in CLAIMED]), "\n")
        print(against(results, method, [m for m in keeping if m not in CLAIMED]), "\n")
    for method in ours[2:]:
        print(against(results, method, ["ts", *free]), "\n")
    print(against(results, "structural-free", ["structural"]), "\n")
    print(
        f"structural's ECE above floor over HoTS's: "
        f"{excess(results, 'structural') / excess(results, 'hots'):.2f}\n"
    )
    print("ECE:\n")
    print(against(results, "structural", ["uncalibrated", "ts"], "ece"), "\n")
    print(by_graph(everything, "structural", "ts"), "\n")
    print("## 18 to 25 calibration nodes (Texas, Cornell, Wisconsin)\n")
    print(
        overview(tiny, ["uncalibrated", "ts", "entropy-only", "hts", "hots", "svs", "sms", *ours])
    )
    print("\n## All graphs\n")
    for method in ours:
        print(
            against(everything, method, ["ts", "entropy-only", "hts", "hots", "svs", "sms"]), "\n"
        )
    print("## HoTS, with graphs as units\n")
    print(against(results, "hots", ["ts", "entropy-only"]), "\n")
    print(against(everything, "hots", ["ts", "entropy-only"]))


if __name__ == "__main__":
    main()
