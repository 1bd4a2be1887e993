"""What goes wrong, in one sentence each: what came, what was expected, what to do."""

from __future__ import annotations

from importlib import import_module
from typing import Any

LONGEST_VALUE = 60  # characters of a value that a message shows


class InputError(ValueError):
    """The caller's data cannot be used as it is."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed."""


class GnncalWarning(UserWarning):
    """Something was assumed, ignored or stopped early; the result is still usable."""


def shown(value: Any) -> str:
    """A value as a message shows it: on one line, cut when long, 9999 for ``np.int64(9999)``."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional dependency where it is used, or name the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"{purpose} needs {module.partition('.')[0]}: pip install 'gnncal[{extra}]'."
        raise MissingExtraError(message) from error
