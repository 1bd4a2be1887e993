"""Does MRP rank nodes better than their confidence does?

    python benchmarks/reliability.py --cache LOGITS --data RAW --seeds 3
    python benchmarks/reliability.py --tables-only      # of the cells that are recorded already

For each frozen classifier, after `ts` and after `structural`. One half of the calibration nodes
fits the calibrator, the other half the ranking, as published (without a part to choose settings
on). The fair rival needs no ranking, so its calibrator gets all calibration nodes. All of them keep
predictions: only the order of the test nodes differs.

Graphs are units of the intervals; Holm over the comparisons of a metric.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from families import for_each_task, options_for
from gnncal.calibrators.catalogue import get_calibrator
from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.decisions import hold_out
from gnncal.files import Bundle
from gnncal.metrics.ranking import Ranking
from gnncal.metrics.risk_coverage import curve_of
from gnncal.nodes import Nodes
from gnncal_lab import MonotoneReliability
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task
from gnncal_lab.bench.summary import compare_paired, holm, unit_means

CALIBRATORS = ("ts", "structural")
RIVAL = "confidence"
HALF = "confidence, half of the nodes"
RANKINGS = {  # what each is fitted on is said by its name
    HALF: None,
    "MRP": {},
    "MRP, prior of 10": {"prior_nodes": 10.0},
    "MRP as published": {"protocol": "paper"},
}
INTERCEPT, SAME = "label intercept", "MRP, all nodes for both"
WAYS = (*RANKINGS, INTERCEPT, SAME)
COVERAGES = (0.5, 0.7, 0.9)
METRICS = {"AURC": 1, "AUPR-Error": -1, **{f"accuracy at {c:.0%}": -1 for c in COVERAGES}}
AMONG_THEMSELVES = (("MRP", HALF), ("MRP as published", "MRP"), (INTERCEPT, "MRP"))


def probabilities(bundle: Bundle, method: str, nodes: IntArray) -> FloatArray:
    every = Nodes(bundle.logits, bundle.graph)
    labelled = every.with_labels(bundle.labels, nodes=nodes, train_nodes=bundle.train_nodes)
    return get_calibrator(method).fit(labelled).predict_proba(every)


def with_intercepts(probs: FloatArray, labels: IntArray, nodes: IntArray) -> FloatArray:
    """The ablation: log-odds of the confidence plus a number for each predicted class.

    A standard normal prior keeps the number of a class finite whose predictions are all right.
    """
    predicted = probs.argmax(axis=1)
    base = logit(np.clip(probs.max(axis=1).astype(float), 1e-6, 1 - 1e-6))
    offsets = np.zeros(probs.shape[1])
    for c in np.unique(predicted[nodes]):
        here = nodes[predicted[nodes] == c]
        f, right = base[here], labels[here] == c

        def loss(a: float, f: FloatArray = f, right: BoolArray = right) -> float:
            return float(np.sum(np.logaddexp(0, f + a) - right * (f + a)) + a * a / 2)

        offsets[c] = minimize_scalar(loss, bounds=(-10, 10), method="bounded").x
    return expit(base + offsets[predicted])


def measured(score: FloatArray, right: BoolArray) -> list[float]:
    correct = right.astype(float)
    risk = curve_of(score, correct).risk
    kept = np.ceil(np.array(COVERAGES) * len(risk)).astype(int)
    aupr = Ranking.of(score, 1.0 - correct).reversed.average_precision()
    return [float(risk.mean()), np.nan if aupr is None else aupr, *(1.0 - risk[kept - 1])]


def work(task: Task, provider: TrainedLogits) -> dict[str, dict[str, list[float]]]:
    bundle = provider.load(task)
    labels, test = bundle.labels, bundle.test_nodes
    predicted = bundle.logits.argmax(axis=1)
    right = predicted[test] == labels[test]
    for_calibrator, for_ranking = hold_out(bundle.nodes, random_state=task.seed)
    found: dict[str, dict[str, list[float]]] = {}
    for method in CALIBRATORS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits with a handful of nodes
            whole = probabilities(bundle, method, bundle.nodes)
            half = probabilities(bundle, method, for_calibrator)
            scores = {RIVAL: whole.max(axis=1)}
            for way, params in RANKINGS.items():
                if params is None:
                    scores[way] = half.max(axis=1)
                    continue
                ranking = MonotoneReliability(**params).fit(half, labels, nodes=for_ranking)
                scores[way] = ranking.score(half)
            scores[INTERCEPT] = with_intercepts(half, labels, for_ranking)
            scores[SAME] = MonotoneReliability().fit(whole, labels, nodes=bundle.nodes).score(whole)
        for probs in (whole, half):
            assert (probs.argmax(axis=1) == predicted).all(), "predictions changed"
        found[method] = {
            way: measured(np.asarray(score, dtype=float)[test], right)
            for way, score in scores.items()
        }
    print(task.dataset, task.backbone, task.seed, flush=True)
    return found


def compared(cells: dict[tuple[str, str], FloatArray], graphs: list[str]) -> list[dict]:
    """Each way less its rival, with the interval over graphs."""
    pairs = [((m, way), (m, RIVAL)) for m in CALIBRATORS for way in WAYS]
    pairs += [((m, way), (m, other)) for m in CALIBRATORS for way, other in AMONG_THEMSELVES]
    pairs.append((("ts", "MRP"), ("structural", RIVAL)))
    rows = []
    for j, (metric, sign) in enumerate(METRICS.items()):
        tests = [
            compare_paired(sign * cells[ours][:, j], sign * cells[rival][:, j], graphs)
            for ours, rival in pairs
        ]
        adjusted = holm(np.array([test.p_value for test in tests]))
        for (ours, rival), test, p in zip(pairs, tests, adjusted, strict=True):
            low, high = sorted((sign * test.low, sign * test.high))
            rows.append(
                {
                    **asdict(test),
                    "calibrator": ours[0],
                    "ranking": ours[1],
                    "rival": " ".join(rival),
                    "metric": metric,
                    "mean_difference": sign * test.mean_difference,
                    "low": low,
                    "high": high,
                    "p_holm": float(p),
                }
            )
    return rows


def recorded(found: dict[Task, dict[str, dict[str, list[float]]]]) -> list[dict]:
    """Means over seeds, one cell for each graph, backbone, calibrator and ranking."""
    cells = []
    for graph, backbone in dict.fromkeys((task.dataset, task.backbone) for task in found):
        seeds = [r for t, r in found.items() if (t.dataset, t.backbone) == (graph, backbone)]
        for method in CALIBRATORS:
            for way in (RIVAL, *WAYS):
                values = np.mean([result[method][way] for result in seeds], axis=0).tolist()
                about = {"graph": graph, "backbone": backbone, "calibrator": method, "ranking": way}
                cells.append(about | dict(zip(METRICS, values, strict=True)))
    return cells


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/reliability.json")
    parser.add_argument("--tables-only", action="store_true", help="of the file of the results")
    options = parser.parse_args()
    if options.tables_only:
        record = json.loads(options.out.read_text())
    else:
        found = for_each_task(options, work)
        about = {"seeds": options.seeds, "backbones": options.backbones.split(",")}
        record = {**about, "n_classifiers": len(found), "cells": recorded(found)}
    columns: dict[tuple[str, str], list[list[float]]] = {}
    for cell in record["cells"]:
        values = [cell[metric] for metric in METRICS]
        columns.setdefault((cell["calibrator"], cell["ranking"]), []).append(values)
    tables = {key: np.array(values) for key, values in columns.items()}
    first = ("ts", RIVAL)
    graphs = [c["graph"] for c in record["cells"] if (c["calibrator"], c["ranking"]) == first]
    comparisons = compared(tables, graphs)
    means = {
        f"{method}, {way}": dict(zip(METRICS, unit_means(values, graphs).mean(0), strict=True))
        for (method, way), values in tables.items()
    }
    print_tables(means, comparisons)
    written = {**record, "means": means, "comparisons": comparisons}
    options.out.write_text(json.dumps(written, indent=1) + "\n")


def print_tables(means: dict[str, dict[str, float]], comparisons: list[dict]) -> None:
    print("| calibrator, ranking | " + " | ".join(METRICS) + " |")
    print("|---" * (len(METRICS) + 1) + "|")
    for name, values in means.items():
        print(f"| {name} | " + " | ".join(f"{100 * value:.2f}" for value in values.values()) + " |")
    print("\n| ranking | rival | metric | difference | better on | p | p (Holm) |")
    print("|---" * 7 + "|")
    for row in comparisons:
        print(
            f"| {row['calibrator']}, {row['ranking']} | {row['rival']} | {row['metric']} | "
            f"{100 * row['mean_difference']:+.2f} [{100 * row['low']:+.2f}, "
            f"{100 * row['high']:+.2f}] | {row['win_rate'] * row['n_graphs']:g} of "
            f"{row['n_graphs']} | {row['p_value']:.3f} | {row['p_holm']:.3f} |"
        )


if __name__ == "__main__":
    main()
