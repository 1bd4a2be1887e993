"""Products with node features that stay as they are during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scipy import sparse

if TYPE_CHECKING:
    from torch import Tensor

    from gnncal.calibrators.neural.propagation import SparseOperator


class ConstantFeatures:
    """Constant features, dense or sparse, possibly sent along edges, times a tensor.

    Dense features are sent once; sparse ones would fill in, so their product is sent instead.
    """

    def __init__(self, features: Any, matrix: sparse.csr_array | None = None) -> None:
        import torch

        from gnncal.calibrators.neural.propagation import SparseOperator

        self.matrix: SparseOperator | None = None
        self.sparse: SparseOperator | None = None
        if sparse.issparse(features):
            self.sparse = SparseOperator(features)
            self.matrix = None if matrix is None else SparseOperator(matrix)
        else:
            self.dense = torch.from_numpy(features if matrix is None else matrix @ features)

    def __matmul__(self, weight: Tensor) -> Tensor:
        if self.sparse is None:
            return self.dense @ weight
        product = self.sparse @ weight
        return product if self.matrix is None else self.matrix @ product
