"""How often `gnncal.calibrate` says that keeping predictions is the mistake, and when.

    python benchmarks/keeping_predictions.py --data DATA --cache LOGITS --seeds 3

Three kinds of models: those of the paper's protocol on the fourteen graphs, and those of
`practice.py` without and with class weights. For each fit that keeps predictions: the price that
cross-validation on the calibration nodes finds, whether it is said, and what the test nodes say,
which took no part in it. At the end: which share of `calibrate` the comparison takes, in CPU time.
"""

from __future__ import annotations

import json
import warnings
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed

import gnncal
from families import for_each_task, options_for
from gnncal.data.probability import log_losses
from gnncal.files.bundle import Bundle
from gnncal.keeping_cost import (
    LEVEL,
    MIN_COST_SHARE,
    Halves,
    cost_of_keeping_predictions,
    gain_without_constraint,
)
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task
from practice import IN_BATCHES, LIBRARIES, RARE, TWITCH, Models
from rare_classes import GRAPHS
from speed_data import make_problem

METHODS = ("structural", "hots", "ts")
SIZES = ((20_000, 200_000), (100_000, 1_000_000))  # nodes and edges, with 40 classes
FAVOUR = 12.0  # added to the logits of three classes, so that there is something to say
KINDS = {
    "ordinary": "the fourteen graphs, as in the paper",
    "plain": "practice, without class weights",
    "weighted": "practice, with class weights",
    "strong": "GraphSAGE in mini-batches, with class weights",
}


def prices(bundle: Any) -> list[dict[str, Any]]:
    """What keeping predictions costs a model by each method, and whether it is said."""
    nodes = gnncal.Nodes(bundle.logits, bundle.graph)
    splits = {"calibration_nodes": bundle.calibration_nodes, "train_nodes": bundle.train_nodes}
    labelled, test = nodes.with_labels(bundle.labels, **splits), np.asarray(bundle.test_nodes)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gnncal.GnncalWarning)
        free = gnncal.get_calibrator("structural-free").fit(labelled).predict_proba(nodes)
        for method in METHODS:
            calibrator = gnncal.get_calibrator(method).fit(labelled)
            probs = calibrator.predict_proba(nodes)
            price = cost_of_keeping_predictions(calibrator, labelled, probs)
            gain = gain_without_constraint(calibrator, Halves(labelled), probs, worth=-np.inf)
            judged = [log_losses(each[test], bundle.labels[test]) for each in (probs, free)]
            rows.append(
                {
                    "method": method,
                    "n_calibration_nodes": len(bundle.calibration_nodes),
                    "nats": gain.nats,
                    "share": gain.share,
                    "standard_error": gain.standard_error,
                    "said": None if price is None else asdict(price),
                    "test_nats": float((judged[0] - judged[1]).mean()),
                }
            )
    return rows


def of_ordinary(task: Task, provider: TrainedLogits) -> list[dict[str, Any]]:
    """Prices of a model of the paper's protocol."""
    bundle: Bundle = provider.load(task)
    model = {"kind": "ordinary", "graph": task.dataset, "backbone": task.backbone}
    return [{**model, "seed": task.seed, **row} for row in prices(bundle)]


def of_practice(models: Models, name: str, seed: int, weighted: bool) -> list[dict[str, Any]]:
    """Prices of a model of practice."""
    made = models.practice(name, seed, weighted=weighted)
    model = {"kind": "weighted" if weighted else "plain", "graph": name, "backbone": "gcn"}
    return [{**model, "seed": seed, **row} for row in prices(made)]


def of_strong(models: Models, name: str, seed: int) -> list[dict[str, Any]]:
    """Prices of a class-weighted GraphSAGE that was trained in mini-batches."""
    made = models.practice(name, seed, weighted=True, backbone=IN_BATCHES)
    model = {"kind": "strong", "graph": name, "backbone": IN_BATCHES}
    return [{**model, "seed": seed, **row} for row in prices(made)]


def practised(options: Namespace) -> list[dict[str, Any]]:
    """Prices of every model of practice."""
    models = Models(options.data, options.practice)
    found = Parallel(n_jobs=options.jobs)(
        delayed(of_practice)(models, name, seed, weighted)
        for name in (*RARE, *TWITCH, *LIBRARIES)
        for weighted in (False, True)
        for seed in range(options.seeds)
    )
    found += Parallel(n_jobs=options.jobs)(
        delayed(of_strong)(models, name, seed) for name in GRAPHS for seed in range(options.seeds)
    )
    return [row for rows in found for row in rows]


def costs(rounds: int = 5) -> Iterator[dict[str, Any]]:
    """CPU seconds of `calibrate` and of the comparison in it; the fastest round of each."""
    for n_nodes, n_edges in SIZES:
        problem = make_problem(n_nodes, n_edges, 40)
        graph = gnncal.Graph(problem.edge_index, n_nodes)
        nodes, test_nodes = problem.split(training=0.1)
        logits = problem.logits + FAVOUR * (np.arange(40, dtype=np.float32) < 3)
        for method in METHODS:
            found = []
            for _ in range(rounds):
                spent: list[float] = []

                def timed(*arguments: Any, spent: list[float] = spent) -> Any:
                    start = process_time()
                    price = cost_of_keeping_predictions(*arguments)
                    spent.append(process_time() - start)
                    return price

                with patch("gnncal.calibration.cost_of_keeping_predictions", timed):
                    start = process_time()
                    result = gnncal.calibrate(
                        logits,
                        problem.labels,
                        graph,
                        calibration_nodes=nodes,
                        test_nodes=test_nodes,
                        method=method,
                    )
                    found.append((process_time() - start, spent[0]))
            assert result.advice is not None  # the comparison was made to its end
            whole, part = min(found)
            size = {"n_nodes": n_nodes, "n_edges": n_edges, "n_calibration_nodes": len(nodes)}
            yield {**size, "method": method, "seconds": whole, "of_the_comparison": part}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """For each kind of model and method: how often something is said, and what it is worth."""
    yield "| models | fitted | said of | price, median [5%, 95%] | on the test nodes |"
    yield "|---|---|---|---|---|"
    for kind, title in KINDS.items():
        for method in METHODS:
            own = [r for r in rows if (r["kind"], r["method"]) == (kind, method)]
            if not own:
                continue
            said = sum(r["said"] is not None for r in own)
            shown = [_spread([1000 * r[name] for r in own]) for name in ("nats", "test_nats")]
            yield f"| {title} | `{method}` | {said} of {len(own)} | {shown[0]} | {shown[1]} |"


def _spread(values: list[float]) -> str:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"{middle:+.0f} [{low:+.0f}, {high:+.0f}]"


def main() -> None:
    parser = options_for(__doc__.splitlines()[0], "benchmarks/results/keeping_predictions.json")
    parser.add_argument(
        "--practice", type=Path, default=Path("results/practice"), help="logits of practice.py"
    )
    options = parser.parse_args()
    rows = [row for found in for_each_task(options, of_ordinary).values() for row in found]
    rows += practised(options)
    print("\n".join(table(rows)))
    for row in rows:
        if row["said"] is not None and row["kind"] in ("ordinary", "plain"):
            print(*(row[name] for name in ("graph", "backbone", "seed", "method", "nats")))
    timed = list(costs())
    for row in timed:
        print(*row.values(), f"{100 * row['of_the_comparison'] / row['seconds']:.0f}%")
    found = {"rules": {"worth": MIN_COST_SHARE, "level": LEVEL}, "models": rows, "costs": timed}
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
