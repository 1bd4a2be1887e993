"""Errors and warnings: one sentence that names the value, what was expected and what to do."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]
LONGEST_VALUE = 60  # characters of a value that a message shows
NO_MEMORY = ("cannot allocate memory", "failed to map segment", "can't start new thread")
SECRET = re.compile(r"(\w:/{1,3})[^\s'\"/@]*:[^\s'\"]*@")  # in s3://key:secret@bucket


class InputError(ValueError):
    """Raised when data or parameters cannot be used; a ``ValueError``.

    The message says which value was passed, what was expected and what to do.

    Parameters
    ----------
    message : object, default=""
        The text of the error.

    Examples
    --------
    >>> import gnncal
    >>> try:
    ...     gnncal.calibrators.softmax([[1.0, 2.0]], temperature=-1)
    ... except gnncal.InputError as error:
    ...     print(error)
    temperature has values that are not positive; pass numbers above 0.

    """

    def __init__(self, message: object = "") -> None:
        super().__init__(without_secrets(str(message)))


class MissingExtraError(ImportError):
    """Raised when an optional dependency is not installed; an ``ImportError``.

    The message names the extra to install.

    Examples
    --------
    >>> from gnncal import MissingExtraError
    >>> raise MissingExtraError("GATS needs torch: pip install 'gnncal[neural]'.")
    Traceback (most recent call last):
        ...
    gnncal.data.errors.MissingExtraError: GATS needs torch: pip install 'gnncal[neural]'.

    """


class GnncalWarning(UserWarning):
    """Issued when something was assumed, ignored or stopped early; the result is still usable.

    Examples
    --------
    To turn these warnings into errors, for instance in tests:

    >>> import warnings
    >>> from gnncal import GnncalWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", GnncalWarning)

    """


def warn(message: str) -> None:
    """Issue a :class:`GnncalWarning` that points at the line which called into gnncal."""
    frame = caller = sys._getframe(1)
    while frame.f_back is not None:
        # The laboratory's frames, and those of plug-ins that are called gnncal_..., are inside too.
        is_ours = frame.f_globals.get("__name__", "").startswith(PACKAGE)
        frame = frame.f_back
        if is_ours:  # the outermost one counts: ours call each other through other libraries too
            caller = frame
    warnings.warn_explicit(
        message,
        GnncalWarning,
        caller.f_code.co_filename,
        caller.f_lineno,
        module=caller.f_globals.get("__name__"),
        registry=caller.f_globals.setdefault("__warningregistry__", {}),
    )


def without_secrets(text: str) -> str:
    """Return a text in which addresses have neither user nor password."""
    return SECRET.sub(r"\1...@", text)


def short_repr(value: Any) -> str:
    """Return a value as a message shows it: on one line, cut when long, without NumPy types."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def lacks_memory(error: BaseException) -> bool:
    """Return whether memory is what lacked, which libraries and threads say in their own ways."""
    if isinstance(error, MemoryError):
        return True
    said = str(error).lower().replace("cannot allocate memory in static tls", "")  # is another
    is_told = isinstance(error, ImportError | RuntimeError)
    return is_told and any(each in said for each in NO_MEMORY)


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional dependency where it is used, or name the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        if lacks_memory(error):
            raise MemoryError(f"not enough memory to load {module}; allow more.") from error
        message = f"{purpose} needs {module.partition('.')[0]}: pip install 'gnncal[{extra}]'."
        raise MissingExtraError(message) from error


def to_jsonable(value: Any, *, digits: int | None = None) -> Any:
    """Turn a value into dictionaries, lists, numbers and text; what is not finite becomes None."""
    if value is None or isinstance(value, bool | int | str):  # first, because there are many
        return value
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    elif hasattr(value, "as_dict"):
        value = value.as_dict()
    elif is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(entry, digits=digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(each, digits=digits) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, bool | int | str) else repr(value)
