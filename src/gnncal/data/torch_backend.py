"""The operations of formulas on tensors, with gradients; :mod:`gnncal.data.backend` lists them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

LINEAR_FROM = -math.log(torch.finfo(torch.float64).eps)  # ln(1 + e^x) is x to the last digit


def _maximum(values: Tensor, other: Tensor | float) -> Tensor:
    return torch.maximum(values, other) if isinstance(other, Tensor) else values.clamp(min=other)


def _minimum(values: Tensor, other: Tensor | float) -> Tensor:
    return torch.minimum(values, other) if isinstance(other, Tensor) else values.clamp(max=other)


def _rounded(values: Tensor, digits: int) -> Tensor:
    unit = 10.0**digits
    return (values * unit).round() / unit


def _finite(values: Tensor) -> Tensor:
    limit = torch.finfo(values.dtype).max
    return values.clamp(-limit, limit)


def _column(vector: Any) -> Any:
    return vector[:, None] if isinstance(vector, Tensor) and vector.ndim == 1 else vector


def _with_class(matrix: Tensor, classes: Tensor, entries: Tensor | float) -> Tensor:
    new = entries[:, None] if isinstance(entries, Tensor) else entries
    return matrix.scatter(1, classes[:, None], new)


OPERATIONS = SimpleNamespace(
    exp=torch.exp,
    log=torch.log,
    log1p=torch.log1p,
    sqrt=torch.sqrt,
    absolute=torch.abs,
    ceil=torch.ceil,
    rounded=_rounded,
    softplus=lambda values: torch.nn.functional.softplus(values, threshold=LINEAR_FROM),
    maximum=_maximum,
    minimum=_minimum,
    where=torch.where,
    nan_to_zero=lambda values: torch.where(values.isnan(), torch.zeros_like(values), values),
    exp_=torch.exp,  # a gradient needs what would be overwritten
    add_=torch.add,
    divide_=torch.div,
    maximum_=_maximum,
    fill_=lambda matrix, rows, value: torch.where(rows[:, None], value, matrix),
    finite_=_finite,
    column=_column,
    largest=lambda matrix: matrix.amax(dim=1),
    shifted=lambda matrix: matrix - matrix.detach().amax(dim=1, keepdim=True),  # a constant
    total=lambda matrix: matrix.sum(dim=1),
    products=lambda matrix, other: (matrix * other).sum(dim=1),
    weighted=torch.matmul,
    product=lambda matrix, weight: weight * matrix if weight.ndim == 1 else matrix @ weight.T,
    matrix=lambda vectors: torch.stack(list(vectors), dim=1),
    columns=lambda matrix: list(matrix.unbind(1)),
    with_columns=lambda matrix, vectors: torch.cat(
        [matrix, *(vector[:, None] for vector in vectors)], dim=1
    ),
    width=lambda matrix: int(matrix.shape[1]),
    numbered=lambda matrix: torch.arange(matrix.shape[1], dtype=matrix.dtype, device=matrix.device),
    ones=lambda matrix: matrix.new_ones(matrix.shape[0]),
    tails=lambda matrix: matrix.sort(dim=1).values.cumsum(1).flip(1),
    at_class=lambda matrix, classes: matrix.gather(1, classes[:, None])[:, 0],
    with_class=_with_class,
    of_class=lambda table, classes: table[classes],
    where_needed=lambda condition, function, arguments, otherwise: torch.where(
        condition, function(*arguments), otherwise
    ),
    as_number=lambda condition, like: condition.to(like.dtype),
    like=lambda values, other: values.to(other.dtype),
    precise=lambda values: values,  # a module computes in the precision of its logits
    is_precise=lambda values: values.dtype == torch.float64,
    whole=lambda values: values.nan_to_num(0.0).long(),
)
