"""Graphs that took no part in any choice: do the main methods hold there?

    python benchmarks/external.py --data DATA --cache results/practice --seeds 5
    python benchmarks/external.py --show    # the tables of benchmarks/results/external.json again

Eight graphs (acm, blogcatalog, flickr, uai, dblp, cora_ml, minesweeper, facebook), GCN and GAT,
20% training, 10% calibration and 70% test nodes. Graphs are the units: seeds and backbones of
one graph are averaged first. Nothing was chosen on these graphs, and nothing may be. Seeds start at
1: the labels of minesweeper were drawn with the very permutation that seed 0 gives, so that all
training nodes of that split would be mines.
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import gnncal
from gnncal import __version__
from gnncal.data.nodes import Nodes
from gnncal.metrics import METRICS, Outcomes
from gnncal_lab.bench.summary import PairedComparison, compare_paired, holm
from practice import EXTERNAL, Models, options_for

BACKBONES = ("gcn", "gat")
SHARES = (0.2, 0.1)
METHODS = (
    *("uncalibrated", "ts", "hts", "entropy-only", "hots", "rbs", "svs", "sms"),
    *("structural-temperature", "structural", "structural-vector", "structural-free"),
)
MEASURES = ("nll", "ece", "accuracy")
REFERENCE = "ts"
COMPARED = (
    ("structural", "hots", "nll"),
    ("structural", "structural-temperature", "nll"),
    ("structural-free", "sms", "nll"),
    ("structural-free", "structural", "nll"),
    ("structural", "ts", "ece"),
    ("structural-free", "ts", "ece"),
)


def judge(models: Models, graph: str, backbone: str, seed: int) -> dict[str, Any]:
    """Return every method's measures on the test nodes of one model."""
    task = models.practice(graph, seed, backbone=backbone, shares=SHARES)
    nodes, test = Nodes(task.logits, task.graph), task.test_nodes
    degree = task.graph.in_degree[test]
    row: dict[str, Any] = {"graph": graph, "backbone": backbone, "seed": seed, "methods": {}}
    for method in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gnncal.GnncalWarning)
            calibrator = gnncal.get_calibrator(method).fit(
                nodes,
                task.labels,
                calibration_nodes=task.calibration_nodes,
                train_nodes=task.train_nodes,
            )
            probs = calibrator.predict_proba(nodes)
        outcomes = Outcomes(task.labels[test], probs[test], degree, is_checked=True)
        row["methods"][method] = {name: METRICS[name].of(outcomes) for name in MEASURES}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of docs/evidence.md: means over graphs, and differences from TS."""
    others = [method for method in METHODS if method != REFERENCE]
    compared = {method: compare(rows, method, REFERENCE, "nll") for method in others}
    adjusted = dict(
        zip(others, holm(np.array([c.p_value for c in compared.values()])), strict=True)
    )
    lines = [
        "| method | NLL | ECE % | accuracy % | NLL minus `ts`, 10⁻³ nats | 95% interval "
        "| graphs where lower | p (Holm) |",
        "|---" * 8 + "|",
    ]
    for method in METHODS:
        nll, ece, accuracy = (float(np.mean(values(rows, method, name))) for name in MEASURES)
        cells = f"| `{method}` | {nll:.4f} | {100 * ece:.2f} | {100 * accuracy:.2f} |"
        if method != REFERENCE:
            cells += f"{difference(compared[method], 1000)} {adjusted[method]:.4f} |"
        lines.append(cells if method != REFERENCE else cells + " | | | |")
    return "\n".join(lines)


def values(rows: list[dict[str, Any]], method: str, measure: str) -> list[float]:
    """Means over seeds, one for each graph and backbone."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        pair = row["graph"], row["backbone"]
        grouped.setdefault(pair, []).append(row["methods"][method][measure])
    return [float(np.mean(group)) for group in grouped.values()]


def compare(rows: list[dict[str, Any]], method: str, other: str, measure: str) -> PairedComparison:
    """Compare two methods, with graphs as units."""
    graphs = [graph for graph, _ in dict.fromkeys((r["graph"], r["backbone"]) for r in rows)]
    return compare_paired(values(rows, method, measure), values(rows, other, measure), graphs)


def difference(c: PairedComparison, scale: float) -> str:
    """Return mean, interval and graphs won, as cells of a table."""
    return (
        f" {scale * c.mean_difference:+.1f} | [{scale * c.low:+.1f}, {scale * c.high:+.1f}] | "
        f"{c.win_rate * c.n_graphs:g} of {c.n_graphs} |"
    )


def pairs_of_methods(rows: list[dict[str, Any]]) -> str:
    """Return the comparisons of docs/evidence.md beside those with TS."""
    lines = ["| pair | difference | 95% interval | graphs where lower | p |", "|---" * 5 + "|"]
    for method, other, measure in COMPARED:
        c, scale = compare(rows, method, other, measure), 1000 if measure == "nll" else 100
        unit = "10⁻³ nats" if measure == "nll" else "points of ECE"
        cells = f"| `{method}` minus `{other}`, {unit} |{difference(c, scale)}"
        lines.append(f"{cells} {c.p_value:.4f} |")
    return "\n".join(lines)


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/external.json")
    parser.add_argument("--show", action="store_true", help="only print the tables of --out")
    options = parser.parse_args()
    if options.show:
        rows = json.loads(options.out.read_text())["rows"]
        print(table(rows), pairs_of_methods(rows), sep="\n\n")
        return
    models = Models(options.data, options.cache)
    rows = []
    for seed, graph, backbone in product(range(1, options.seeds + 1), EXTERNAL, BACKBONES):
        rows.append(judge(models, graph, backbone, seed))
        print(seed, graph, backbone, flush=True)
        _write(options.out, rows)
    print(table(rows), pairs_of_methods(rows), sep="\n\n")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"version": __version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
