"""The standard streams of the program: any encoding will do, and a reader may leave early."""

from __future__ import annotations

import codecs
import os
import signal
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console

IN_ASCII = {
    **dict.fromkeys("─━–—−", "-"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    "±": "+-",
    "×": "x",
    "·": "*",
    "≥": ">=",
    "≤": "<=",
    "√": "sqrt ",
    "²": "^2",
    "\u0303": "~",  # above a letter, as in h~
}
BRAILLE = range(0x2800, 0x2900)  # what a spinner turns with


class Program(typer.Typer):
    """The program as a process; the streams are made ready before anything is written."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program and end the process."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors=write_plainly.__name__)
        # Rich would end with 1, for the help too, which is printed by a console of Typer's own.
        Console.on_broken_pipe = _leave  # type: ignore[method-assign]
        return super().__call__(*args, **kwargs)


def _leave(self: Console) -> None:
    end_quietly()


@contextmanager
def until_the_reader_leaves() -> Iterator[None]:
    """End quietly if what the block prints cannot be read any more, nor at the end of Python."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        end_quietly()


def end_quietly() -> NoReturn:
    """End as programs do whose reader left, as in ``gnncal ... | head -1``."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())  # for what is flushed when Python ends
    raise SystemExit(128 + signal.SIGPIPE)


def write_plainly(error: UnicodeError) -> tuple[str, int]:
    """Give what an encoding lacks in ASCII: a sign that people know, or its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_in_ascii, error.object[error.start : error.end])), error.end


def _in_ascii(character: str) -> str:
    if character in IN_ASCII:
        return IN_ASCII[character]
    if ord(character) in BRAILLE:
        return "*"
    parts = [c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c)]
    if parts and all(part.isascii() for part in parts):
        return "".join(parts)  # a letter without its accent, a small digit
    kind, _, name = unicodedata.name(character, "").rpartition(" LETTER ")
    if kind in ("GREEK SMALL", "GREEK CAPITAL"):
        return name.lower() if kind == "GREEK SMALL" else name.capitalize()
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error(write_plainly.__name__, write_plainly)
