"""Cora, CiteSeer and PubMed as Planetoid ships them: pickles of Python 2, read without trust."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from gnncal_lab.datasets.formats import checked_csr
from gnncal_lab.datasets.preprocessing import RawGraph


class ArrayUnpickler(pickle.Unpickler):
    """Builds arrays, CSR matrices and dictionaries of lists; any other name is refused."""

    admitted: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy", "csr_matrix"): sparse.csr_matrix,
        ("collections", "defaultdict"): collections.defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return the admitted object of this name; old files name modules that have since moved."""
        key = module.partition(".")[0], name
        if key not in self.admitted:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is code and not data")
        return self.admitted[key]


def read(paths: list[Path]) -> RawGraph:
    """Read a graph; test nodes are in the order of ``test.index``; skipped ones lack features."""
    allx, tx, ally, ty, graph = (_unpickle(path) for path in paths[:5])
    test = np.loadtxt(paths[5], dtype=np.int64)
    rows = np.concatenate([np.arange(allx.shape[0]), test])
    n_nodes, n_rows = len(graph), len(rows)
    if len(np.unique(rows)) != n_rows:
        raise ValueError("test.index names a node twice, or one that is in allx")
    if (len(ally), len(ty)) != (allx.shape[0], tx.shape[0]):
        raise ValueError("there are not as many labels as rows of features")
    ones = np.ones(n_rows, dtype=np.float32)
    place = sparse.csr_array((ones, (rows, np.arange(n_rows))), shape=(n_nodes, n_rows))
    features = place @ sparse.vstack([checked_csr(allx), checked_csr(tx)])
    labels = (place @ np.concatenate([ally, ty])).argmax(axis=1)
    pairs = [(u, v) for u, neighbours in graph.items() for v in neighbours]
    return RawGraph(features, labels, np.array(pairs, dtype=np.int64).reshape(-1, 2).T)


def _unpickle(path: Path) -> Any:
    with path.open("rb") as file:
        return ArrayUnpickler(file, encoding="latin1").load()
