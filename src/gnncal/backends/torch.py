"""The operations of formulas on torch tensors, with gradients: vectors (n,) and matrices (n, k)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

exp, log, log1p, sqrt, absolute, ceil = (
    torch.exp,
    torch.log,
    torch.log1p,
    torch.sqrt,
    torch.abs,
    torch.ceil,
)
exp_, divide_ = torch.exp, torch.div  # a gradient needs what would be overwritten
LINEAR_FROM = -math.log(torch.finfo(torch.float64).eps)  # ln(1 + e^x) is x to the last digit


def maximum(values: Tensor, other: Tensor | float) -> Tensor:
    """Return the larger of two entries."""
    return torch.maximum(values, other) if isinstance(other, Tensor) else values.clamp(min=other)


maximum_ = maximum


def minimum(values: Tensor, other: Tensor | float) -> Tensor:
    """Return the smaller of two entries."""
    return torch.minimum(values, other) if isinstance(other, Tensor) else values.clamp(max=other)


def where(condition: Tensor, values: Tensor | float, other: Tensor | float) -> Tensor:
    """Return entries of ``values`` where the condition holds, of ``other`` elsewhere."""
    return torch.where(condition, values, other)


def softplus(values: Tensor) -> Tensor:
    """Return ln(1 + e^x)."""
    return torch.nn.functional.softplus(values, threshold=LINEAR_FROM)


def rounded(values: Tensor, digits: int) -> Tensor:
    """Return values rounded to so many decimal places."""
    unit = 10.0**digits
    return (values * unit).round() / unit


def column(vector: Any) -> Any:
    """Return a vector so that it meets every column of a matrix; a number stays a number."""
    return vector[:, None] if isinstance(vector, Tensor) and vector.ndim == 1 else vector


def largest(matrix: Tensor) -> Tensor:
    """Return the largest entry of each row, (n,)."""
    return matrix.amax(dim=1)


def total(matrix: Tensor) -> Tensor:
    """Return the sum of each row, (n,)."""
    return matrix.sum(dim=1)


def products(matrix: Tensor, other: Tensor) -> Tensor:
    """Return the scalar product of the rows of two matrices, (n,)."""
    return (matrix * other).sum(dim=1)


def weighted(matrix: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of each row with a weight for each column, (n,)."""
    return matrix @ weights


def matrix(vectors: Sequence[Tensor]) -> Tensor:
    """Return vectors side by side, (n, k)."""
    return torch.stack(list(vectors), dim=1)


def width(values: Tensor) -> int:
    """Return the number of columns of a matrix."""
    return int(values.shape[1])


def at_class(values: Tensor, classes: Tensor) -> Tensor:
    """Return the entry of each row in the column of its class, (n,)."""
    return values.gather(1, classes[:, None])[:, 0]


def of_class(table: Tensor, classes: Tensor) -> Tensor:
    """Return the entry of a table (n_classes,) for each class, (n,)."""
    return table[classes]


def as_number(condition: Tensor, like: Tensor) -> Tensor:
    """Return 1 where a condition holds and 0 elsewhere, as precise as ``like``."""
    return condition.to(like.dtype)


def with_class(values: Tensor, classes: Tensor, entries: Tensor | float) -> Tensor:
    """Return a copy of a matrix with other entries in the column of each row's class."""
    column_of_class = classes[:, None]
    if isinstance(entries, Tensor):
        return values.scatter(1, column_of_class, entries[:, None])
    return values.scatter(1, column_of_class, entries)


def tails(matrix: Tensor) -> Tensor:
    """Return, in column m, the sum of each row without its m largest entries, (n, k)."""
    return matrix.sort(dim=1).values.cumsum(1).flip(1)


def numbered(matrix: Tensor) -> Tensor:
    """Return 0, 1, .., k-1, one number for each column."""
    return torch.arange(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
