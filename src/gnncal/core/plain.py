"""Records, arrays and numbers as what JSON can say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any, *, digits: int | None = None) -> Any:
    """Turn a value into dictionaries, lists, numbers and text.

    Records become dictionaries, by their ``as_dict`` if they have one. NaN and infinity become
    None. ``digits`` rounds numbers to that many significant digits. Anything else
    becomes its ``repr``.
    """
    if hasattr(value, "as_dict"):
        return plain(value.as_dict(), digits=digits)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), digits=digits) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry, digits=digits) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits=digits)
    if isinstance(value, list | tuple):
        return [plain(entry, digits=digits) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item(), digits=digits)
    if isinstance(value, float):
        return _number(value, digits)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, bool | int | str):
        return value
    return repr(value)


def _number(value: float, digits: int | None) -> float | None:
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")
