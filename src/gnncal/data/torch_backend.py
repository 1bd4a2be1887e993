"""The operations of formulas on torch tensors, with gradients: vectors (n,) and matrices (n, k)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
add_, exp_, divide_ = torch.add, torch.exp, torch.div  # a gradient needs what would be overwritten
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


def shifted(matrix: Tensor) -> Tensor:
    """Return the rows less their largest entries, which count as constants."""
    return matrix - matrix.detach().amax(dim=1, keepdim=True)


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


def columns(matrix: Tensor) -> list[Tensor]:
    """Return the columns of a matrix as vectors."""
    return list(matrix.unbind(1))


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


def precise(values: Tensor) -> Tensor:
    """Return values as they are: a module computes in the precision of its logits."""
    return values


def with_columns(matrix: Tensor, vectors: Sequence[Tensor]) -> Tensor:
    """Return a matrix with more columns."""
    return torch.cat([matrix, *(vector[:, None] for vector in vectors)], dim=1)


def fill_(matrix: Tensor, rows: Tensor, value: float) -> Tensor:
    """Return a matrix with one value in some rows."""
    return torch.where(rows[:, None], value, matrix)


def nan_to_zero(values: Tensor) -> Tensor:
    """Return values with 0 in place of NaN; no gradient flows there."""
    return torch.where(values.isnan(), torch.zeros_like(values), values)


def where_needed(
    condition: Tensor,
    function: Callable[..., Tensor],
    arguments: Sequence[Tensor],
    otherwise: Tensor,
) -> Tensor:
    """Return ``function(*arguments)`` for the rows where a condition holds."""
    return torch.where(condition, function(*arguments), otherwise)


def like(values: Tensor, other: Tensor) -> Tensor:
    """Return values as precise as others."""
    return values.to(other.dtype)


def is_precise(values: Tensor) -> bool:
    """Whether values have the precision of a float64."""
    return values.dtype == torch.float64


def whole(values: Tensor) -> Tensor:
    """Return whole numbers as integers; NaN becomes 0."""
    return values.nan_to_num(0.0).long()


def finite_(values: Tensor) -> Tensor:
    """Return infinities as the largest numbers that there are."""
    limit = torch.finfo(values.dtype).max
    return values.clamp(-limit, limit)


def product(matrix: Tensor, weight: Tensor) -> Tensor:
    """W x of each row x; a weight (k,) is the diagonal of W."""
    return weight * matrix if weight.ndim == 1 else matrix @ weight.T


def ones(matrix: Tensor) -> Tensor:
    """Return 1 for each row of a matrix, (n,)."""
    return matrix.new_ones(matrix.shape[0])
