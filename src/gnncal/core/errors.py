"""Errors and warnings: one sentence that says what came, what was expected and what to do."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from typing import Any

PACKAGE = __name__.partition(".")[0]
LONGEST_VALUE = 60  # characters of a value that a message shows
SECRET = re.compile(r"(\w:/{1,3})[^\s'\"/@]*:[^\s'\"]*@")  # in s3://key:secret@bucket


class InputError(ValueError):
    """Raised when the caller's data or parameters cannot be used as they are.

    It is a ``ValueError``. The message says what came, what was expected, and what to do.

    Parameters
    ----------
    message : object, default=""
        The sentence.

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
    """Raised when an optional dependency is not installed.

    It is an ``ImportError``. The message names the extra that brings the dependency.

    Examples
    --------
    >>> from gnncal import MissingExtraError
    >>> raise MissingExtraError("GATS needs torch: pip install 'gnncal[neural]'.")
    Traceback (most recent call last):
        ...
    gnncal.core.errors.MissingExtraError: GATS needs torch: pip install 'gnncal[neural]'.

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
    """Return a text in which addresses have no user and no password."""
    return SECRET.sub(r"\1...@", text)


def shown(value: Any) -> str:
    """Return a value as a message shows it: on one line, cut when long, without NumPy types."""
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
