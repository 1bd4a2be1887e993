"""Compressed sparse rows from a file: the one check that keeps them from reading foreign memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.core.errors import InputError

FREE_COLUMNS = 2**17  # a matrix may have so many however few its entries


def csr_from_parts(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    shape: Any,
    *,
    name: str = "the matrix",
) -> sparse.csr_array:
    """The matrix (n_rows, n_columns) of these parts, or an InputError that says what is wrong."""
    n_rows, n_columns = _check_shape(shape, name)
    for part, values in (("indices", indices), ("indptr", indptr)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise InputError(f"the {part} of {name} must be a list of integers.")
    if data.ndim != 1 or data.dtype.kind not in "fiub":
        raise InputError(f"the data of {name} has dtype {data.dtype}; expected a list of numbers.")
    problem = _contradiction(data, indices, indptr, n_rows, n_columns)
    if problem:
        raise InputError(f"the CSR parts of {name} do not fit together: {problem}.")
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, n_columns))


def _check_shape(shape: Any, name: str) -> tuple[int, int]:
    listed = np.asarray(shape)
    if listed.dtype.kind not in "iu" or listed.shape != (2,) or listed.min() < 0:
        raise InputError(f"the CSR parts of {name} do not fit together: its shape is not a pair.")
    return int(listed[0]), int(listed[1])


def _contradiction(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    n_rows: int,
    n_columns: int,
) -> str | None:
    if len(indptr) != n_rows + 1:
        return f"indptr has {len(indptr)} entries for {n_rows} rows"
    if indptr[0] != 0 or indptr[-1] != len(indices):
        return f"indptr runs from {indptr[0]} to {indptr[-1]} over {len(indices)} indices"
    if (indptr[1:] < indptr[:-1]).any():
        return "a row ends before it starts"
    if len(data) != len(indices):
        return f"there are {len(data)} values for {len(indices)} indices"
    if len(indices) and (indices.min() < 0 or indices.max() >= n_columns):
        return f"indices lie in {indices.min()}..{indices.max()} with {n_columns} columns"
    if n_columns > max(FREE_COLUMNS, len(indices)):
        return f"{n_columns} columns are too many for {len(indices)} entries"
    return None
