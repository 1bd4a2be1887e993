"""Products of a sparse and a dense matrix, with gradients of both, on CSR.

Products are SciPy's: for one column they are several times faster than torch's, and the transpose
of the backward pass needs no second copy of the edges.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor


class Pattern:
    """Where a CSR matrix has its entries."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        self.matrix = matrix

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry, (nnz,)."""
        counts = np.diff(self.matrix.indptr)
        return torch.from_numpy(np.repeat(np.arange(len(counts)), counts))

    @cached_property
    def columns(self) -> Tensor:
        """The column of each entry, (nnz,)."""
        return torch.from_numpy(self.matrix.indices.astype(np.int64))

    def times(self, values: Tensor, dense: Tensor) -> Tensor:
        """Return the matrix with these values, times ``dense``."""
        return torch.from_numpy(self._filled(values) @ dense.detach().numpy())

    def transposed_times(self, values: Tensor, dense: Tensor) -> Tensor:
        """Its transpose, times ``dense``."""
        return torch.from_numpy(self._filled(values).T @ dense.detach().numpy())

    def entries_of_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the entries of ``left @ right.T`` that lie in the pattern, and no others."""
        index = torch.from_numpy(self.matrix.indptr.astype(np.int64)), self.columns
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            nothing = torch.sparse_csr_tensor(
                *index,
                left.new_zeros(len(self.columns)),
                size=self.matrix.shape,
                check_invariants=False,
            )
        return torch.sparse.sampled_addmm(nothing, left, right.T).values()

    def _filled(self, values: Tensor) -> sparse.csr_array:
        parts = values.detach().numpy(), self.matrix.indices, self.matrix.indptr
        return sparse.csr_array(parts, shape=self.matrix.shape)


class SparseProduct(torch.autograd.Function):
    """``A @ dense`` for the sparse A of the given pattern and values."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, pattern: Pattern) -> Tensor:
        """Remember what the gradients need; ``dense`` only where that of the values is wanted."""
        ctx.save_for_backward(values, dense if ctx.needs_input_grad[0] else None)
        ctx.pattern = pattern
        return pattern.times(values, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """dA = (G dense^T) on the pattern, d dense = A^T G."""
        values, dense = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        for_values = for_dense = None
        if ctx.needs_input_grad[0]:
            for_values = ctx.pattern.entries_of_product(gradient, dense)
        if ctx.needs_input_grad[1]:
            for_dense = ctx.pattern.transposed_times(values, gradient)
        return for_values, for_dense, None


class SparseMatrix:
    """A constant sparse matrix that torch can differentiate through."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        self.pattern = Pattern(matrix)
        self.values = torch.from_numpy(matrix.data)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return SparseProduct.apply(self.values, dense, self.pattern)
