"""Load a graph of the paper by its name."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gnncal.core.arrays import IntArray
from gnncal.core.checks import check_labels
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.lab.datasets import cache
from gnncal.lab.datasets.download import download
from gnncal.lab.datasets.graphs import FACTS, Facts, official_name
from gnncal.lab.datasets.preprocessing import (
    RawGraph,
    add_reverse_edges,
    checked,
    compact,
    keep_largest_component,
    normalise_rows,
    replace_self_loops,
)


@dataclass(frozen=True)
class Dataset:
    """A graph with features, and the class of each node.

    Parameters
    ----------
    name : str
        Name of the data set.
    graph : Graph
        The graph, with features.
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.lab.datasets import Dataset
    >>> from gnncal.lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(300, 0.8))
    >>> Dataset("three blocks", sample.graph, sample.labels).n_classes
    3

    """

    name: str
    graph: Graph
    labels: IntArray

    def __post_init__(self) -> None:
        labels = check_labels(self.labels, self.graph.n_nodes)
        object.__setattr__(self, "labels", labels)

    @property
    def n_classes(self) -> int:
        """Labels run from 0 to n_classes - 1."""
        return int(self.labels.max()) + 1

    @cached_property
    def fingerprint(self) -> str:
        """A digest of edges, features and labels: of all that a classifier learns from."""
        digest = hashlib.blake2b(self.graph.fingerprint.encode(), digest_size=16)
        features: Any = self.graph.features
        if sparse.issparse(features):
            parts = [features.data, features.indices, features.indptr, features.shape]
        else:
            parts = [] if features is None else [features]
        for part in (*parts, self.labels):
            array = np.ascontiguousarray(part)
            # The width of SciPy's indices depends on how a matrix came about.
            array = array.astype(np.int64) if array.dtype.kind == "i" else array
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.data)
        return digest.hexdigest()


def load(name: str, root: str | Path | None = None) -> Dataset:
    """Load one of the paper's 18 graphs, preprocessed as in the paper.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`; upper and lower case do not matter.
    root : str or Path, optional
        The folder whose layout is PyTorch Geometric's. Default: ``$GNNCAL_DATA``, or a folder in
        the user's cache. Raw files that are missing are downloaded into it.

    Returns
    -------
    Dataset
        Graph with features, and labels.

    Raises
    ------
    InputError
        If there is no such data set, or its files are not what they should be.

    Examples
    --------
    >>> from gnncal import datasets
    >>> datasets.load("Cora").graph.n_nodes  # doctest: +SKIP
    2708

    """
    name = official_name(name)
    facts = FACTS[name]
    folder = Path(root or os.environ.get("GNNCAL_DATA") or cache.user_cache() / "raw")
    paths = [folder / facts.folder / file for file in facts.files]
    if not all(path.exists() for path in paths):
        download(name, facts, folder)
    stored, key = cache.user_cache() / "parsed" / f"{name}.npz", cache.identity(paths)
    found = cache.read(stored, key)
    if found is None:
        found = _parse(name, facts, paths)
        cache.write(stored, key, *found)
    return Dataset(name, *found)


def _parse(name: str, facts: Facts, paths: list[Path]) -> tuple[Graph, IntArray]:
    try:
        raw = preprocess(checked(facts.family.read(paths)), facts)
        return Graph(raw.edges, len(raw.labels), compact(raw.features)), raw.labels
    except Exception as error:  # a damaged file can break a parser in any way
        raise InputError(
            f"the raw files of {name} in {paths[0].parent} cannot be read "
            f"({type(error).__name__}: {error}); delete them and load again."
        ) from error


def preprocess(raw: RawGraph, facts: Facts) -> RawGraph:
    """Return the graph after all that the table of facts says is done to it."""
    raw = add_reverse_edges(raw, facts.family.reverse)
    if facts.family.largest_component:
        raw = keep_largest_component(raw)
    if facts.self_loops:
        raw = replace_self_loops(raw)
    if facts.family.row_normalise:
        raw = normalise_rows(raw)
    return raw
