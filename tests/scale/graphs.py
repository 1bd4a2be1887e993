"""Small graphs with everything that is awkward, as arrays and as Parquet."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gnncal

METHODS = tuple(  # those that look no further than the neighbours of a node
    name for name in gnncal.list_calibrators() if gnncal.get_calibrator(name)._reach() is not None
)
ON_SPARK = ("ts", "svs", "hots", "rbs", "structural", "structural-free", "structural-vector")


@dataclass(frozen=True)
class Example:
    """A graph whose nodes stand in the order of their ids."""

    ids: Any  # (n,) sorted
    logits: Any  # (n, K)
    labels: Any
    split: Any
    edge_index: Any  # (2, E) positions

    @property
    def graph(self):
        return gnncal.Graph(self.edge_index, len(self.ids))

    def nodes_of(self, split):
        return np.flatnonzero(self.split == split)

    def in_memory(self, method):
        calibrator = gnncal.get_calibrator(method) if isinstance(method, str) else method
        return calibrator.fit(
            self.logits, self.labels, self.graph, calibration_nodes=self.nodes_of("val")
        )

    def node_columns(self, *, as_list=False, dtype=np.float64):
        columns = {"id": self.ids, "label": self.labels, "split": self.split}
        logits = self.logits.astype(dtype)
        if as_list:
            return columns | {"logits": list(logits)}
        return columns | {f"z{k}": logits[:, k] for k in range(logits.shape[1])}

    def edge_columns(self):
        return {"src": self.ids[self.edge_index[0]], "dst": self.ids[self.edge_index[1]]}

    def write(self, folder, *, as_list=False, seed=1):
        """Write nodes.parquet and edges.parquet with their rows shuffled."""
        rng = np.random.default_rng(seed)
        nodes, edges = pa.table(self.node_columns(as_list=as_list)), pa.table(self.edge_columns())
        folder = Path(folder)
        folder.mkdir(exist_ok=True, parents=True)
        pq.write_table(nodes.take(rng.permutation(len(nodes))), folder / "nodes.parquet")
        pq.write_table(edges.take(rng.permutation(len(edges))), folder / "edges.parquet")
        return folder / "nodes.parquet", folder / "edges.parquet"


def make_example(*, n_nodes=600, n_classes=4, directed=True, ids="dense", seed=0):
    """A homophilous graph with isolated nodes, duplicates, self-loops and mistakes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n_nodes)
    linked = n_nodes - 30  # the others have no edge
    sender = rng.integers(linked, size=5 * n_nodes)
    alike = np.where(rng.random(sender.size) < 0.7, labels[sender], rng.integers(n_classes))
    receiver = np.array([rng.choice(np.flatnonzero(labels[:linked] == c)) for c in alike])
    edges = np.stack([sender, receiver])
    edges = np.hstack([edges, edges[:, :50], np.tile(np.arange(0, 40), (2, 1))])
    lonely = np.array([[n_nodes - 1], [n_nodes - 1]])  # a node whose only neighbour is itself
    edges = np.hstack([edges, lonely])
    if not directed:
        edges = np.hstack([edges, edges[::-1]])
    logits = rng.normal(size=(n_nodes, n_classes)) * 2.0
    logits[np.arange(n_nodes), labels] += rng.normal(2.0, 2.0, size=n_nodes)
    split = rng.choice(["train", "val", "test"], size=n_nodes, p=[0.1, 0.4, 0.5]).astype(object)
    return Example(_ids(ids, n_nodes, rng), logits, labels, split, edges)


def _ids(kind, n_nodes, rng):
    if kind == "dense":
        return np.arange(n_nodes)
    if kind == "huge":
        ends = [np.iinfo(np.int64).min, np.iinfo(np.int64).max]
        inner = rng.integers(-(2**62), 2**62, size=n_nodes - 2)
        return np.sort(np.append(inner, ends))
    return np.sort(np.array([f"node-{i:06d}-é" for i in range(n_nodes)], dtype=object))
