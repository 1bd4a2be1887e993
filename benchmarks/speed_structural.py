"""How fast is the structural law? The fit alone, and everything beside one sparse product.

    python benchmarks/speed_structural.py --out benchmarks/results/speed_structural.json

Fit: 20,000 calibration nodes, 40 classes. Reddit: 233,000 nodes, 41 classes, 115 million edges; fit
and predict beside one float32 product of the graph with an (n_nodes, n_classes) matrix, in turn.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from gnncal import Graph
from gnncal.calibrators.structural_law import StructuralTemperature
from gnncal.data.probability import normalised_entropy
from gnncal.math.structural_fit import LawPrior, LawRows, fit_law
from speed_data import fresh, make_problem

N_NODES, N_CLASSES = 233_000, 41


def fit_alone(rounds: int = 9) -> dict[str, float]:
    """Seconds of the fit of the law, covariates given."""
    problem = make_problem(20_000, 200_000, 40)
    covariates = np.random.default_rng(0).normal(scale=0.2, size=(20_000, 6))
    entropy = normalised_entropy(problem.logits).astype(np.float64)
    rows = LawRows(entropy, covariates, problem.logits.argmax(axis=1))
    seconds = []
    for _ in range(rounds):
        start = perf_counter()
        fit_law(rows, problem.logits, problem.labels, LawPrior())
        seconds.append(perf_counter() - start)
    return {"seconds": median(seconds), "fastest": min(seconds)}


def reddit(n_edges: int, rounds: int = 3) -> dict[str, float]:
    """Seconds of fit, predict and one product, in turn; medians."""
    problem = make_problem(N_NODES, n_edges, N_CLASSES)
    nodes, train_nodes = problem.split()
    graph = Graph(problem.edge_index, N_NODES)
    adjacency = graph.adjacency(np.float32)
    fits, predictions, products = [], [], []
    for _ in range(rounds):
        graph = fresh(graph)
        times = [perf_counter()]
        law = StructuralTemperature().fit(
            problem.logits, problem.labels, graph, nodes=nodes, train_nodes=train_nodes
        )
        times.append(perf_counter())
        law.predict_proba(problem.logits, graph)
        times.append(perf_counter())
        adjacency @ problem.logits
        times.append(perf_counter())
        for seconds, part in zip(np.diff(times), (fits, predictions, products), strict=True):
            part.append(float(seconds))
    product = median(products)
    return {
        "edges": graph.n_edges,
        "fit_seconds": median(fits),
        "predict_seconds": median(predictions),
        "product_seconds": product,
        "ratio_to_product": (median(fits) + median(predictions)) / product,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=115_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {"fit of 20,000 nodes, 40 classes": fit_alone(), "reddit": reddit(options.edges)}
    print(json.dumps(found, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
