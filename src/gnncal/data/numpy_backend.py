"""The operations of formulas on NumPy arrays: vectors (n,) and matrices (n, k)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.arrays import row_maxima as _row_maxima

exp, log, log1p, sqrt, absolute, ceil = np.exp, np.log, np.log1p, np.sqrt, np.absolute, np.ceil
maximum, minimum, where, rounded = np.maximum, np.minimum, np.where, np.round
weighted, of_class = np.matmul, np.take


def exp_(values: FloatArray) -> FloatArray:
    """Return e^x, in the memory of x."""
    return np.exp(values, out=values)


def divide_(values: FloatArray, divisor: FloatArray | float) -> FloatArray:
    """Return x / y, in the memory of x."""
    with np.errstate(over="ignore"):  # -1e38 / 0.01 is -inf, whose exp is the right 0
        return np.divide(values, divisor, out=values)


def add_(values: FloatArray, other: FloatArray | float) -> FloatArray:
    """Return x + y, in the memory of x."""
    return np.add(values, other, out=values)


def maximum_(values: FloatArray, other: FloatArray | float) -> FloatArray:
    """Return the larger of two entries, in the memory of x."""
    return np.maximum(values, other, out=values)


def softplus(values: FloatArray) -> FloatArray:
    """Return ln(1 + e^x)."""
    return np.logaddexp(0.0, values)


def column(vector: Any) -> Any:
    """Return a vector so that it meets every column of a matrix; a number stays a number."""
    return vector if np.ndim(vector) == 0 else np.reshape(vector, (-1, 1))


def largest(matrix: FloatArray) -> FloatArray:
    """Return the largest entry of each row, (n,)."""
    return _row_maxima(matrix)


def shifted(matrix: FloatArray) -> FloatArray:
    """Return the rows less their largest entries."""
    with np.errstate(over="ignore"):  # -3e38 - 3e38 is -inf, whose exp is the right 0
        return matrix - _row_maxima(matrix)[:, None]


def total(matrix: FloatArray) -> FloatArray:
    """Return the sum of each row, (n,)."""
    return matrix.sum(axis=1)


def products(matrix: FloatArray, other: FloatArray) -> FloatArray:
    """Return the scalar product of the rows of two matrices, (n,)."""
    return np.einsum("ik,ik->i", matrix, other)


def matrix(vectors: Sequence[FloatArray]) -> FloatArray:
    """Return vectors side by side, (n, k)."""
    return np.stack(vectors, axis=1)


def columns(matrix: FloatArray) -> list[FloatArray]:
    """Return the columns of a matrix as vectors."""
    return list(matrix.T)


def width(values: FloatArray) -> int:
    """Return the number of columns of a matrix."""
    return int(values.shape[1])


def at_class(values: FloatArray, classes: IntArray) -> FloatArray:
    """Return the entry of each row in the column of its class, (n,)."""
    return values[np.arange(len(values)), classes]


def as_number(condition: BoolArray, like: FloatArray) -> FloatArray:
    """Return 1 where a condition holds and 0 elsewhere, as precise as ``like``."""
    return condition.astype(like.dtype)


def with_class(values: FloatArray, classes: IntArray, entries: Any) -> FloatArray:
    """Return a copy of a matrix with other entries in the column of each row's class."""
    changed = values.copy()
    changed[np.arange(len(values)), classes] = entries
    return changed


def tails(matrix: FloatArray) -> FloatArray:
    """Return, in column m, the sum of each row without its m largest entries, (n, k)."""
    return np.cumsum(np.sort(matrix, axis=1), axis=1)[:, ::-1]


def numbered(matrix: FloatArray) -> FloatArray:
    """Return 0, 1, .., k-1, one number for each column."""
    return np.arange(matrix.shape[1], dtype=matrix.dtype)


def precise(values: FloatArray) -> FloatArray:
    """Return values in float64, in which numbers about single nodes are computed."""
    return values.astype(np.float64)


def with_columns(matrix: FloatArray, vectors: Sequence[FloatArray]) -> FloatArray:
    """Return a matrix with more columns, in its precision."""
    return np.column_stack([matrix, *(vector.astype(matrix.dtype) for vector in vectors)])


def fill_(matrix: FloatArray, rows: BoolArray, value: float) -> FloatArray:
    """Return a matrix with one value in some rows, in the memory of the matrix."""
    matrix[rows] = value
    return matrix


def nan_to_zero(values: FloatArray) -> FloatArray:
    """Return values with 0 in place of NaN."""
    return np.nan_to_num(values, nan=0.0)


def where_needed(
    condition: BoolArray,
    function: Callable[..., FloatArray],
    arguments: Sequence[FloatArray],
    otherwise: FloatArray,
) -> FloatArray:
    """Return ``function(*arguments)`` for the rows where a condition holds, computed there only."""
    result = otherwise.copy()
    rows = np.flatnonzero(condition)
    if rows.size:
        result[rows] = function(*(argument[rows] for argument in arguments))
    return result


def like(values: FloatArray, other: FloatArray) -> FloatArray:
    """Return values as precise as others."""
    return values.astype(other.dtype)


def is_precise(values: FloatArray) -> bool:
    """Whether values have the precision of a float64."""
    return values.dtype == np.float64


def whole(values: FloatArray) -> IntArray:
    """Return whole numbers as integers."""
    return values.astype(np.int64)


def finite_(values: FloatArray) -> FloatArray:
    """Return infinities as the largest numbers that there are, in the memory of the values."""
    limit = np.finfo(values.dtype).max
    return np.clip(values, -limit, limit, out=values)


def product(matrix: FloatArray, weight: FloatArray) -> FloatArray:
    """W x of each row x; a weight (k,) is the diagonal of W."""
    with np.errstate(over="ignore"):
        return weight * matrix if weight.ndim == 1 else matrix @ weight.T


def ones(matrix: FloatArray) -> FloatArray:
    """Return 1 for each row of a matrix, (n,), in float64."""
    return np.ones(len(matrix))
