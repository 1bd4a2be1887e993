"""With ``--json`` stdout holds one JSON document; whatever else is printed goes to stderr.

Calibrators of other packages may print, and so may the processes that ``gnncal bench`` starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

STDOUT, STDERR = 1, 2  # as the operating system numbers them
_target: TextIO | None = None  # where the document goes; None means stdout


def json_target() -> TextIO | None:
    """Return the stream for the document, which is stdout as it was when the verb began."""
    return _target


@contextmanager
def only_json_on_stdout(wanted: bool) -> Iterator[None]:
    """Send what is printed in this block to stderr, except what goes to :func:`json_target`."""
    global _target
    if not wanted or _target is not None:
        yield
        return
    with _own_copy_of_stdout() as _target, redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            _target = None


@contextmanager
def _own_copy_of_stdout() -> Iterator[TextIO]:
    """Give a stream to where stdout leads, while number 1 itself leads to stderr.

    Other processes and code that is not Python write to the number.
    """
    stdout = sys.stdout
    try:
        is_real = stdout.fileno() == STDOUT
        stdout.flush()
        copy = os.dup(STDOUT) if is_real else -1
        if is_real:
            os.dup2(STDERR, STDOUT)
    except (AttributeError, OSError, ValueError):  # captured by a test, replaced or closed
        is_real = False
    if not is_real:
        yield stdout
        return
    target = os.fdopen(copy, "w", encoding=stdout.encoding, errors=stdout.errors, closefd=False)
    try:
        yield target
    finally:
        with suppress(OSError):  # the reader has left, which was told when it was written to
            target.close()
        os.dup2(copy, STDOUT)
        os.close(copy)
