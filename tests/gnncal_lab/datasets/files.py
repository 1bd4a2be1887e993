"""Tiny raw files in the formats of the paper's graphs, written where the loaders look."""

import gzip
import pickle

import numpy as np
from scipy import sparse

from gnncal_lab.datasets import FACTS


def folder_of(name, root):
    folder = root / FACTS[name].folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_planetoid(root, name="Cora"):
    """Six nodes; node 4 stands in no file but the graph, and test nodes come as 5, 3."""
    folder, prefix = folder_of(name, root), f"ind.{name.lower()}"
    parts = {
        "allx": sparse.csr_matrix(np.array([[2.0, 2, 0], [0, 5, 0], [0, 0, 0]])),
        "tx": sparse.csr_matrix(np.array([[1.0, 0, 3], [0, 0, 7]])),
        "ally": np.eye(3)[[0, 1, 2]],
        "ty": np.eye(3)[[2, 1]],
        # one pair listed twice, one loop, node 4 isolated
        "graph": {0: [1, 1], 1: [0, 2], 2: [2], 3: [0], 4: [], 5: [3]},
    }
    for part, value in parts.items():
        (folder / f"{prefix}.{part}").write_bytes(pickle.dumps(value, protocol=3))
    (folder / f"{prefix}.test.index").write_text("5\n3\n")


def write_geom_gcn(root, name, rows, edges, header="node_id\tfeature\tlabel"):
    folder = folder_of(name, root)
    lines = [header, *(f"{i}\t{features}\t{label}" for i, features, label in rows)]
    (folder / "out1_node_feature_label.txt").write_text("\n".join(lines) + "\n")
    lines = ["node_id\tnode_id", *(f"{u}\t{v}" for u, v in edges)]
    (folder / "out1_graph_edges.txt").write_text("\n".join(lines) + "\n")


def write_gnnbench(root, name, adjacency, features, labels):
    arrays = {"labels": np.array(labels)}
    for prefix, matrix in (("adj", adjacency), ("attr", features)):
        matrix = sparse.csr_matrix(matrix)
        arrays |= {f"{prefix}_data": matrix.data, f"{prefix}_indices": matrix.indices}
        arrays |= {f"{prefix}_indptr": matrix.indptr, f"{prefix}_shape": matrix.shape}
    path = folder_of(name, root) / FACTS[name].files[0]
    # CoraFull's file also has pickled names; they must be left alone
    np.savez(path, idx_to_node=np.array({"a": 1}, dtype=object), **arrays)


def write_heterophilous(root, name, features, labels, edges):
    path = folder_of(name, root) / FACTS[name].files[0]
    np.savez(path, node_features=features, node_labels=labels, edges=edges)


def write_ogb(root, features, labels, edges):
    for file, rows in (("node-feat", features), ("node-label", labels), ("edge", edges)):
        text = "\n".join(",".join(map(str, row)) for row in rows)
        path = folder_of("ogbn-arxiv", root) / f"{file}.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))


def write_reddit(root, features, labels, pairs):
    folder = folder_of("Reddit", root)
    np.savez(folder / "reddit_data.npz", feature=features, label=labels, node_types=labels)
    ones, ends = np.ones(len(pairs)), np.array(pairs).T
    matrix = sparse.coo_matrix((ones, tuple(ends)), shape=(len(labels), len(labels)))
    sparse.save_npz(folder / "reddit_graph.npz", matrix)
