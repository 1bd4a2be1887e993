"""The operations of formulas on NumPy arrays; :mod:`gnncal.data.backend` says what each does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, row_maxima


def _shifted(matrix: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # -3e38 - 3e38 is -inf, whose exp is the right 0
        return matrix - row_maxima(matrix)[:, None]


def _divide_in_place(values: FloatArray, divisor: FloatArray | float) -> FloatArray:
    with np.errstate(over="ignore"):  # -1e38 / 0.01 is -inf, whose exp is the right 0
        return np.divide(values, divisor, out=values)


def _with_class(values: FloatArray, classes: IntArray, entries: Any) -> FloatArray:
    changed = values.copy()
    changed[np.arange(len(values)), classes] = entries
    return changed


def _fill_in_place(matrix: FloatArray, rows: BoolArray, value: float) -> FloatArray:
    matrix[rows] = value
    return matrix


def _where_needed(
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


def _finite_in_place(values: FloatArray) -> FloatArray:
    limit = np.finfo(values.dtype).max
    return np.clip(values, -limit, limit, out=values)


def _product(matrix: FloatArray, weight: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return weight * matrix if weight.ndim == 1 else matrix @ weight.T


OPERATIONS = SimpleNamespace(
    exp=np.exp,
    log=np.log,
    log1p=np.log1p,
    sqrt=np.sqrt,
    absolute=np.absolute,
    ceil=np.ceil,
    rounded=np.round,
    softplus=lambda values: np.logaddexp(0.0, values),
    maximum=np.maximum,
    minimum=np.minimum,
    where=np.where,
    nan_to_zero=lambda values: np.nan_to_num(values, nan=0.0),
    exp_=lambda values: np.exp(values, out=values),
    add_=lambda values, other: np.add(values, other, out=values),
    divide_=_divide_in_place,
    maximum_=lambda values, other: np.maximum(values, other, out=values),
    fill_=_fill_in_place,
    finite_=_finite_in_place,
    column=lambda vector: vector if np.ndim(vector) == 0 else np.reshape(vector, (-1, 1)),
    largest=row_maxima,
    shifted=_shifted,
    total=lambda matrix: matrix.sum(axis=1),
    products=lambda matrix, other: np.einsum("ik,ik->i", matrix, other),
    weighted=np.matmul,
    product=_product,
    matrix=lambda vectors: np.stack(vectors, axis=1),
    columns=lambda matrix: list(matrix.T),
    with_columns=lambda matrix, vectors: np.column_stack(
        [matrix, *(vector.astype(matrix.dtype) for vector in vectors)]
    ),
    width=lambda matrix: int(matrix.shape[1]),
    numbered=lambda matrix: np.arange(matrix.shape[1], dtype=matrix.dtype),
    ones=lambda matrix: np.ones(len(matrix)),
    tails=lambda matrix: np.cumsum(np.sort(matrix, axis=1), axis=1)[:, ::-1],
    at_class=lambda matrix, classes: matrix[np.arange(len(matrix)), classes],
    with_class=_with_class,
    of_class=np.take,
    where_needed=_where_needed,
    as_number=lambda condition, like: condition.astype(like.dtype),
    like=lambda values, other: values.astype(other.dtype),
    precise=lambda values: values.astype(np.float64),
    is_precise=lambda values: values.dtype == np.float64,
    whole=lambda values: values.astype(np.int64),
)
