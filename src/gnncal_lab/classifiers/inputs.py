"""What a classifier reads: features and the matrices that carry them along the edges."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from gnncal.graph.graph import Graph
from gnncal_lab.methods.neural.features import ConstantFeatures
from gnncal_lab.methods.neural.sparse import Pattern, SparseMatrix, SparseProduct

Rule = Literal["symmetric", "mean"]


class GraphInput:
    """One graph, ready for a forward pass."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        assert graph.features is not None
        features = graph.features.astype(np.float32)
        self.n_features = int(features.shape[1])
        self.pattern = Pattern(features) if sparse.issparse(features) else None
        # dense (n_nodes, n_features), or the (nnz,) entries of the sparse pattern
        self.values = torch.from_numpy(features.data if self.pattern else features)
        self._features = features
        self._carried: dict[Rule, ConstantFeatures] = {}

    @cached_property
    def symmetric(self) -> SparseMatrix:
        """D_in^-1/2 A D_out^-1/2, degrees of zero counted as one, no self-loop added."""
        return SparseMatrix(self.graph.normalised_adjacency(add_self_loops=False))

    @cached_property
    def mean(self) -> SparseMatrix:
        """D_in^-1 A: the mean over senders, zero where there is none."""
        matrix = self.graph.adjacency(np.float32)
        matrix.data /= np.repeat(self.graph.in_degree, self.graph.in_degree)
        return SparseMatrix(matrix)

    @cached_property
    def edges(self) -> Pattern:
        """Row i has an entry for each sender of node i."""
        return self.symmetric.pattern

    def times(self, weight: Tensor, dropout: float = 0.0) -> Tensor:
        """X W, after dropout on X."""
        values = F.dropout(self.values, dropout) if dropout else self.values
        if self.pattern is None:
            return values @ weight
        return SparseProduct.apply(values, weight, self.pattern)

    def carried_times(self, rule: Rule, weight: Tensor) -> Tensor:
        """P X W for P the ``symmetric`` or the ``mean`` matrix."""
        if rule not in self._carried:
            matrix: SparseMatrix = getattr(self, rule)
            self._carried[rule] = ConstantFeatures(self._features, matrix.pattern.matrix)
        return self._carried[rule] @ weight
