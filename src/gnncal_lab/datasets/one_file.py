"""Data sets in a single .npz file."""

from __future__ import annotations

from pathlib import Path

from gnncal.data.errors import InputError
from gnncal.files.archives import csr_from_parts, read_npz
from gnncal.graph.graph import Graph
from gnncal_lab.datasets.dataset import Dataset
from gnncal_lab.datasets.preprocessing import compact
from gnncal_lab.datasets.splits import Split

FEATURE_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
SPLIT_PARTS = ("train_idx", "valid_idx", "test_idx")


def load_file(path: str | Path) -> Dataset:
    """Load a data set from one .npz file.

    The graph becomes undirected, without duplicate edges and self-loops.

    Parameters
    ----------
    path : str or Path
        An .npz file with ``labels`` (n_nodes,), ``edge_index`` (2, n_edges), and the CSR parts of
        the features: ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``. A split is optional:
        ``train_idx``, ``valid_idx`` and ``test_idx``. Nothing is unpickled.

    Returns
    -------
    Dataset
        Graph, features, labels and split; its name is the name of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from gnncal_lab.datasets import load_file
    >>> arrays = {"labels": [0, 1], "edge_index": [[0], [1]]}
    >>> features = {"x_data": [1.0], "x_indices": [2], "x_indptr": [0, 0, 1], "x_shape": [2, 3]}
    >>> with tempfile.NamedTemporaryFile(suffix=".npz") as file:
    ...     np.savez(file, **arrays, **features)
    ...     file.flush()
    ...     load_file(file.name).graph.n_edges
    2

    """
    path = Path(path)
    wanted = ("labels", "edge_index", *FEATURE_PARTS)
    arrays, names = read_npz(path, (*wanted, *SPLIT_PARTS))
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise InputError(
            f"{path} has {', '.join(names)} but no {', '.join(missing)}; write these arrays too."
        )
    features = csr_from_parts(*(arrays[part] for part in FEATURE_PARTS), name="the features")
    labels = arrays["labels"]
    edges = Graph(arrays["edge_index"], len(labels)).to_undirected().edge_index
    edges = edges[:, edges[0] != edges[1]]
    has_split = all(part in arrays for part in SPLIT_PARTS)
    split = Split(*(arrays[part] for part in SPLIT_PARTS)) if has_split else None
    return Dataset(path.stem, Graph(edges, len(labels), compact(features)), labels, split)
