"""Records, arrays and numbers as what JSON can say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

ATOMS = {bool, int, str, type(None)}  # what JSON has as it is


def plain(value: Any, *, digits: int | None = None) -> Any:
    """Turn a value into dictionaries, lists, numbers and text."""
    if hasattr(value, "as_dict"):
        return plain(value.as_dict(), digits=digits)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), digits=digits) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry, digits=digits) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits=digits)
    if isinstance(value, list | tuple):
        return _entries(value, digits)
    if isinstance(value, np.generic):
        return plain(value.item(), digits=digits)
    if isinstance(value, float):
        return _entries([float(value)], digits)[0]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, bool | int | str):
        return value
    return repr(value)


def _entries(values: Sequence[Any], digits: int | None) -> list[Any]:
    """Turn each entry into what JSON can say; long lists of numbers in one go."""
    kinds = set(map(type, values))
    if kinds <= ATOMS:
        return list(values)
    if kinds != {float}:
        return [v if type(v) in ATOMS else plain(v, digits=digits) for v in values]
    if digits is None:
        return [v if math.isfinite(v) else None for v in values]
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in values]
