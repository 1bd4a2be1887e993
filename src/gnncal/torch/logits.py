"""Logits that come to a module: what is refused, and what becomes of rows that are not finite."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gnncal.core.errors import InputError


def check_form(logits: Any, n_classes: int) -> None:
    """Raise an InputError unless these are real numbers, a row for each node."""
    if not isinstance(logits, Tensor) or logits.layout != torch.strided:
        raise InputError(
            f"logits is a {type(logits).__name__}, not a dense tensor; pass "
            "torch.as_tensor(logits), or call the calibrator's predict_proba."
        )
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise InputError(
            f"logits has shape {tuple(logits.shape)}; expected (n_nodes, {n_classes}), "
            "one column for each class that the calibrator was fitted with."
        )
    if logits.is_complex():
        raise InputError(f"logits is of {logits.dtype}; expected real numbers.")


def check_finite(logits: Tensor) -> None:
    """Raise an InputError if a logit is NaN or infinite."""
    if logits.numel() == 0:
        return
    lowest, highest = torch.aminmax(logits.detach())  # one pass; both are NaN if a logit is
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        bad = int((~logits.isfinite()).any(dim=1).sum())
        raise InputError(
            f"logits contains NaN or infinity in {bad} of {len(logits)} rows, which would spread "
            "to neighbours; pass finite values, or set module.checks_values = False to get NaN for "
            "those nodes and leave them out elsewhere."
        )


def blank_rows_that_are_not_finite(logits: Tensor) -> Tensor:
    """Return the logits with NaN in every column of a row that has a NaN or an infinity."""
    is_finite = logits.isfinite().all(dim=1, keepdim=True)
    return torch.where(is_finite, logits, torch.nan)
