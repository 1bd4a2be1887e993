"""Array types, and the few operations that formulas are written with, for arrays and tensors.

A formula asks :func:`backend_of` for the operations that suit its argument, so it is written once.
Vectors have one entry for each node. Matrices have one row for each node and few columns, such as
the classes. NumPy and torch have all of these functions:

- of every entry: ``exp``, ``log``, ``log1p``, ``sqrt``, ``absolute``, ``maximum``, ``minimum``,
  ``where``, ``nan_to_zero``;
- ``exp_``, ``add_``, ``divide_``, ``maximum_``, ``fill_`` (a value in some rows) and ``finite_``
  (infinities as the largest numbers), which may overwrite their first argument;
- of matrices: ``largest`` and ``total`` of each row, ``shifted`` rows whose largest entry is 0,
  ``row_dot`` of two rows, ``column`` (a vector that meets every column), ``take_class`` (one entry
  of each row), ``with_class`` (another one there), ``matrix`` (vectors side by side), ``columns``
  (the vectors again), ``with_columns`` (more of them), ``matmul`` (a weighted sum of columns),
  ``product`` (W x of each row x; a weight (k,) is the diagonal of W), ``sum_without_top`` (in
  column m the sum without the m largest entries), ``width``, ``column_index`` (0, 1, .., k-1),
  ``ones`` (for each row);
- ``lookup``, which looks each class up in a table, and ``where_lazy``, which calls a function on
  the rows where a condition holds;
- of precision: ``as_number`` (1 where a condition holds), ``astype_like`` (as precise as another),
  ``as_float64`` (in which NumPy computes numbers about single nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
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
        if getattr(values, "is_meta", False):
            raise InputError(
                "a tensor on the device meta has a shape and no values; pass one with values, on "
                "the CPU or a GPU."
            )
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


SAME_NAMES = ["exp", "log", "log1p", "sqrt", "absolute", "where", "matmul"]
COMMON: dict[str, Callable[..., Any]] = {  # what arrays and tensors spell alike
    "total": lambda matrix: matrix.sum(1),
    "columns": lambda matrix: list(matrix.T),
    "width": lambda matrix: int(matrix.shape[1]),
}


quietly = np.errstate(over="ignore")  # -1e38 / 0.01 is -inf, whose exp is the right 0


def _with_class(values: FloatArray, classes: IntArray, entries: Any) -> FloatArray:
    changed = values.copy()
    changed[np.arange(len(values)), classes] = entries
    return changed


def _fill_in_place(matrix: FloatArray, rows: BoolArray, value: float) -> FloatArray:
    matrix[rows] = value
    return matrix


def _where_lazy(
    condition: BoolArray,
    function: Callable[..., FloatArray],
    arguments: Sequence[FloatArray],
    otherwise: FloatArray,
) -> FloatArray:
    result = otherwise.copy()
    rows = np.flatnonzero(condition)
    if rows.size:
        result[rows] = function(*(argument[rows] for argument in arguments))
    return result


NUMPY = SimpleNamespace(
    **COMMON,
    **{name: getattr(np, name) for name in SAME_NAMES},
    maximum=np.maximum,
    minimum=np.minimum,
    nan_to_zero=lambda values: np.nan_to_num(values, nan=0.0),
    exp_=lambda values: np.exp(values, out=values),
    add_=lambda values, other: np.add(values, other, out=values),
    divide_=quietly(lambda values, divisor: np.divide(values, divisor, out=values)),
    maximum_=lambda values, other: np.maximum(values, other, out=values),
    fill_=_fill_in_place,
    finite_=lambda values: np.clip(
        values, np.finfo(values.dtype).min, np.finfo(values.dtype).max, out=values
    ),
    column=lambda vector: vector if np.ndim(vector) == 0 else np.reshape(vector, (-1, 1)),
    largest=row_maxima,
    shifted=quietly(lambda matrix: matrix - row_maxima(matrix)[:, None]),
    row_dot=lambda matrix, other: np.einsum("ik,ik->i", matrix, other),
    product=quietly(lambda x, weight: weight * x if weight.ndim == 1 else x @ weight.T),
    matrix=lambda vectors: np.stack(vectors, axis=1),
    with_columns=lambda matrix, vectors: np.column_stack(
        [matrix, *(vector.astype(matrix.dtype) for vector in vectors)]
    ),
    column_index=lambda matrix: np.arange(matrix.shape[1], dtype=matrix.dtype),
    ones=lambda matrix: np.ones(len(matrix)),
    sum_without_top=lambda matrix: np.cumsum(np.sort(matrix, axis=1), axis=1)[:, ::-1],
    take_class=lambda matrix, classes: matrix[np.arange(len(matrix)), classes],
    with_class=_with_class,
    lookup=np.take,
    where_lazy=_where_lazy,
    as_number=lambda condition, like: condition.astype(like.dtype),
    astype_like=lambda values, other: values.astype(other.dtype),
    as_float64=lambda values: values.astype(np.float64),
)


def backend_of(value: Any) -> Any:
    """Return the array operations of NumPy or torch, under common names.

    A :class:`~gnncal.calibrators.Formula` uses them where the names of NumPy and torch differ, such
    as ``maximum``, ``take_class`` or ``largest``.

    Parameters
    ----------
    value : ndarray or Tensor
        An array selects the operations of NumPy, a tensor those of torch.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import backend_of
    >>> z = np.array([[0.0, 2.0], [1.0, 0.5]])
    >>> backend_of(z).largest(z)
    array([2., 1.])

    """
    if isinstance(value, np.ndarray | float | int | np.generic):
        return NUMPY
    from gnncal.data import torch_backend

    return torch_backend.TORCH
