"""Graphs that took no part in any choice: do the main methods hold there?

    python benchmarks/external.py --data DATA --cache results/practice --seeds 5

Eight graphs (acm, blogcatalog, flickr, uai, dblp, cora_ml, minesweeper, facebook), GCN and GAT,
20 % training, 10 % calibration and 70 % test nodes. Graphs are the units: seeds and backbones of
one graph are averaged first. Nothing was chosen on these graphs, and nothing may be.
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
from gnncal.lab.bench.summary import compare_paired, holm
from gnncal.metrics import METRICS, Outcomes
from gnncal.nodes import Nodes
from practice import EXTERNAL, Models, options_for

BACKBONES = ("gcn", "gat")
SHARES = (0.2, 0.1)
METHODS = (
    *("uncalibrated", "ts", "hts", "entropy-only", "hots", "rbs", "svs", "sms"),
    *("structural-temperature", "structural", "structural-vector", "structural-free"),
)
MEASURES = ("nll", "ece", "accuracy")
REFERENCE = "ts"


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
                nodes, task.labels, nodes=task.nodes, train_nodes=task.train_nodes
            )
            probs = calibrator.predict_proba(nodes)
        outcomes = Outcomes(task.labels[test], probs[test], degree, is_checked=True)
        row["methods"][method] = {name: METRICS[name].of(outcomes) for name in MEASURES}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of docs/evidence.md: means over graphs, and differences from TS."""
    pairs = list(dict.fromkeys((row["graph"], row["backbone"]) for row in rows))
    graphs = [graph for graph, _ in pairs]

    def values(method: str, measure: str) -> list[float]:
        return [
            float(
                np.mean(
                    [
                        row["methods"][method][measure]
                        for row in rows
                        if (row["graph"], row["backbone"]) == pair
                    ]
                )
            )
            for pair in pairs
        ]

    others = [method for method in METHODS if method != REFERENCE]
    compared = {
        method: compare_paired(values(method, "nll"), values(REFERENCE, "nll"), graphs)
        for method in others
    }
    adjusted = dict(
        zip(others, holm(np.array([c.p_value for c in compared.values()])), strict=True)
    )
    lines = [
        "| method | NLL | ECE % | accuracy % | less `ts`, 10⁻³ nats | 95 % interval | below on "
        "| p (Holm) |",
        "|---" * 8 + "|",
    ]
    for method in METHODS:
        nll, ece, accuracy = (float(np.mean(values(method, name))) for name in MEASURES)
        cells = f"| `{method}` | {nll:.4f} | {100 * ece:.2f} | {100 * accuracy:.2f} |"
        if method != REFERENCE:
            c = compared[method]
            cells += (
                f" {1000 * c.mean_difference:+.1f} | [{1000 * c.low:+.1f}, {1000 * c.high:+.1f}] | "
                f"{c.win_rate * c.n_graphs:g} of {c.n_graphs} | {adjusted[method]:.4f} |"
            )
        lines.append(cells if method != REFERENCE else cells + " | | | |")
    return "\n".join(lines)


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/external.json").parse_args()
    models = Models(options.data, options.cache)
    rows: list[dict[str, Any]] = []
    for seed, graph, backbone in product(range(options.seeds), EXTERNAL, BACKBONES):
        rows.append(judge(models, graph, backbone, seed))
        print(seed, graph, backbone, flush=True)
        _write(options.out, rows)
    print(table(rows))


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"version": __version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
