"""One rare class and a class-weighted model: is P(positive) right, and who ranks best?

    python benchmarks/rare_classes.py --data DATA --cache results/practice

Graphs: tolokers, amazon_fraud, reddit_bans and twitch_RU as they are, and three more countries of
twitch whose positives were thinned to 5%. On each a GCN, and a stronger model, GraphSAGE with
mini-batches, are trained with class weights (40% training nodes), calibrated on 20% and judged on
40%. Differences between methods are paired over
test nodes: the interval is that of 1,000 bootstrap draws of the test nodes, averaged over seeds.
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from typing import Any

import numpy as np

import gnncal
from gnncal.data.arrays import FloatArray
from gnncal.metrics import METRICS, Outcomes
from gnncal_lab.bench.summary import compare_paired
from practice import IN_BATCHES, RARE, Models, Practice, options_for

GRAPHS = (*RARE, "twitch_RU", "twitch_DE@0.05", "twitch_ENGB@0.05", "twitch_PTBR@0.05")
METHODS = ("uncalibrated", "isotonic", "platt", "svs", "sms", "structural", "structural-free")
BACKBONES = ("gcn", IN_BATCHES)
GRAPH_FREE = ("uncalibrated", "isotonic", "platt")  # what the free method is held against
SHOWN = "structural-free"
MEASURES = (
    "nll",
    "positive_ece",
    "average_precision",
    "precision_among_top",
    "positive_mean",
    "positive_rate",
)
RANKED = ("average_precision", "precision_among_top")
N_DRAWS = 1000
POSITIVE = 1


def outcomes_of(task: Practice, method: str) -> Outcomes:
    """Return the test nodes with the method's probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gnncal.GnncalWarning)
        probs = gnncal.calibrate(
            task.logits,
            task.labels,
            task.graph,
            calibration_nodes=task.calibration_nodes,
            train_nodes=task.train_nodes,
            method=method,
        ).probabilities
    test = task.test_nodes
    return Outcomes(task.labels[test], probs[test], positive=POSITIVE)


def values_of(outcomes: Outcomes) -> dict[str, float]:
    values = {name: METRICS[name].of(outcomes) for name in MEASURES}
    floor = METRICS["positive_ece"].floor
    assert floor is not None
    return {**values, "positive_ece_floor": floor(outcomes).mean}


def gains(found: dict[str, Outcomes], generator: np.random.Generator) -> dict[str, FloatArray]:
    """Draws of the free method's value minus the best graph-free one's, by measure."""
    labels = found[SHOWN].labels
    draws: dict[str, list[float]] = {name: [] for name in RANKED}
    for _ in range(N_DRAWS):
        rows = generator.integers(len(labels), size=len(labels))
        drawn = {
            method: Outcomes(
                labels[rows], found[method].probs[rows], positive=POSITIVE, is_checked=True
            )
            for method in (SHOWN, *GRAPH_FREE)
        }
        for name in RANKED:
            value = {method: METRICS[name].of(each) for method, each in drawn.items()}
            draws[name].append(value[SHOWN] - max(value[method] for method in GRAPH_FREE))
    return {name: np.array(each) for name, each in draws.items()}


def judge_graph(models: Models, name: str, backbone: str, seeds: int) -> dict[str, Any]:
    values: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    draws: dict[str, list[FloatArray]] = {measure: [] for measure in RANKED}
    for seed in range(seeds):
        task = models.practice(name, seed, weighted=True, backbone=backbone)
        found = {method: outcomes_of(task, method) for method in METHODS}
        for method, outcomes in found.items():
            values[method].append(values_of(outcomes))
        for measure, each in gains(found, np.random.default_rng(seed)).items():
            draws[measure].append(each)
    means = {
        method: {key: float(np.mean([one[key] for one in each])) for key in each[0]}
        for method, each in values.items()
    }
    gain = {}
    for measure, each in draws.items():
        best = max(means[method][measure] for method in GRAPH_FREE)
        low, high = np.quantile(np.mean(each, axis=0), [0.025, 0.975])
        gain[measure] = {
            "mean": means[SHOWN][measure] - best,
            "low": float(low),
            "high": float(high),
        }
    model = {"graph": name, "backbone": backbone}
    return {**model, "methods": means, f"{SHOWN} minus the best without a graph": gain}


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/rare_classes.json")
    parser.add_argument("--tables", action="store_true", help="only print the tables of --out")
    options = parser.parse_args()
    if options.tables:
        rows = json.loads(options.out.read_text())
        print(tables(rows), against_platt(rows), sep="\n\n")
        return
    models = Models(options.data, options.cache)
    rows = []
    for backbone, name in product(BACKBONES, GRAPHS):
        rows.append(judge_graph(models, name, backbone, options.seeds))
        print(tables(rows[-1:]), flush=True)
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(against_platt(rows))


def tables(rows: list[dict[str, Any]]) -> str:
    """Return the tables of docs/rare_classes.md."""
    lines = [
        "| | log loss | error of P, % (floor) | mean P, % | average precision | top 100, % |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        rate = 100 * row["methods"][SHOWN]["positive_rate"]
        title = f"**{row['graph']}**, {row['backbone']}, {rate:.1f}% positive"
        lines.append(f"| {title} | | | | | |")
        for method, value in row["methods"].items():
            error, floor = 100 * value["positive_ece"], 100 * value["positive_ece_floor"]
            lines.append(
                f"| `{method}` | {value['nll']:.3f} | {error:.1f} ({floor:.1f}) | "
                f"{100 * value['positive_mean']:.1f} | {value['average_precision']:.3f} | "
                f"{100 * value['precision_among_top']:.0f} |"
            )
    lines += ["", "| | average precision | precision among the top 100, points |", "|---|---|---|"]
    for row in rows:
        gain = row[f"{SHOWN} minus the best without a graph"]
        precision, top = gain["average_precision"], gain["precision_among_top"]
        low, high = (100 * top[end] for end in ("low", "high"))
        lines.append(
            f"| {row['graph']}, {row['backbone']} | {precision['mean']:+.3f} "
            f"[{precision['low']:+.3f}, {precision['high']:+.3f}] | {100 * top['mean']:+.1f} "
            f"[{low:+.1f}, {high:+.1f}] |"
        )
    return "\n".join(lines)


def against_platt(rows: list[dict[str, Any]]) -> str:
    """Return the free method less `platt` and less `svs`, with graphs as units."""
    lines = ["| model | less | measure | difference | 95% interval |", "|---" * 5 + "|"]
    for backbone, rival in product(BACKBONES, ("platt", "svs")):
        own = [row for row in rows if row["backbone"] == backbone]
        graphs = [row["graph"] for row in own]
        if not own:
            continue
        for measure in ("nll", *RANKED, "positive_ece"):
            values = [[r["methods"][m][measure] for r in own] for m in (SHOWN, rival)]
            c = compare_paired(*values, graphs)
            lines.append(
                f"| {backbone} | `{rival}` | {measure} | {c.mean_difference:+.4f} | "
                f"[{c.low:+.4f}, {c.high:+.4f}] |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
