"""Do the calibrators that need the graph fit in memory on a graph of Reddit's size?

    python benchmarks/large.py --out benchmarks/results/large.json

A generated graph of 233,000 nodes, 115 million edges and 41 classes, a few epochs of every
calibrator of the catalogue that needs the graph, each alone in its process: peak memory, seconds
an epoch, and seconds for everything that is done once. Beside them one attention layer of
PyTorch Geometric, at the largest of several sizes that stays under the memory limit.
``--edges`` and ``--nodes`` try it small.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import gnncal
from gnncal.calibrators.registry import describe, list_calibrators
from speed_data import (
    N_CLASSES,
    N_NODES,
    REDDIT_EDGES,
    Problem,
    environment,
    make_problem,
    peak_bytes,
)

N_FEATURES = 32  # GETS and the homophily predictor see some; their width is not the subject
GIB = 1 << 30
Record = dict[str, Any]


def run_calibrator(name: str, problem: Problem, epochs: int) -> Record:
    """Fit with a few epochs; an epoch is the median time from one optimiser step to the next."""
    features = np.random.default_rng(1).standard_normal(
        (len(problem.labels), N_FEATURES), dtype=np.float32
    )
    graph = gnncal.Graph(problem.edge_index, len(problem.labels), features)
    nodes, train_nodes = problem.split()
    calibrator, steps = gnncal.get_calibrator(name), []
    if calibrator.needs_torch:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda *_: steps.append(perf_counter()))
        calibrator = gnncal.get_calibrator(name, stop_on="train", max_epochs=1 + epochs)
    start = perf_counter()
    calibrator.fit(
        problem.logits, problem.labels, graph, calibration_nodes=nodes, train_nodes=train_nodes
    )
    fit = perf_counter() - start
    epoch = float(np.median(np.diff(steps))) if steps else None
    start = perf_counter()
    probs = calibrator.predict_proba(problem.logits, graph)
    predict = perf_counter() - start
    assert np.isfinite(probs).all()
    return {
        "name": name,
        "edges": graph.n_edges,
        "once_seconds": fit - len(steps) * (epoch or 0.0),
        "epoch_seconds": epoch,
        "predict_seconds": predict,
        "peak_bytes": peak_bytes(),
        "loss_before": calibrator.fit_report_.loss_before,
        "loss_after": calibrator.fit_report_.loss_after,
    }


def run_pyg(problem: Problem, epochs: int) -> Record:
    """Full-batch steps of GATConv(K -> 1), the layer GATS would be written with."""
    import torch
    from torch_geometric.nn import GATConv

    layer = GATConv(N_CLASSES, 1, heads=8, concat=False)
    optimiser = torch.optim.Adam(layer.parameters())
    logits, edges = torch.from_numpy(problem.logits), torch.from_numpy(problem.edge_index)
    labels, rows = torch.from_numpy(problem.labels), torch.from_numpy(problem.split()[0])
    start = perf_counter()
    for _ in range(epochs):
        optimiser.zero_grad()
        scores = logits * torch.nn.functional.softplus(layer(logits, edges))
        torch.nn.functional.cross_entropy(scores[rows], labels[rows]).backward()
        optimiser.step()
    seconds = (perf_counter() - start) / epochs
    n_edges = edges.shape[1]
    return {
        "name": "pyg GATConv, 8 heads",
        "edges": n_edges,
        "epoch_seconds": seconds,
        "peak_bytes": peak_bytes(),
    }


def worker(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    # A process that asks for more than the limit ends by itself instead of taking others along.
    limit = int(options.memory_limit * GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    problem = make_problem(options.nodes, options.edges, N_CLASSES)
    if options.worker == "pyg":
        print(json.dumps(run_pyg(problem, options.epochs)))
    else:
        print(json.dumps(run_calibrator(options.worker, problem, options.epochs)))


def in_a_process(name: str, n_edges: int, options: argparse.Namespace) -> Record:
    command = [
        *(sys.executable, __file__, "--worker", name, "--edges", str(n_edges)),
        *("--nodes", str(options.nodes), "--epochs", str(options.epochs)),
        *("--memory-limit", str(options.memory_limit)),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["killed"])[-1][:200]
        return {"name": name, "edges": n_edges, "failed": reason}
    record: Record = json.loads(done.stdout)
    return record


def print_line(record: Record) -> None:
    if "failed" in record:
        print(f"{record['name']:22}{record['edges']:13,}  failed: {record['failed']}", flush=True)
        return
    times = (record.get(f"{part}_seconds") for part in ("once", "epoch", "predict"))
    columns = "".join(f"{'–' if t is None else format(t, '.2f'):>11}" for t in times)
    memory = record["peak_bytes"] / GIB
    print(f"{record['name']:22}{record['edges']:13,}{columns}{memory:11.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--edges", type=int, default=REDDIT_EDGES)
    parser.add_argument("--nodes", type=int, default=N_NODES)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory-limit", type=float, default=20.0, help="GiB a process may take")
    parser.add_argument("--only", nargs="+", help="some calibrators, or pyg")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    wanted = [name for name in list_calibrators() if describe(name).needs_graph]
    wanted = options.only or [*wanted, "pyg"]
    result: Record = {"environment": environment(), "nodes": options.nodes, "figures": []}
    print(f"{options.nodes:,} nodes, {N_CLASSES} classes; seconds, and GiB at the peak")
    print(f"{'':22}{'edges':>13}{'once':>11}{'an epoch':>11}{'predict':>11}{'peak':>11}")
    for name in wanted:
        n_edges = options.edges
        while True:
            record = in_a_process(name, n_edges, options)
            print_line(record)
            result["figures"].append(record)
            if options.out:
                options.out.write_text(json.dumps(result, indent=1) + "\n")
            if name != "pyg" or "failed" not in record or n_edges < 10:
                break
            n_edges //= 2  # until the plain layer fits


if __name__ == "__main__":
    main()
