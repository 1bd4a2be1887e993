"""Products with node features that stay as they are during training."""

from __future__ import annotations

from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from gnncal_lab.methods.neural.sparse import SparseMatrix


class ConstantFeatures:
    """Constant features X, or P X after they were sent along the edges, times a tensor."""

    def __init__(self, features: Any, matrix: sparse.csr_array | None = None) -> None:
        if matrix is None:
            factors = [features]
        else:  # sparse features would fill in, so P and X are kept apart
            factors = [matrix, features] if sparse.issparse(features) else [matrix @ features]
        self.factors = [
            SparseMatrix(factor) if sparse.issparse(factor) else torch.from_numpy(factor)
            for factor in factors
        ]

    def __matmul__(self, weight: Tensor) -> Tensor:
        for factor in reversed(self.factors):
            weight = factor @ weight
        return weight
