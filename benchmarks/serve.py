"""How long does one calibrated probability take, and from how much of the graph?

    python benchmarks/serve.py --data DATA --out benchmarks/results/serve.json

A graph of accounts (amazon_fraud) whose logits are all known, as after a nightly run of the model.
Each of some accounts is asked for alone: from the logits and edges within two hops, which is all
that `structural-free` looks at, from the node alone, and in the whole graph, grouped once. CPU
milliseconds of one thread, with the search for the two hops.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.utils import k_hop_subgraph

import gnncal
from gnncal.files.output import write_file
from gnncal_lab.datasets import load_file
from practice import options_for

N_ASKED = 300


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/serve.json").parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = load_file(Path(options.data) / "more" / "amazon_fraud.npz")
    graph, y = data.graph.to_undirected(), np.asarray(data.labels)
    train, val, _ = np.split(
        np.random.default_rng(0).permutation(np.flatnonzero(y >= 0)), [3000, 6000]
    )
    x = np.asarray(data.graph.features)
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
    model = LogisticRegression(max_iter=300, class_weight="balanced").fit(x[train], y[train])
    logits = np.column_stack([np.zeros(len(x)), model.decision_function(x)])
    fitted = gnncal.get_calibrator("structural-free").fit(logits, y, graph, calibration_nodes=val)
    module, z = fitted.to_torch(), torch.from_numpy(logits)
    edges = torch.from_numpy(graph.edge_index.astype(np.int64))
    expected = fitted.predict_proba(logits, graph)[:, 1]

    def within(hops: int) -> Callable[[int], tuple[Any, Any, int]]:
        def part(node: int) -> tuple[Any, Any, int]:
            nodes, here, place, _ = k_hop_subgraph(
                node, hops, edges, relabel_nodes=True, num_nodes=len(z)
            )
            return z[nodes], here, int(place)

        return part

    ways = {"two hops": within(2), "one hop": within(1), "the node alone": within(0)}
    ways["the whole graph, grouped once"] = lambda node: (z, graph, node)
    asked = np.random.default_rng(1).choice(len(z), N_ASKED, replace=False).tolist()
    rows = []
    for way, part in ways.items():
        times, differences, sizes = [], [], []
        for node in asked:
            start = thread_time()
            with torch.inference_mode():
                some, here, place = part(node)
                found = float(module(some, here)[place, 1])
            times.append(1000.0 * (thread_time() - start))
            differences.append(abs(found - expected[node]))
            sizes.append(len(some))
        p50, p95 = np.quantile(times, [0.5, 0.95])
        rows.append(
            {
                "way": way,
                "p50_ms": round(float(p50), 1),
                "p95_ms": round(float(p95), 1),
                "nodes": int(np.median(sizes)),
                "largest_difference": float(f"{max(differences):.1g}"),
            }
        )
        print(rows[-1])
    write_file(Path(options.out), json.dumps({"asked": N_ASKED, "rows": rows}, indent=1).encode())


if __name__ == "__main__":
    main()
