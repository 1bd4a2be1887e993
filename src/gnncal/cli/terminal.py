"""What a command prints: results, notes, JSON, and failures that end it with one sentence."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import wraps
from pathlib import Path
from textwrap import fill
from typing import Any, ParamSpec, TextIO

import typer
from rich.console import Console

from gnncal.data.errors import (
    GnncalWarning,
    InputError,
    MissingExtraError,
    lacks_memory,
    to_jsonable,
    without_secrets,
)

LIBRARIES = {"duckdb", "_duckdb", "pyarrow", "fsspec", "s3fs", "botocore", "aiobotocore"}
LIBRARIES |= {"pyspark", "py4j", "safetensors", "numba", "llvmlite", "onnx", "onnxruntime"}
MEMORY = "there is not enough memory for this; allow the process more, or pass a smaller input."
WIDTH = 100  # columns of what is printed
# C0 but tab and line feed, DEL, C1, and what turns the direction of text or ends a line.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
P = ParamSpec("P")
_stdout: TextIO | None = None  # where a JSON document goes while everything else goes to stderr


def printable(text: str) -> str:
    """Return text that shows control characters instead of sending them to a terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


err = Console(stderr=True, markup=False, emoji=False, highlight=False)  # for progress


def say(text: object) -> None:
    """Print text that strangers wrote in part."""
    print(printable(str(text)), flush=True)


def sentence_of(error: BaseException) -> str | None:
    """Return what to print of an error; None if it is a mistake in the program."""
    library = type(error).__module__.partition(".")[0]
    if lacks_memory(error) or isinstance(error.__cause__, MemoryError):
        return MEMORY
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        text = f"{where}{error.strerror}; check the path and the disk, or choose another."
    elif library in LIBRARIES:
        text = f"{library} stopped: {error}"
    elif isinstance(error, InputError | MissingExtraError | OSError):
        text = str(error)
    else:
        return None
    return without_secrets(text)


@contextmanager
def error_messages() -> Iterator[None]:
    """End with one line on stderr where the block fails, unless the program itself is at fault."""
    try:
        yield
    except KeyboardInterrupt:
        print_line("stopped", "interrupted")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # the reader has left, as in `gnncal ... | head -1`; Typer ends quietly
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        print_line("error", sentence)
        raise typer.Exit(2) from None


def with_error_messages(verb: Callable[P, object]) -> Callable[P, None]:
    """Wrap a verb so that bad input ends with one line on stderr, and warnings become notes."""

    @wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        global _stdout
        _stdout = sys.stdout
        only_json = redirect_stdout(sys.stderr) if kwargs.get("json") else nullcontext()
        with error_messages(), warnings.catch_warnings(), only_json:  # calibrators may print
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GnncalWarning)
            warnings.showwarning = lambda message, *rest, **more: note(message)
            verb(*args, **kwargs)

    return wrapped


def note(message: Warning | str) -> None:
    """Print something worth knowing as one line on stderr."""
    print_line("note", message)


def print_line(kind: str, message: object) -> None:
    """Print a kind of message and the message as one line on stderr."""
    print(f"{kind}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


def print_result(
    text: object,
    document: Any,
    *,
    as_json: bool,
    notes: Iterable[str] = (),
    written: Path | str = "",
) -> None:
    """Print the notes to stderr, and JSON or the text, and what was written where, to stdout."""
    for message in notes:
        note(message)
    if as_json:
        print_json(document)
        return
    whole: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    lines = str(text).split("\n")
    say("\n".join(line if len(line) <= WIDTH else fill(line, WIDTH, **whole) for line in lines))
    if written:
        say(f"\nwritten to {written}")  # on one line, which can be copied


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    print(to_json(value), file=_stdout, flush=True)


def to_json(value: Any) -> str:
    """Return records, arrays and numbers as JSON in ASCII; NaN and infinity become null."""
    return json.dumps(to_jsonable(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f")
