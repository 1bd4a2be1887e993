"""Features sent along the edges, P X, in the form in which products with them cost least."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gnncal.core.graph import Features

SAMPLED_ROWS = 500  # enough to see how much P X fills in


def propagated_features(
    matrix: sparse.csr_array, features: Features, *, sparsity_budget: float = 0.0
) -> tuple[Any, ...]:
    """Matrices whose product, in this order, is P X: either P X itself, or P and X.

    Dense features are multiplied once. Sparse ones would fill in, so P and X are kept apart,
    unless P X has at most ``sparsity_budget`` times the entries of X.
    """
    if not sparse.issparse(features) or _stays_sparse(matrix, features, sparsity_budget):
        return (matrix @ features,)
    return matrix, features


def _stays_sparse(matrix: sparse.csr_array, features: sparse.csr_array, budget: float) -> bool:
    """Return whether the product stays sparse, judged by some of the rows."""
    if budget == 0:
        return False
    rows = np.unique(np.linspace(0, matrix.shape[0] - 1, SAMPLED_ROWS).astype(np.int64))
    entries = (matrix[rows] @ features).nnz / len(rows)
    return bool(entries <= budget * max(features.nnz / features.shape[0], 1.0))
