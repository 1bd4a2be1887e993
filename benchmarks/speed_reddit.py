"""One graph of the ``reddit`` piece, alone in its process so that nothing else counts as memory.

    python benchmarks/speed_reddit.py --edges 115000000

prints one line of JSON. Time: building the graph, HoTS fit and predict (with the fingerprint of
the graph computed anew each round), and one float32 sparse product of the graph with an
(n_nodes, n_classes) matrix, in turn. Memory: the peak up to the end of the first predict.
"""

from __future__ import annotations

import argparse
import json
import resource
import warnings
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from scipy import sparse

from gnncal import GnncalWarning, Graph, HoTS
from speed_data import fresh, make_problem

N_NODES, N_CLASSES = 233_000, 41


def peak_bytes() -> int:
    """The largest resident size of this process so far.

    ``ru_maxrss`` starts at the size of the process that called exec, so Linux's own high-water
    mark is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(n_edges: int, rounds: int) -> dict[str, float]:
    before = peak_bytes()
    problem = make_problem(N_NODES, n_edges, N_CLASSES)
    nodes, train_nodes = problem.split()
    generated = peak_bytes()

    start = perf_counter()
    graph = Graph(problem.edge_index, N_NODES)
    construction = perf_counter() - start
    constructed = peak_bytes()

    peak, matrix, calibrated, multiplied = 0, None, [], []
    fits, predictions = [], []
    for _ in range(rounds):
        graph = fresh(graph)
        start = perf_counter()
        calibrator = HoTS().fit(
            problem.logits, problem.labels, graph, nodes=nodes, train_nodes=train_nodes
        )
        middle = perf_counter()
        probs = calibrator.predict_proba(problem.logits, graph)
        end = perf_counter()
        fits.append(middle - start)
        predictions.append(end - middle)
        calibrated.append(end - start)
        peak = peak or peak_bytes()
        del probs
        if matrix is None:
            ones = np.ones(graph.n_edges, dtype=np.float32)
            matrix = sparse.csr_array((ones, graph.indices, graph.indptr), shape=(N_NODES,) * 2)
        start = perf_counter()
        matrix @ problem.logits
        multiplied.append(perf_counter() - start)
    return {
        "edges": graph.n_edges,
        "construction_seconds": construction,
        "fit_seconds": median(fits),
        "predict_seconds": median(predictions),
        "fit_and_predict_seconds": median(calibrated),
        "product_seconds": median(multiplied),
        "ratio_to_product": median(calibrated) / median(multiplied),
        "input_bytes": problem.n_bytes,
        "interpreter_bytes": before,
        "peak_bytes_generation": generated,
        "peak_bytes_construction": constructed,
        "peak_bytes": peak,
        "peak_to_inputs": peak / problem.n_bytes,
        "loss_before": calibrator.fit_report_.loss_before,
        "loss_after": calibrator.fit_report_.loss_after,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", GnncalWarning)  # a bound of the fit is not the subject here
    print(json.dumps(run(arguments.edges, arguments.rounds)))
