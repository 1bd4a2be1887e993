"""The operations of formulas on tensors, with gradients; :mod:`gnncal.data.arrays` lists them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from gnncal.data.arrays import COMMON, SAME_NAMES


def _maximum(values: Tensor, other: Tensor | float) -> Tensor:
    return torch.maximum(values, other) if isinstance(other, Tensor) else values.clamp(min=other)


def _minimum(values: Tensor, other: Tensor | float) -> Tensor:
    return torch.minimum(values, other) if isinstance(other, Tensor) else values.clamp(max=other)


def _column(vector: Any) -> Any:
    return vector[:, None] if isinstance(vector, Tensor) and vector.ndim == 1 else vector


TORCH = SimpleNamespace(
    **COMMON,
    **{name: getattr(torch, name) for name in SAME_NAMES},
    maximum=_maximum,
    minimum=_minimum,
    nan_to_zero=lambda values: torch.where(values.isnan(), torch.zeros_like(values), values),
    exp_=torch.exp,  # a gradient needs what would be overwritten
    add_=torch.add,
    divide_=torch.div,
    maximum_=_maximum,
    fill_=lambda matrix, rows, value: torch.where(rows[:, None], value, matrix),
    finite_=lambda values: values.clamp(
        torch.finfo(values.dtype).min, torch.finfo(values.dtype).max
    ),
    column=_column,
    largest=lambda matrix: matrix.amax(dim=1),
    shifted=lambda matrix: matrix - matrix.detach().amax(dim=1, keepdim=True),  # a constant
    row_dot=lambda matrix, other: (matrix * other).sum(dim=1),
    product=lambda matrix, weight: weight * matrix if weight.ndim == 1 else matrix @ weight.T,
    matrix=lambda vectors: torch.stack(list(vectors), dim=1),
    with_columns=lambda matrix, vectors: torch.cat([matrix, *map(_column, vectors)], dim=1),
    column_index=lambda matrix: torch.arange(
        matrix.shape[1], dtype=matrix.dtype, device=matrix.device
    ),
    ones=lambda matrix: matrix.new_ones(matrix.shape[0]),
    sum_without_top=lambda matrix: matrix.sort(dim=1).values.cumsum(1).flip(1),
    take_class=lambda matrix, classes: matrix.gather(1, classes[:, None])[:, 0],
    with_class=lambda matrix, classes, entries: matrix.scatter(
        1, classes[:, None], _column(entries)
    ),
    lookup=lambda table, classes: table[classes],
    where_lazy=lambda condition, function, arguments, otherwise: torch.where(
        condition, function(*arguments), otherwise
    ),
    as_number=lambda condition, like: condition.to(like.dtype),
    astype_like=lambda values, other: values.to(other.dtype),
    as_float64=lambda values: values,  # a module computes in the precision of its logits
)
