"""How fast is gnncal? Every pass over the edges, beside rivals and the limits of the machine.

    python benchmarks/speed.py --out benchmarks/results/speed.json

A generated graph of 233,000 nodes, 41 classes and 115 million edges. All of it is measured in one
process, one after the other in every round, so that ratios mean something on a busy machine too.
The unit of most ratios is one SciPy product of the graph with a float32 matrix (n_nodes, 41).
"compiled" is the extra ``fast`` on one core and on all of them, "plain" an installation without it.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np

import gnncal
from gnncal.calibration import judge
from gnncal.calibrators.homophily import support_of
from gnncal.graph import compiled
from gnncal.graph.compiled import n_threads, parallel_for
from gnncal.math.formulas import describe_neighbourhoods
from speed_data import (
    N_CLASSES,
    N_NODES,
    REDDIT_EDGES,
    Problem,
    clock_and_cpu_in_turn,
    environment,
    fresh,
    in_turn,
    make_problem,
)

Runs = dict[str, Callable[[], Any]]
READS = 1 << 24
LINE = 16  # float32 numbers of a cache line


@contextmanager
def cores(count: int | None) -> Iterator[None]:
    """Limit the compiled loops to some cores; None switches them off."""
    threads, smallest = os.environ.get("OMP_NUM_THREADS"), compiled.SMALLEST_GRAPH
    os.environ["OMP_NUM_THREADS"] = str(count or 1)
    compiled.SMALLEST_GRAPH = 0 if count else 1 << 60
    try:
        yield
    finally:
        compiled.SMALLEST_GRAPH = smallest
        os.environ.pop("OMP_NUM_THREADS")
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads


def on(count: int | None, run: Callable[[], Any]) -> Callable[[], Any]:
    """Return the same work on so many cores, or without what is compiled."""

    def limited() -> None:
        with cores(count):
            run()

    return limited


@numba.njit(nogil=True)
def read_lines(table: Any, places: Any, first: int, last: int) -> float:
    """Read one number of a cache line at each place."""
    total = np.float32(0)
    for k in range(first, last):
        total += table[places[k], 0]
    return total


def limits_of_the_machine(rounds: int) -> dict[str, float]:
    """Nanoseconds of a random read from a table like ours, and bytes a nanosecond in order."""
    table = np.ones((N_NODES * N_CLASSES // LINE, LINE), dtype=np.float32)
    places = np.random.default_rng(0).integers(len(table), size=READS, dtype=np.int32)
    copied, room = np.ones(1 << 26), np.ones(1 << 26)
    cuts = np.linspace(0, READS, 33).astype(int).tolist()
    parts = np.linspace(0, len(copied), 33).astype(int).tolist()

    def read(count: int) -> Callable[[], None]:
        return on(
            count,
            lambda: parallel_for(lambda a, b: read_lines(table, places, a, b), cuts[:-1], cuts[1:]),
        )

    def copy(count: int) -> Callable[[], None]:
        def part(a: int, b: int) -> None:
            room[a:b] = copied[a:b]

        return on(count, lambda: parallel_for(part, parts[:-1], parts[1:]))

    every = n_threads()
    read(1)()
    found = in_turn(
        {"one": read(1), "all": read(every), "c1": copy(1), "call": copy(every)}, rounds
    )
    return {
        "random_read_ns_one_core": 1e9 * found["one"] / READS,
        "random_read_ns_all_cores": 1e9 * found["all"] / READS,
        "bytes_per_ns_one_core": 2 * copied.nbytes / found["c1"] / 1e9,
        "bytes_per_ns_all_cores": 2 * copied.nbytes / found["call"] / 1e9,
    }


def forms(name: str, run: Callable[[], Any]) -> Runs:
    """Return the same work without the extra, and with it on one core and on all."""
    counts = {"plain": None, "compiled, one core": 1, "compiled": n_threads()}
    return {f"{name}, {form}": on(count, run) for form, count in counts.items()}


def builds(problem: Problem) -> Runs:
    """The graph, beside a sort of receiver and sender packed into one key each."""
    keys = (problem.edge_index[1] << 18) | problem.edge_index[0]
    runs = forms("build", lambda: gnncal.Graph(problem.edge_index, N_NODES))
    return {"np.sort of packed keys": lambda: np.sort(keys), **runs}


def calibrations(problem: Problem, graph: gnncal.Graph) -> Runs:
    """Passes over the edges, and whole calibrations on a graph that is built already."""
    nodes, train_nodes = problem.split()
    labels, logits = problem.labels, problem.logits
    splits = {"calibration_nodes": nodes, "train_nodes": train_nodes}
    test_nodes = np.setdiff1d(np.arange(N_NODES), np.concatenate([nodes, train_nodes]))
    values = gnncal.calibrators.softmax(logits)
    _ = graph.is_undirected

    def separate(method: str) -> Callable[[], Any]:
        def run() -> None:
            other = fresh(graph)
            fitted = gnncal.get_calibrator(method).fit(logits, labels, other, **splits)
            fitted.predict_proba(logits, other)

        return run

    def in_calibrate() -> None:
        record = gnncal.Nodes(logits, fresh(graph))
        fitted = gnncal.calibrators.Structural().fit(record, labels, **splits)
        fitted.predict_proba(record)

    def whole() -> None:
        gnncal.calibrate(logits, labels, fresh(graph), **splits, test_nodes=test_nodes)

    return {
        **forms("direction test", lambda: fresh(graph).is_undirected),
        **forms("mean of N x K", lambda: graph.neighbour_mean(values)),
        **forms("class mean", lambda: gnncal.Nodes(logits, graph).cached(support_of, "in")),
        **forms("hots, fit and predict", separate("hots")),
        **forms("default in calibrate", in_calibrate),
        **forms("default, separate calls", separate("structural")),
        **forms("calibrate with evaluation", whole),
    }


def rivals(problem: Problem, graph: gnncal.Graph) -> Runs:
    """Sparse products of the same graph with the same matrix."""
    import torch
    from torch_geometric.utils import spmm

    adjacency = graph.adjacency(np.float32)
    matrix = torch.from_numpy(problem.logits)
    ones = torch.ones(graph.n_edges)
    parts = (torch.from_numpy(np.array(part)) for part in (graph.indptr, graph.indices))
    sparse = torch.sparse_csr_tensor(*parts, ones, size=(N_NODES, N_NODES))
    return {
        "product, SciPy": lambda: adjacency @ problem.logits,
        "product, torch": lambda: sparse @ matrix,
        "mean, PyG": lambda: spmm(sparse, matrix, reduce="mean"),
    }


def parts_of_calibrate(problem: Problem, graph: gnncal.Graph, rounds: int) -> dict[str, Any]:
    """Seconds of each part of ``gnncal.calibrate``, on the clock and of all cores together."""
    nodes, train_nodes = problem.split()
    test_nodes = np.setdiff1d(np.arange(N_NODES), np.concatenate([nodes, train_nodes]))
    state: dict[str, Any] = {}

    def neighbourhoods() -> None:
        state["record"] = gnncal.Nodes(problem.logits, graph)
        state["record"].cached(describe_neighbourhoods)

    def fit() -> None:
        state["fitted"] = gnncal.calibrators.Structural().fit(
            state["record"], problem.labels, calibration_nodes=nodes, train_nodes=train_nodes
        )

    def predict() -> None:
        state["probs"] = state["fitted"].predict_proba(state["record"])

    def evaluate() -> None:
        judge(problem.logits, graph, state["probs"], test_nodes, problem.labels[test_nodes])

    runs = {"neighbourhoods": neighbourhoods, "fit": fit, "predict": predict, "evaluate": evaluate}
    with cores(n_threads()):
        return clock_and_cpu_in_turn(runs, rounds)


def run(n_edges: int, rounds: int) -> dict[str, Any]:
    problem = make_problem(N_NODES, n_edges, N_CLASSES)
    graph = gnncal.Graph(problem.edge_index, N_NODES)
    with cores(n_threads()):  # compiled, or read from disk, before anything is timed
        for work in (*builds(problem).values(), *calibrations(problem, graph).values()):
            work()
    seconds = clock_and_cpu_in_turn(builds(problem), rounds)
    passes = {**rivals(problem, graph), **calibrations(problem, graph)}
    seconds |= clock_and_cpu_in_turn(passes, rounds)
    parts = parts_of_calibrate(problem, graph, rounds)
    seconds |= {f"calibrate: {name}": each for name, each in parts.items()}
    return {
        "environment": environment(),
        "edges": graph.n_edges,
        "limits": limits_of_the_machine(rounds),
        "rows": [
            {"name": name, "seconds": clock, "cpu_seconds": cpu}
            for name, (clock, cpu) in seconds.items()
        ],
    }


def show(found: dict[str, Any]) -> None:
    """Print seconds on the clock and of all cores together, which say more on a busy machine."""
    of = {row["name"]: row for row in found["rows"]}
    product = of["product, SciPy"]
    print(f"{'':44}{'seconds':>9}{'ns an edge':>12}{'products':>10}{'CPU s':>9}{'products':>10}")
    for name, row in of.items():
        seconds, cpu = row["seconds"], row["cpu_seconds"]
        each = f"{seconds:9.2f}{1e9 * seconds / found['edges']:12.1f}"
        shares = seconds / product["seconds"], cpu / product["cpu_seconds"]
        print(f"{name:44}{each}{shares[0]:10.2f}{cpu:9.2f}{shares[1]:10.2f}")
    for name, value in found["limits"].items():
        print(f"{name:44}{value:9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--edges", type=int, default=REDDIT_EDGES)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = run(options.edges, options.rounds)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    show(found)


if __name__ == "__main__":
    main()
