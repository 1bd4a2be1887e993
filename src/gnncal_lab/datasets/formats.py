"""Read raw files into arrays, one function for each format. Nothing is unpickled."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.arrays import IntArray
from gnncal.files.archives import Arrays, csr_from_parts, read_npz
from gnncal_lab.datasets.preprocessing import RawGraph

CSR_PARTS = ("data", "indices", "indptr", "shape")


def checked_csr(matrix: Any) -> sparse.csr_array:
    """Return a CSR matrix from a file, checked, because a wrong index would read foreign memory."""
    return csr_from_parts(matrix.data, matrix.indices, matrix.indptr, matrix.shape)


def read_geom_gcn(paths: list[Path]) -> RawGraph:
    """Texas to Actor: text, column 2 of the edge file sends to column 1."""
    header, *lines = paths[0].read_text().splitlines()
    records = sorted((line.split("\t") for line in lines), key=lambda record: int(record[0]))
    if [int(record[0]) for record in records] != list(range(len(records))):
        raise ValueError("the node ids are not 0, 1, 2, ..., each once")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an older NumPy only warns of what is not a number
        rows = [np.fromstring(record[1], dtype=np.int32, sep=",") for record in records]
    lists_positions = "feature_amount" in header  # only Actor's file does
    features = _ones_at(rows) if lists_positions else sparse.csr_array(np.stack(rows))
    labels = np.array([int(record[2]) for record in records])
    pairs = np.loadtxt(paths[1], dtype=np.int64, skiprows=1, ndmin=2)
    return RawGraph(features, labels, pairs.T[::-1])


def read_gnnbench(paths: list[Path]) -> RawGraph:
    """Amazon, Coauthor, CoraFull: adjacency and features as the parts of CSR matrices."""
    parts = [f"{name}_{part}" for name in ("adj", "attr") for part in CSR_PARTS]
    arrays, _ = read_npz(paths[0], [*parts, "labels"])
    adjacency, features = _csr_parts(arrays, "adj"), _csr_parts(arrays, "attr")
    return RawGraph(features, arrays["labels"], np.stack(adjacency.nonzero()))


def read_heterophilous(paths: list[Path]) -> RawGraph:
    """Roman-Empire and tolokers: each pair of neighbours once."""
    arrays, _ = read_npz(paths[0], ("node_features", "node_labels", "edges"))
    return RawGraph(arrays["node_features"], arrays["node_labels"], arrays["edges"].T)


def read_ogb(paths: list[Path]) -> RawGraph:
    """ogbn-arxiv: zipped CSV without headers; a paper sends to those it cites."""
    edges, features, labels = paths
    return RawGraph(
        _read_csv(features, np.float32),
        _read_csv(labels, np.float64).ravel().astype(np.int64),
        _read_csv(edges, np.int64).T,
    )


def read_reddit(paths: list[Path]) -> RawGraph:
    """Features and labels in one file, a SciPy matrix of edges in the other."""
    arrays, _ = read_npz(paths[0], ("feature", "label"))
    return RawGraph(arrays["feature"], arrays["label"], _scipy_edges(paths[1]))


def _scipy_edges(path: Path) -> IntArray:
    """(2, n_edges) rows and columns of the entries that ``scipy.sparse.save_npz`` wrote."""
    arrays, _ = read_npz(path, ("format", "row", "col", *CSR_PARTS))
    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind == "coo":
        return np.stack([arrays["row"], arrays["col"]])
    if kind != "csr":
        raise ValueError(f"the matrix of edges is {kind}, neither COO nor CSR")
    matrix = csr_from_parts(*(arrays[part] for part in CSR_PARTS)).tocoo()
    return np.stack([matrix.row, matrix.col])


def _csr_parts(arrays: Arrays, prefix: str) -> sparse.csr_array:
    return csr_from_parts(*(arrays[f"{prefix}_{part}"] for part in CSR_PARTS), name=prefix)


def _ones_at(positions: Sequence[IntArray]) -> sparse.csr_array:
    columns = np.concatenate(positions)
    indptr = np.cumsum([0, *(len(row) for row in positions)])
    parts = (np.ones(len(columns), dtype=np.int32), columns, indptr)
    matrix = checked_csr(sparse.csr_array(parts, shape=(len(positions), int(columns.max()) + 1)))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a position that is listed twice
    return matrix


def _read_csv(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    with gzip.open(path, "rt") as file:
        return np.loadtxt(file, dtype=dtype, delimiter=",", ndmin=2)
