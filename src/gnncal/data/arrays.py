"""The array types that the whole package uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.errors import InputError, short_repr

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]
FEW_COLUMNS = 32  # with more of them, NumPy's own maximum of a row is the faster one
ROWS_AT_ONCE = 1 << 12  # so that what is in hand stays in the cache


def row_maxima(matrix: FloatArray) -> FloatArray:
    """Return the largest entry of each row, (n,)."""
    if matrix.shape[1] >= FEW_COLUMNS or matrix.shape[1] == 0:
        return matrix.max(axis=1)
    largest = np.empty(len(matrix), dtype=matrix.dtype)
    for start in range(0, len(matrix), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        np.ascontiguousarray(matrix[rows].T).max(axis=0, out=largest[rows])
    return largest


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """View anything array-like, torch tensors included, as a NumPy array (no copy if possible)."""
    if hasattr(values, "detach"):  # a torch tensor, recognised without importing torch
        values = values.detach().cpu()
        if "bfloat16" in str(values.dtype):  # NumPy has no such type
            values = values.float()
        if values.layout is not None and "strided" not in str(values.layout):
            values = values.to_dense()
        return np.asarray(values.numpy())
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(
            "a masked array would lose its mask here; pass values.filled(...) as a plain "
            "array, or leave the masked nodes out."
        )
    try:
        return np.asarray(values)
    except ValueError as error:  # nested lists of different lengths
        raise InputError(
            f"{short_repr(values)} cannot be made an array; pass an array, or lists of equal "
            "length."
        ) from error
