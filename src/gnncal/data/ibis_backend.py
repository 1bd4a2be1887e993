"""The operations of formulas on Ibis columns: vectors are expressions, matrices are `Columns`.

A formula makes one expression of what it computes. Text that a formula repeats is computed again by
some engines, so whoever runs large tables keeps what a formula uses twice as a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul, sub, truediv
from typing import Any, NamedTuple

import ibis


class Columns:
    """A matrix: one expression for each of its columns, with the arithmetic of arrays."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def combine(self, other: Any, operation: Callable[[Any, Any], Any]) -> Columns:
        """Apply an operation column by column."""
        return Columns(
            [operation(a, b) for a, b in zip(self.parts, _spread(other, self), strict=True)]
        )

    def each(self, operation: Callable[[Any], Any]) -> Columns:
        """Apply an operation to each column."""
        return Columns([operation(part) for part in self.parts])

    def __add__(self, other: Any) -> Columns:
        return self.combine(other, add)

    def __sub__(self, other: Any) -> Columns:
        return self.combine(other, sub)

    def __mul__(self, other: Any) -> Columns:
        return self.combine(other, mul)

    def __truediv__(self, other: Any) -> Columns:
        return self.combine(other, truediv)

    def __radd__(self, other: Any) -> Columns:
        return self.combine(other, lambda a, b: b + a)

    def __rsub__(self, other: Any) -> Columns:
        return self.combine(other, lambda a, b: b - a)

    def __rmul__(self, other: Any) -> Columns:
        return self.combine(other, lambda a, b: b * a)

    __array_ufunc__ = None  # NumPy leaves `row * matrix` to this class


class Column(NamedTuple):
    """A vector that meets every column of a matrix."""

    vector: Any


def _spread(other: Any, like: Columns) -> list[Any]:
    """Return one operand for each column."""
    if isinstance(other, Columns):
        return other.parts
    if isinstance(other, Column):
        return [other.vector] * len(like.parts)
    if hasattr(other, "tolist"):  # a NumPy row or number
        other = other.tolist()
    return list(other) if isinstance(other, list | tuple) else [other] * len(like.parts)


def _of_every_entry(name: str) -> Callable[[Any], Any]:
    def apply(values: Any) -> Any:
        if isinstance(values, Columns):
            return values.each(apply)
        return getattr(values, name)()

    return apply


exp, log, sqrt, absolute, ceil = map(_of_every_entry, ("exp", "ln", "sqrt", "abs", "ceil"))
exp_ = exp


def add_(values: Any, other: Any) -> Any:
    """Return x + y."""
    return values + other


def divide_(values: Any, divisor: Any) -> Any:
    """Return x / y."""
    return values / divisor


def log1p(values: Any) -> Any:
    """Return ln(1 + x)."""
    return log(values + 1.0)


def maximum(values: Any, other: Any) -> Any:
    """Return the larger of two entries."""
    if isinstance(values, Columns):
        return values.combine(other, maximum)
    return ibis.greatest(values, other)


maximum_ = maximum


def minimum(values: Any, other: Any) -> Any:
    """Return the smaller of two entries."""
    if isinstance(values, Columns):
        return values.combine(other, minimum)
    return ibis.least(values, other)


def where(condition: Any, values: Any, other: Any) -> Any:
    """Return entries of ``values`` where the condition holds, of ``other`` elsewhere."""
    return ibis.ifelse(condition, values, other)


def softplus(values: Any) -> Any:
    """Return ln(1 + e^x), without overflow for large x."""
    return maximum(values, 0.0) + log1p(exp(-absolute(values)))


def rounded(values: Any, digits: int) -> Any:
    """Return values rounded to so many decimal places."""
    return values.round(digits)


def column(vector: Any) -> Any:
    """Return a vector so that it meets every column of a matrix; a number stays a number."""
    return Column(vector) if hasattr(vector, "type") else vector


def largest(matrix: Columns) -> Any:
    """Return the largest entry of each row."""
    return ibis.greatest(*matrix.parts)


def shifted(matrix: Columns) -> Columns:
    """Return the rows less their largest entries."""
    return matrix - column(largest(matrix))


def total(matrix: Columns) -> Any:
    """Return the sum of each row."""
    return reduce(add, matrix.parts)


def products(matrix: Columns, other: Columns) -> Any:
    """Return the scalar product of the rows of two matrices."""
    return total(matrix * other)


def weighted(matrix: Columns, weights: Any) -> Any:
    """Return the sum of each row with a weight for each column."""
    return total(matrix * weights)


def matrix(vectors: Sequence[Any]) -> Columns:
    """Return vectors side by side."""
    return Columns(vectors)


def columns(matrix: Columns) -> list[Any]:
    """Return the columns of a matrix as vectors."""
    return matrix.parts


def width(values: Columns) -> int:
    """Return the number of columns of a matrix."""
    return len(values.parts)


def at_class(values: Columns, classes: Any) -> Any:
    """Return the entry of each row in the column of its class."""
    return classes.cases(*enumerate(values.parts))


def of_class(table: Any, classes: Any) -> Any:
    """Return the entry of a table (n_classes,) for each class."""
    # A plain 1.25 would be read as a decimal; this is a float64 to the last bit.
    exact = (ibis.literal(repr(float(value))).cast("float64") for value in table)
    return classes.cases(*enumerate(exact))


def as_number(condition: Any, like: Any) -> Any:
    """Return 1 where a condition holds and 0 elsewhere."""
    return condition.cast("float64")


def like(values: Any, other: Any) -> Any:
    """Return values as they are: tables compute in float64."""
    return values


def precise(values: Any) -> Any:
    """Return values as they are: tables compute in float64."""
    return values


def nan_to_zero(values: Any) -> Any:
    """Return values with 0 in place of null."""
    return values.each(nan_to_zero) if isinstance(values, Columns) else values.fill_null(0.0)
