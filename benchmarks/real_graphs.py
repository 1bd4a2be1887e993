"""Train GCN and GAT classifiers on 14 public graphs and store what a calibrator needs.

One ``.npz`` bundle is written per (dataset, backbone, seed): logits, labels, edges, split masks and
features. The raw files are those that PyTorch Geometric downloads, parsed here directly because its
processing drops self-loops and duplicates that the published edge counts include. Preprocessing,
models, splits and early stopping follow the benchmark protocol of the homophily-scaling paper, and
node and edge counts are checked against its tables.

Usage: ``python benchmarks/real_graphs.py --data ROOT --out DIR [--datasets Cora,CS] [--seeds 5]``
"""

from __future__ import annotations

import argparse
import collections
import copy
import functools
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

Graph = tuple[Any, np.ndarray, np.ndarray]  # features (CSR or dense), labels, edges (2, E)


class _PlanetoidUnpickler(pickle.Unpickler):
    """Reads the Planetoid pickles (Python 2) and refuses every name that they do not need."""

    allowed: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy", "csr_matrix"): sp.csr_matrix,
        ("collections", "defaultdict"): collections.defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        key = module.split(".")[0], name
        if key not in self.allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return self.allowed[key]


def read_planetoid(prefix: Path) -> Graph:
    """Cora, CiteSeer, PubMed: undirected, feature rows of sum 1, missing nodes filled with 0."""

    def part(suffix: str) -> Any:
        with open(f"{prefix}.{suffix}", "rb") as file:
            return _PlanetoidUnpickler(file, encoding="latin1").load()

    allx, tx, ally, ty, graph = (part(s) for s in ("allx", "tx", "ally", "ty", "graph"))
    test = np.loadtxt(f"{prefix}.test.index", dtype=np.int64)
    rows = np.concatenate([np.arange(allx.shape[0]), test])
    n, m = len(graph), len(rows)
    place = sp.csr_matrix((np.ones(m), (rows, np.arange(m))), (n, m))
    x = place @ sp.vstack([allx, tx])
    total = np.asarray(x.sum(1)).ravel()
    x = sp.diags(np.divide(1.0, total, out=np.zeros(n), where=total != 0)) @ x
    pairs = np.array([(u, v) for u, targets in graph.items() for v in targets])
    edges = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0).T
    return x, (place @ np.concatenate([ally, ty])).argmax(1), edges


def read_geom(folder: Path) -> Graph:
    """WebKB, Wikipedia, Actor: directed, column 2 of the edge file sends to column 1."""
    header, *lines = (folder / "out1_node_feature_label.txt").read_text().splitlines()
    records = sorted((line.split("\t") for line in lines), key=lambda record: int(record[0]))
    values = [np.array(record[1].split(","), dtype=np.int64) for record in records]
    if "feature_amount" in header:  # Actor lists the positions of the ones
        x = np.zeros((len(values), max(int(v.max()) for v in values) + 1))
        for row, positions in zip(x, values, strict=True):
            row[positions] = 1
    else:
        x = np.stack(values)
    pairs = np.loadtxt(folder / "out1_graph_edges.txt", dtype=np.int64, skiprows=1)
    return x, np.array([int(record[2]) for record in records]), pairs.T[::-1]


def read_gnnbench(file: Path) -> Graph:
    """Amazon and Coauthor: made undirected, largest connected component, raw features."""
    with np.load(file) as z:
        labels, (adj, x) = (
            z["labels"],
            (
                sp.csr_matrix(
                    (z[f"{p}_data"], z[f"{p}_indices"], z[f"{p}_indptr"]), z[f"{p}_shape"]
                )
                for p in ("adj", "attr")
            ),
        )
    adj = ((adj + adj.T) != 0).tocsr()
    component = connected_components(adj, directed=False)[1]
    keep = np.flatnonzero(component == np.bincount(component).argmax())
    return x[keep], labels[keep], np.stack(adj[keep][:, keep].nonzero())


def read_tolokers(file: Path) -> Graph:
    """Every undirected pair is stored once; features as shipped."""
    with np.load(file) as z:
        pairs = z["edges"]
        return z["node_features"], z["node_labels"], np.concatenate([pairs, pairs[:, ::-1]]).T


class Spec(NamedTuple):
    """How a graph is read, the counts it must have afterwards, and its training settings."""

    reader: Callable[[Path], Graph]
    path: str
    nodes: int
    edges: int
    self_loops: bool = False  # replace the native self-loops by one at every node
    wide: bool = False  # hidden 64, weight decay 1e-3, dropout .8 instead of 16, 5e-4, .5
    patience: int = 50


AMAZON = "{0}/raw/amazon_electronics_{1}.npz"
SPECS = {  # smallest first
    "Texas": Spec(read_geom, "texas/raw", 183, 492, True),
    "Cornell": Spec(read_geom, "cornell/raw", 183, 478, True),
    "Wisconsin": Spec(read_geom, "wisconsin/raw", 251, 750, True),
    "Cora": Spec(read_planetoid, "Cora/raw/ind.cora", 2708, 13264, True),
    "CiteSeer": Spec(read_planetoid, "CiteSeer/raw/ind.citeseer", 3327, 12431, True),
    "Chameleon": Spec(read_geom, "chameleon/geom_gcn/raw", 2277, 36101),
    "Actor": Spec(read_geom, "Actor/raw", 7600, 40869, True),
    "PubMed": Spec(read_planetoid, "PubMed/raw/ind.pubmed", 19717, 108365, True, patience=200),
    "Squirrel": Spec(read_geom, "squirrel/geom_gcn/raw", 5201, 217073),
    "Photo": Spec(read_gnnbench, AMAZON.format("Photo", "photo"), 7487, 238087, wide=True),
    "CS": Spec(read_gnnbench, "CS/raw/ms_academic_cs.npz", 18333, 163788, wide=True),
    "tolokers": Spec(read_tolokers, "tolokers/raw/tolokers.npz", 11758, 1038000),
    "Physics": Spec(read_gnnbench, "Physics/raw/ms_academic_phy.npz", 34493, 495924, wide=True),
    "Computers": Spec(
        read_gnnbench, AMAZON.format("Computers", "computers"), 13381, 491556, wide=True
    ),
}


@functools.cache
def load_graph(root: Path, name: str) -> Graph:
    """Features (CSR when density < .3), labels, and edges (row 0 sends to row 1, sorted by it)."""
    spec = SPECS[name]
    x, labels, edges = spec.reader(root / spec.path)
    if spec.self_loops:
        loops = np.tile(np.arange(len(labels)), (2, 1))
        edges = np.concatenate([edges[:, edges[0] != edges[1]], loops], axis=1)
    edges = np.ascontiguousarray(edges[:, np.lexsort(edges)], dtype=np.int64)
    if (len(labels), edges.shape[1]) != (spec.nodes, spec.edges):
        raise AssertionError(f"{name}: {len(labels)} nodes, {edges.shape[1]} edges, want {spec}")
    x = sp.csr_matrix(x, dtype=np.float32)
    x.eliminate_zeros()
    sparse = x.nnz < 0.3 * x.shape[0] * x.shape[1]
    return (x if sparse else x.toarray()), labels.astype(np.int64), edges


class SpMM(torch.autograd.Function):
    """CSR matrix of the given ``pattern`` and values, times a dense matrix; gradients of both."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, pattern: sp.csr_matrix) -> Tensor:
        ctx.save_for_backward(values, dense)
        data = values.numpy(), pattern.indices, pattern.indptr
        ctx.matrix = sp.csr_matrix(data, shape=pattern.shape)
        return torch.from_numpy(ctx.matrix @ dense.numpy())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (_, dense), matrix, grad = ctx.saved_tensors, ctx.matrix, grads[0].contiguous()
        d_values = d_dense = None
        if ctx.needs_input_grad[0]:
            rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            entries = (torch.from_numpy(i).split(16384) for i in (rows, matrix.indices))
            chunks = zip(*entries, strict=True)
            d_values = torch.cat([(grad[r] * dense[c]).sum(1) for r, c in chunks])
        if ctx.needs_input_grad[1]:
            d_dense = torch.from_numpy(matrix.T @ grad.numpy())
        return d_values, d_dense, None


class Backbone(nn.Module):
    """What both classifiers share: the graph as CSR (row receives from column) and its features."""

    def __init__(self, x: Any, edges: np.ndarray, dropout: float) -> None:
        super().__init__()
        self.x, self.p, self.n, (source, target) = x, dropout, x.shape[0], edges
        self.values = torch.from_numpy(x.data if sp.issparse(x) else x)
        d_out, d_in = (np.bincount(e, minlength=self.n) for e in edges)
        # every edge has both degrees >= 1, so no clamping is needed
        weight = (d_in[target] * d_out[source].astype(float)) ** -0.5
        data = weight.astype(np.float32), source.astype(np.int32), np.append(0, d_in.cumsum())
        self.pattern = sp.csr_matrix(data, shape=(self.n, self.n))
        self.weight = torch.from_numpy(self.pattern.data)
        self.source, self.target = torch.from_numpy(source), torch.from_numpy(target)

    def project(self, weight: Tensor, dropout: float = 0.0) -> Tensor:
        """The features, after dropout, times a weight matrix."""
        values = F.dropout(self.values, dropout, self.training)
        return SpMM.apply(values, weight, self.x) if sp.issparse(self.x) else values @ weight


class GCN(Backbone):
    """Two graph convolutions D_in^-1/2 A D_out^-1/2 H W + b with ReLU and dropout between."""

    def __init__(self, x: Any, edges: np.ndarray, hidden: int, k: int, dropout: float) -> None:
        super().__init__(x, edges, dropout)
        self.w1 = nn.Parameter(nn.init.xavier_uniform_(torch.empty(x.shape[1], hidden)))
        self.w2 = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, k)))
        self.b1, self.b2 = (nn.Parameter(torch.zeros(width)) for width in (hidden, k))

    def forward(self) -> Tensor:
        h = SpMM.apply(self.weight, self.project(self.w1), self.pattern) + self.b1
        h = F.dropout(h.relu(), self.p, self.training)
        return SpMM.apply(self.weight, h @ self.w2, self.pattern) + self.b2


class GAT(Backbone):
    """One attention layer with two heads, then a linear layer on the concatenated heads."""

    def __init__(self, x: Any, edges: np.ndarray, hidden: int, k: int, dropout: float) -> None:
        super().__init__(x, edges, dropout)
        shapes = (x.shape[1], 2 * hidden), (1, 2, hidden), (1, 2, hidden)
        weights = (nn.init.xavier_normal_(torch.empty(shape), gain=2**0.5) for shape in shapes)
        self.w, self.a_source, self.a_target = (nn.Parameter(weight) for weight in weights)
        self.b = nn.Parameter(torch.zeros(2 * hidden))
        self.out = nn.Linear(2 * hidden, k)

    def forward(self) -> Tensor:
        h = self.project(self.w, self.p).view(self.n, 2, -1)
        e_source, e_target = (h * self.a_source).sum(-1), (h * self.a_target).sum(-1)
        score = F.leaky_relu(e_source[self.source] + e_target[self.target], 0.2)
        zero, index = torch.zeros(self.n, 2), self.target[:, None].expand_as(score)
        top = zero.scatter_reduce(0, index, score.detach(), "amax", include_self=False)
        score = (score - top[self.target]).exp()
        total = zero.index_add(0, self.target, score)
        alpha = F.dropout(score / total[self.target], self.p, self.training)
        heads = [
            SpMM.apply(alpha[:, i].contiguous(), h[:, i].contiguous(), self.pattern) for i in (0, 1)
        ]
        return self.out(torch.cat(heads, 1) + self.b)


def train(model: Backbone, y: Tensor, tr: Tensor, va: Tensor, spec: Spec) -> tuple[Tensor, int]:
    """Logits of the best weights and the number of epochs run.

    As in the published protocol, the validation loss is that of the training-mode forward pass
    before a step, and the weights kept with it are those after the step.
    """
    adam = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3 if spec.wide else 5e-4)
    best, best_epoch, state, epoch = float("inf"), 0, model.state_dict(), 0
    while epoch < 200 and epoch - best_epoch < spec.patience:
        epoch += 1
        logits = model.train()()
        val_loss = F.cross_entropy(logits[va], y[va]).item()
        adam.zero_grad()
        F.cross_entropy(logits[tr], y[tr]).backward()
        adam.step()
        if val_loss < best:
            best, best_epoch, state = val_loss, epoch, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    with torch.no_grad():
        return model.eval()(), epoch


def evaluate(logits: Tensor, labels: Tensor) -> tuple[float, float, float]:
    """Accuracy %, expected calibration error % (15 equal-width bins), negative log-likelihood."""
    confidence, predicted = logits.double().softmax(1).max(1)
    correct = (predicted == labels).double()
    bins = (confidence * 15).ceil().long().clamp(1, 15) - 1
    gap = torch.zeros(15, dtype=torch.float64).index_add(0, bins, correct - confidence)
    nll = F.cross_entropy(logits.double(), labels).item()
    return 100 * correct.mean().item(), 100 * gap.abs().sum().item() / len(labels), nll


def make_bundle(root: Path, name: str, backbone: str, seed: int, path: Path) -> str:
    """Train one classifier, write its bundle atomically and return a line for the log."""
    start, spec = time.perf_counter(), SPECS[name]
    x, labels, edges = load_graph(root, name)
    n, y = len(labels), torch.from_numpy(labels)
    order = np.arange(n)
    np.random.RandomState(seed).shuffle(order)
    splits = np.split(order, [int(0.2 * n), int(0.3 * n)])
    tr, va, te = map(torch.from_numpy, splits)
    torch.manual_seed(seed)
    hidden, dropout = (64, 0.8) if spec.wide else (16, 0.5)
    kind = {"gcn": GCN, "gat": GAT}[backbone]
    model = kind(x, edges, hidden, int(labels.max()) + 1, dropout)
    logits, epochs = train(model, y, tr, va, spec)

    arrays: dict[str, Any] = {"logits": logits.numpy(), "labels": labels, "edge_index": edges}
    for key, nodes in zip(("train_mask", "val_mask", "test_mask"), splits, strict=True):
        arrays[key] = np.isin(np.arange(n), nodes)
    if sp.issparse(x):
        arrays |= {"x_data": x.data, "x_indices": x.indices.astype(np.int32)}
        arrays |= {"x_indptr": x.indptr.astype(np.int64), "x_shape": np.array(x.shape)}
    else:
        arrays["x"] = x
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.npz")
    np.savez_compressed(temporary, dataset=name, backbone=backbone, seed=seed, **arrays)
    os.replace(temporary, path)
    accuracy, ece, nll = evaluate(logits[te], y[te])
    result = f"accuracy {accuracy:5.2f}  ECE {ece:5.2f}  NLL {nll:.3f}  epochs {epochs:3d}"
    return f"{name:<10} {backbone} seed {seed}: {result}  {time.perf_counter() - start:6.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("GNNCAL_DATA"))
    parser.add_argument("--out", type=Path, required=True, help="folder for the bundles")
    parser.add_argument("--datasets", default=",".join(SPECS), help="names separated by commas")
    parser.add_argument("--backbones", default="gcn,gat")
    parser.add_argument("--seeds", type=int, default=5, help="run seeds 0 .. SEEDS-1")
    args = parser.parse_args()
    chosen = args.datasets.split(",")
    if args.data is None or not set(chosen) <= set(SPECS):
        parser.error(f"give --data or set GNNCAL_DATA; datasets are {', '.join(SPECS)}")
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for seed in range(args.seeds):
        for backbone in args.backbones.split(","):
            for name in (name for name in SPECS if name in chosen):
                path = args.out / f"{name}-{backbone}-{seed}.npz"
                if not path.exists():
                    print(make_bundle(args.data, name, backbone, seed, path), flush=True)


if __name__ == "__main__":
    main()
