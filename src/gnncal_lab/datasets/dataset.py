"""A data set: graph, features, labels and split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from gnncal.data.arrays import IntArray
from gnncal.data.checks import check_labels
from gnncal.graph.graph import Graph
from gnncal_lab.datasets.splits import Split, check_split, random_split


@dataclass(frozen=True)
class Dataset:
    """A graph with features, labels and, in some cases, an official split.

    Parameters
    ----------
    name : str
        Name of the data set.
    graph : Graph
        The graph, with features.
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown.
    split : Split, optional
        The official split. Without it, :meth:`split_of` returns random splits.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab.datasets import Dataset
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(300, 0.8))
    >>> Dataset("three blocks", sample.graph, sample.labels).n_classes
    3

    """

    name: str
    graph: Graph
    labels: IntArray
    split: Split | None = None

    def __post_init__(self) -> None:
        labels = check_labels(self.labels, self.graph.n_nodes)
        object.__setattr__(self, "labels", labels)
        if self.split is not None:
            object.__setattr__(self, "split", check_split(self.split, self.graph.n_nodes))

    def split_of(self, seed: int) -> Split:
        """Return the official split; without one, return :func:`random_split` with this seed.

        Parameters
        ----------
        seed : int
            Seed of the random split.

        """
        return self.split or random_split(self.graph.n_nodes, seed)

    @property
    def n_classes(self) -> int:
        """Number of classes: the largest label plus one."""
        return int(self.labels.max()) + 1

    @cached_property
    def fingerprint(self) -> str:
        """A digest of edges, features, labels and official split."""
        digest = hashlib.blake2b(self.graph.fingerprint.encode(), digest_size=16)
        features: Any = self.graph.features
        if sparse.issparse(features):
            parts = [features.data, features.indices, features.indptr, features.shape]
        else:
            parts = [] if features is None else [features]
        for part in (*parts, self.labels, *(self.split or ())):
            array = np.ascontiguousarray(part)
            # The width of SciPy's indices depends on how a matrix came about.
            array = array.astype(np.int64) if array.dtype.kind == "i" else array
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.data)
        return digest.hexdigest()
