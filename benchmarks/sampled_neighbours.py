"""What do sampled neighbours cost? Confidence and ECE with at most so many senders of each node.

    python benchmarks/sampled_neighbours.py

The logits are exact; only the calibrator's neighbours are sampled, as ``num_neighbors=[m, m]`` of
NeighborLoader does it: m senders of each node, drawn without replacement. 20,000 nodes with 50
edges each on average, 8 classes.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

import gnncal
from gnncal.metrics.calibration import expected_calibration_error
from speed_data import make_problem

SIZES = {"n_nodes": 20_000, "n_edges": 1_000_000, "n_classes": 8}


def sampled(
    edges: npt.NDArray[np.int64], most: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """At most so many edges to each node, drawn at random."""
    edges = edges[:, generator.permutation(edges.shape[1])]
    edges = edges[:, np.argsort(edges[1], kind="stable")]
    first = np.searchsorted(edges[1], edges[1])
    return edges[:, np.arange(edges.shape[1]) - first < most]


def main() -> None:
    warnings.simplefilter("ignore", gnncal.GnncalWarning)  # bounds are not the subject here
    problem, generator = make_problem(**SIZES), np.random.default_rng(0)
    nodes, train_nodes = problem.split()
    rest = problem.order[len(nodes) + len(train_nodes) :]
    graph = gnncal.Graph(problem.edge_index, SIZES["n_nodes"])
    logits = torch.from_numpy(problem.logits)
    print(f"{'method':12}{'neighbours':>11}{'mean':>8}{'99%':>8}{'largest':>9}{'ECE %':>7}")
    for method in ("hots", "structural"):
        calibrator = gnncal.get_calibrator(method)
        calibrator.fit(
            problem.logits, problem.labels, graph, calibration_nodes=nodes, train_nodes=train_nodes
        )
        module = calibrator.to_torch()
        exact = module(logits, graph).numpy()
        for most in (None, 25, 10, 5):
            edges = (
                problem.edge_index if most is None else sampled(problem.edge_index, most, generator)
            )
            found = module(logits, torch.from_numpy(edges)).numpy()
            gap = np.abs(found.max(axis=1) - exact.max(axis=1))
            ece = float(expected_calibration_error(problem.labels[rest], found[rest]))
            print(
                f"{method:12}{most or 'all':>11}{gap.mean():8.4f}{np.quantile(gap, 0.99):8.4f}"
                f"{gap.max():9.4f}{100 * ece:7.2f}"
            )


if __name__ == "__main__":
    main()
