"""The array types that the whole package uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.core.errors import InputError, shown

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """View anything array-like, torch tensors included, as a NumPy array (no copy if possible)."""
    if hasattr(values, "detach"):  # a torch tensor, recognised without importing torch
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
            f"{shown(values)} cannot be made an array; pass an array, or lists of equal length."
        ) from error
