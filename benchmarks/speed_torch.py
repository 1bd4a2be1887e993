"""What does calibration cost inside torch? Ratios, measured in turn in one run.

    python benchmarks/speed_torch.py --out benchmarks/results/speed_torch.json

Pieces (``--only NAME ...`` runs some of them):

arxiv    a two-layer GCN of PyTorch Geometric on 169,343 nodes and 1.17 million edges, 128 features,
         256 hidden, 40 classes: a calibrated forward beside the bare one (at most 1.1 times)
reddit   233,000 nodes, 41 classes, 115 million edges: the torch module beside the NumPy path, from
         grouped edges and from an edge list that neither has seen (at most 1.5 times)

Seconds are CPU seconds of one thread, which other programs on the machine hardly change; ratios are
medians over the rounds of one divided by the other.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

import gnncal
from gnncal import Graph, Nodes
from gnncal.torch import CalibratedModel
from speed_data import Problem, make_problem
from speed_report import Record, Report

PIECES = ("arxiv", "reddit")
ARXIV = {"n_nodes": 169_343, "n_edges": 1_166_243, "n_classes": 40}
REDDIT = {"n_nodes": 233_000, "n_edges": 115_000_000, "n_classes": 41}
METHODS = ("ts", "hots", "structural-temperature")


def fitted(method: str, problem: Problem, graph: Graph) -> Any:
    nodes, train_nodes = problem.split()
    calibrator = gnncal.get_calibrator(method)
    return calibrator.fit(
        problem.logits, problem.labels, graph, nodes=nodes, train_nodes=train_nodes
    )


def seconds_of(run: Callable[[], Any]) -> float:
    start = process_time()
    run()
    return process_time() - start


def paired(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> Record:
    """Median seconds of each, and the median of their ratio round by round."""
    times = [(seconds_of(one), seconds_of(other)) for _ in range(rounds)]
    return {
        "seconds": median(first for first, _ in times),
        "rival_seconds": median(second for _, second in times),
        "ratio": median(first / second for first, second in times),
    }


def bench_arxiv(report: Report, rounds: int, methods: list[str]) -> None:
    from torch_geometric.nn import GCN

    problem = make_problem(**ARXIV)
    torch.manual_seed(0)
    model = GCN(128, 256, 2, ARXIV["n_classes"]).eval()
    x, edge_index = torch.randn(ARXIV["n_nodes"], 128), torch.from_numpy(problem.edge_index)
    graph = Graph(problem.edge_index, ARXIV["n_nodes"])
    print(f"  {'method':12}{'bare s':>8}{'calibrated s':>14}{'ratio':>7}{'first call s':>14}")
    with torch.inference_mode():
        for method in methods:
            calibrated = CalibratedModel(model, fitted(method, problem, graph)).eval()
            first = seconds_of(lambda model=calibrated: model(x, edge_index))  # warms up
            record = paired(
                lambda model=calibrated: model(x, edge_index),
                lambda: model(x, edge_index).softmax(dim=1),
                rounds,
            )
            report.add(
                f"{method:12}{record['rival_seconds']:8.3f}{record['seconds']:14.3f}"
                f"{record['ratio']:7.3f}{first:14.3f}",
                method=method,
                first_call_seconds=first,
                **record,
            )
            report.target(f"arxiv: calibrated / bare, {method}", record["ratio"], at_most=1.1)


def bench_reddit(report: Report, rounds: int, methods: list[str], n_edges: int) -> None:
    problem = make_problem(**{**REDDIT, "n_edges": n_edges})
    n_nodes, logits = REDDIT["n_nodes"], torch.from_numpy(problem.logits)
    edge_index = torch.from_numpy(problem.edge_index)
    graph = Graph(problem.edge_index, n_nodes)
    print(f"  {'method':12}{'edges':>9}{'NumPy s':>9}{'torch s':>9}{'ratio':>7}{'difference':>12}")
    for method in methods:
        calibrator = fitted(method, problem, graph)
        module = calibrator.to_torch()
        runs = {
            "grouped": (
                lambda module=module: module(logits, graph),
                lambda c=calibrator: c.predict_proba(Nodes(problem.logits, graph)),
            ),
            "a list": (
                lambda c=calibrator: c.to_torch()(logits, edge_index),
                lambda c=calibrator: c.predict_proba(
                    problem.logits, Graph(problem.edge_index, n_nodes)
                ),
            ),
        }
        expected = calibrator.predict_proba(problem.logits, graph)
        with torch.inference_mode():
            difference = float(np.abs(module(logits, graph).numpy() - expected).max())
            for form, (ours, rival) in runs.items():
                record = paired(ours, rival, rounds)
                report.add(
                    f"{method:12}{form:>9}{record['rival_seconds']:9.2f}{record['seconds']:9.2f}"
                    f"{record['ratio']:7.2f}{difference:12.1e}",
                    method=method,
                    edges=form,
                    n_edges=graph.n_edges,
                    difference=difference,
                    **record,
                )
                name = f"reddit: torch / NumPy, {method}, {form}"
                report.target(name, record["ratio"], at_most=1.5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=PIECES, default=list(PIECES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reddit-edges", type=int, default=REDDIT["n_edges"])
    options = parser.parse_args()
    warnings.simplefilter("ignore", gnncal.GnncalWarning)  # bounds are not the subject here
    torch.set_num_threads(1)
    result: Record = {"pieces": {}, "targets": []}
    for name in options.only:
        print(name)
        report = Report()
        if name == "arxiv":
            bench_arxiv(report, options.rounds, options.methods)
        else:
            bench_reddit(report, options.rounds, options.methods, options.reddit_edges)
        result["pieces"][name] = report.figures
        result["targets"] += report.targets
        options.out.write_text(json.dumps(result, indent=1) + "\n")  # a later piece may fail
    for target in result["targets"]:
        verdict = "met" if target["met"] else "NOT MET"
        print(
            f"  {target['name']:45}{target['value']:8.3f}  at most {target['at_most']:g} {verdict}"
        )


if __name__ == "__main__":
    main()
