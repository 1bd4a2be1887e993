"""What neighbours through shared entities add to a model that knows no graph.

    python benchmarks/shared_entities.py --data DATA --seeds 2 --graphs twitch_DE ...

A multi-layer perceptron on the features of each item, calibrated with and without neighbours. The
items and what they share:

- seven Twitch graphs: streamers that share games, their friendships as edges, and friendships as
  items (are both of mature content?), split at random and by streamer;
- reddit_bans, which is a table of users and subreddits: users that share subreddits, and posts (a
  user in a subreddit, positive if the user was banned) as transactions, split by user;
- amazon_fraud: reviewers that share products, which the file does not name: they are the maximal
  cliques of "reviewed alike"; pairs of reviewers as transactions, positive if one of them cheats;
- three digital libraries: papers that share words or a cited or citing paper;
- acm: papers that share an author, again the cliques of a graph of papers with the same author.

Log loss on the test items against the method without a graph that is best in hindsight. Graphs are
the units of an interval; seeds, which split and train anew, where there is one graph. Equal weights
of entities are compared with 1 / ln(1 + n) for n items, and with a limit on n, on Twitch. Rows of
graphs that are not asked for stay in the record.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any

import networkx
import numpy as np
from scipy import sparse, stats
from sklearn.neural_network import MLPClassifier

import gnncal
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.graph.entities import EntityGraph
from gnncal_lab.datasets import Dataset
from practice import LIBRARIES, TWITCH, Models, options_for, other_rows, write_rows

GRAPHS = (*TWITCH, *LIBRARIES, "reddit_bans", "amazon_fraud", "acm")
GRAPH_FREE = ("ts", "hts", "ets", "irm", "svs", "sms", "vs", "beta", "isotonic")
METHODS = ("structural", "structural-free")
MOST_EDGES = 20_000  # of a graph's friendships, posts or pairs
LOWEST = -60.0  # of log-probabilities: some round to zero
LIMIT = 100  # items, beyond which an entity is left out in one of the comparisons
LOG, LIMITED = ", log weights", f", up to {LIMIT} items each"
SHARES = (0.4, 0.6)  # ends of the training and of the calibration part
N_USERS = 10_000  # of reddit_bans: its first nodes; the others are subreddits
Task = tuple[str, dict[str, float]]


def parts(n: int, rng: np.random.Generator) -> list[IntArray]:
    return np.split(rng.permutation(n), [int(share * n) for share in SHARES])


def parts_by_entity(ends: IntArray, n_nodes: int, rng: np.random.Generator) -> list[IntArray]:
    """Items whose ends are all in the same part of the nodes; others are left out."""
    part = np.empty(n_nodes, dtype=np.int64)
    for number, nodes in enumerate(parts(n_nodes, rng)):
        part[nodes] = number
    return [np.flatnonzero((part[ends] == number).all(axis=0)) for number in range(3)]


def trained(x: Any, y: IntArray, train: IntArray, seed: int) -> FloatArray:
    model = MLPClassifier((64,), alpha=1e-2, max_iter=20, random_state=seed).fit(x[train], y[train])
    return np.maximum(model.predict_log_proba(x), LOWEST)


def losses(x: Any, y: IntArray, split: Any, graphs: dict[str, Any], seed: int) -> dict[str, float]:
    train, nodes, test = split
    given = {"calibration_nodes": nodes, "train_nodes": train, "test_nodes": test}
    logits = trained(x, y, train, seed)
    found = {
        name: gnncal.calibrate(logits, y, method=name, **given).after.nll for name in GRAPH_FREE
    }
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


@lru_cache(maxsize=1)
def cliques(graph: gnncal.Graph) -> EntityGraph:
    """Return the entities that made the edges, each of which joined all of its items."""
    found = networkx.Graph(map(tuple, graph.edge_index.T.tolist()))
    touches = [(i, e) for e, items in enumerate(networkx.find_cliques(found)) for i in items]
    return EntityGraph(np.array(touches).T, graph.n_nodes)


def one_way(graph: gnncal.Graph, rng: np.random.Generator) -> IntArray:
    """Return some edges, once each."""
    edges = graph.edge_index
    edges = edges[:, edges[0] < edges[1]]
    return edges[:, np.sort(rng.permutation(edges.shape[1])[:MOST_EDGES])]


def of_items(
    edges: IntArray, x: Any, y: IntArray, split: list[IntArray], seed: int, *, compared: bool
) -> dict[str, float]:
    """Calibrate the edges of a split as items: features and labels are those of all edges."""
    used = np.concatenate(split)
    split = np.split(np.arange(used.size), np.cumsum([part.size for part in split])[:-1])
    touches = np.stack([np.tile(np.arange(used.size), 2), edges[:, used].ravel()])
    graphs = weighted("ends", touches, used.size)
    shown = graphs if compared else {"ends": graphs["ends"]}
    return losses(x[used], y[used], split, shown, seed)


def twitch(dataset: Dataset, seed: int, rng: np.random.Generator) -> Iterator[Task]:
    x, y = sparse.csr_array(dataset.graph.features), dataset.labels
    games = np.stack(sparse.coo_array(x).coords)
    graphs = {**weighted("games", games, len(y)), "friends": dataset.graph}
    yield "streamers", losses(x, y, parts(len(y), rng), graphs, seed)
    edges = one_way(dataset.graph, rng)
    items = x[edges[0]] + x[edges[1]], y[edges[0]] * y[edges[1]]
    split = parts(edges.shape[1], rng)
    yield "friendships", of_items(edges, *items, split, seed, compared=True)
    split = parts_by_entity(edges, len(y), rng)
    yield "friendships, by streamer", of_items(edges, *items, split, seed, compared=True)


def reddit(dataset: Dataset, seed: int, rng: np.random.Generator) -> Iterator[Task]:
    x, y, edges = dataset.graph.features, dataset.labels, dataset.graph.edge_index
    touches = edges[:, edges[0] < N_USERS]
    graphs = {"subreddits": EntityGraph(touches, N_USERS)}
    yield "users", losses(x[:N_USERS], y[:N_USERS], parts(N_USERS, rng), graphs, seed)
    edges = one_way(dataset.graph, rng)
    split = parts_by_entity(edges[:1], N_USERS, rng)
    items = np.hstack([x[edges[0]], x[edges[1]]]), y[edges[0]]
    yield "posts, by user", of_items(edges, *items, split, seed, compared=False)


def amazon(dataset: Dataset, seed: int, rng: np.random.Generator) -> Iterator[Task]:
    x, y = dataset.graph.features, dataset.labels
    graphs = {"products (cliques)": cliques(dataset.graph), "edges": dataset.graph}
    yield "reviewers", losses(x, y, parts(len(y), rng), graphs, seed)
    edges = one_way(dataset.graph, rng)
    items = x[edges[0]] + x[edges[1]], np.maximum(y[edges[0]], y[edges[1]])
    split = parts_by_entity(edges, len(y), rng)
    yield "pairs, by reviewer", of_items(edges, *items, split, seed, compared=False)


def papers(dataset: Dataset, seed: int, rng: np.random.Generator) -> Iterator[Task]:
    x, y = sparse.csr_array(dataset.graph.features), dataset.labels
    graphs: dict[str, Any] = {"words": EntityGraph(np.stack(sparse.coo_array(x).coords), len(y))}
    if dataset.name in LIBRARIES:
        graphs["papers cited or citing"] = EntityGraph(dataset.graph.edge_index, len(y))
        graphs["citations"] = dataset.graph
    else:
        graphs |= {"authors (cliques)": cliques(dataset.graph), "edges": dataset.graph}
    name = "papers of libraries" if dataset.name in LIBRARIES else "papers of acm"
    yield name, losses(x, y, parts(len(y), rng), graphs, seed)


def tasks(dataset: Dataset, seed: int) -> Iterator[Task]:
    kinds = {"reddit_bans": reddit, "amazon_fraud": amazon} | dict.fromkeys(TWITCH, twitch)
    return kinds.get(dataset.name, papers)(dataset, seed, np.random.default_rng(seed))


def summary(rows: list[dict[str, Any]], *, of_weights: bool) -> list[dict[str, Any]]:
    """Mean difference in thousandths of a nat, with a 95% interval over graphs or seeds.

    It is the difference to the best method without a graph, or of other weights to equal ones.
    """
    out = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        mine = [row for row in rows if row["setting"] == setting]
        best = min(GRAPH_FREE, key=lambda name: np.mean([row["nll"][name] for row in mine]))
        unit = "graph" if len({row["graph"] for row in mine}) > 1 else "seed"
        for method in mine[0]["nll"]:
            usual = method.removesuffix(LOG).removesuffix(LIMITED)
            if method in GRAPH_FREE or (usual != method) != of_weights:
                continue
            base = usual if of_weights else best
            found = [
                1000.0
                * np.mean([r["nll"][method] - r["nll"][base] for r in mine if r[unit] == each])
                for each in dict.fromkeys(row[unit] for row in mine)
            ]
            half = stats.t.ppf(0.975, len(found) - 1) * stats.sem(found)
            mean = float(np.mean(found))
            low, high = float(mean - half), float(mean + half)
            row = {"setting": setting, "method": method, "base": base, "unit": unit}
            row |= {"difference": round(mean, 1), "low": round(low, 1), "high": round(high, 1)}
            out.append(row | {"better": int(np.sum(np.array(found) < 0)), "units": len(found)})
    return out


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/shared_entities.json")
    options.add_argument("--graphs", nargs="*", default=GRAPHS)
    asked = options.parse_args()
    models = Models(asked.data, asked.cache)
    rows = other_rows(asked.out, asked.graphs)
    warnings.simplefilter("ignore")
    for graph in asked.graphs:
        for seed in range(asked.seeds):
            for setting, nll in tasks(models.dataset(graph), seed):
                nll = {name: round(float(value), 5) for name, value in nll.items()}
                rows.append({"graph": graph, "seed": seed, "setting": setting, "nll": nll})
                print(json.dumps(rows[-1]), flush=True)
        found = {"summary": summary(rows, of_weights=False), "weights": []}
        found["weights"] = summary(rows, of_weights=True)
        write_rows(asked.out, rows, found)


if __name__ == "__main__":
    main()
