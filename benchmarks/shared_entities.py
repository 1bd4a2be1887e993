"""What neighbours through shared entities add to a model that knows no graph.

    python benchmarks/shared_entities.py --data DATA --seeds 3

The seven Twitch graphs, with a multi-layer perceptron on the games that a streamer plays. Three
settings: streamers that share games (entities touched by thousands too), their friendships as
edges, and friendships as items: is it one of two streamers with mature content? Friendships share
streamers, so they are split by streamer as well as at random. Log loss on the test items against
`svs`, which uses no graph; the interval has graphs as units. All entities count the same; weights
of 1 / ln(1 + n) for n items, and a limit on n, are compared with that.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.neural_network import MLPClassifier

import gnncal
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.files.output import write_file
from gnncal.graph.entities import EntityGraph
from practice import TWITCH, Models, options_for

METHODS = ("structural", "structural-free")
MOST_EDGES = 20_000  # of a graph's friendships
LOWEST = -60.0  # of log-probabilities: some round to zero
LIMIT = 100  # items, beyond which an entity is left out in one of the comparisons
LOG, LIMITED = ", log weights", f", up to {LIMIT} items each"
SHARES = (0.4, 0.6)  # ends of the training and of the calibration part


def parts(n: int, rng: np.random.Generator) -> list[IntArray]:
    return np.split(rng.permutation(n), [int(share * n) for share in SHARES])


def parts_by_entity(edges: IntArray, n_nodes: int, rng: np.random.Generator) -> list[IntArray]:
    """Edges whose two ends are in the same part of the nodes; others are left out."""
    part = np.empty(n_nodes, dtype=np.int64)
    for number, nodes in enumerate(parts(n_nodes, rng)):
        part[nodes] = number
    first, second = part[edges]
    return [np.flatnonzero((first == number) & (second == number)) for number in range(3)]


def trained(x: sparse.csr_array, y: IntArray, train: IntArray, seed: int) -> FloatArray:
    model = MLPClassifier((64,), alpha=1e-2, max_iter=20, random_state=seed).fit(x[train], y[train])
    return np.maximum(model.predict_log_proba(x), LOWEST)


def losses(logits: FloatArray, y: IntArray, split: Any, graphs: dict[str, Any]) -> dict[str, float]:
    train, nodes, test = split
    given = {"nodes": nodes, "train_nodes": train, "test_nodes": test}
    found = {"svs": gnncal.calibrate(logits, y, method="svs", **given).after.nll}
    for name, graph in graphs.items():
        for method in METHODS:
            made = gnncal.calibrate(logits, y, graph, method=method, **given)
            found[f"{method}, {name}"] = made.after.nll
    return found


class LogWeighted(EntityGraph):
    """Shared entities, of which one with n items counts 1 / ln(1 + n)."""

    @cached_property
    def matrices(self) -> Any:
        gather, spread, _ = super().matrices
        spread = spread * (1.0 / np.log1p(gather.sum(axis=1)))
        total = spread.sign() @ (1.0 / np.log1p(gather.sum(axis=1)))
        spread = sparse.csr_array(spread * (self.in_degree / np.maximum(total, 1e-300))[:, None])
        return gather, spread, spread.sum(axis=1)


def weighted(name: str, touches: IntArray, n_items: int) -> dict[str, EntityGraph]:
    """The same shared entities as they are, with other weights, and with a limit."""
    few = touches[:, np.bincount(touches[1])[touches[1]] <= LIMIT]
    return {
        name: EntityGraph(touches, n_items),
        f"{name}{LOG}": LogWeighted(touches, n_items),
        f"{name}{LIMITED}": EntityGraph(few, n_items),
    }


def tasks(dataset: Any, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    rng = np.random.default_rng(seed)
    x, y = sparse.csr_array(dataset.graph.features), dataset.labels
    logits = trained(x, y, (split := parts(len(y), rng))[0], seed)
    games = np.stack(sparse.coo_array(x).coords)
    graphs = {**weighted("games", games, len(y)), "friends": dataset.graph}
    yield "streamers", losses(logits, y, split, graphs)
    edges = dataset.graph.edge_index
    edges = edges[:, edges[0] < edges[1]]
    chosen = np.sort(rng.permutation(edges.shape[1])[:MOST_EDGES])
    edges = edges[:, chosen]
    both, of_both = x[edges[0]] + x[edges[1]], y[edges[0]] * y[edges[1]]
    splits = {
        "friendships": parts(edges.shape[1], rng),
        "friendships, by streamer": parts_by_entity(edges, len(y), rng),
    }
    for name, split in splits.items():
        used = np.concatenate(split)
        split = np.split(np.arange(used.size), np.cumsum([part.size for part in split])[:-1])
        labels, items = of_both[used], np.tile(np.arange(used.size), 2)
        ends = weighted("ends", np.stack([items, edges[:, used].ravel()]), used.size)
        yield name, losses(trained(both[used], labels, split[0], seed), labels, split, ends)


def summary(rows: list[dict[str, Any]], *, of_weights: bool) -> list[dict[str, Any]]:
    """Mean difference in thousandths of a nat, with a 95% interval over graphs.

    It is the difference to svs, or of other weights to equal ones.
    """
    out = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        mine = [row for row in rows if row["setting"] == setting]
        for method in mine[0]["nll"]:
            usual = method.removesuffix(LOG).removesuffix(LIMITED)
            if method == "svs" or (usual != method) != of_weights:
                continue
            base = usual if of_weights else "svs"
            by_graph = [
                1000.0
                * np.mean([r["nll"][method] - r["nll"][base] for r in mine if r["graph"] == g])
                for g in dict.fromkeys(row["graph"] for row in mine)
            ]
            half = stats.t.ppf(0.975, len(by_graph) - 1) * stats.sem(by_graph)
            mean = float(np.mean(by_graph))
            out.append(
                {
                    "setting": setting,
                    "method": method,
                    "difference": round(mean, 1),
                    "low": round(float(mean - half), 1),
                    "high": round(float(mean + half), 1),
                    "better": int(np.sum(np.array(by_graph) < 0)),
                    "graphs": len(by_graph),
                }
            )
    return out


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/shared_entities.json").parse_args()
    models = Models(Path(options.data), Path(options.cache))
    rows = []
    warnings.simplefilter("ignore")
    for graph in TWITCH:
        for seed in range(options.seeds):
            for setting, nll in tasks(models.dataset(graph), seed):
                rows.append({"graph": graph, "seed": seed, "setting": setting, "nll": nll})
        print(graph, json.dumps(rows[-1]["nll"]), flush=True)
    found = {
        "summary": summary(rows, of_weights=False),
        "weights": summary(rows, of_weights=True),
        "rows": rows,
    }
    write_file(Path(options.out), json.dumps(found, indent=1).encode())
    for row in (*found["summary"], *found["weights"]):
        print(row)


if __name__ == "__main__":
    main()
