"""Failures that end a command with one sentence: of the input, the disk, the memory, a library."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import wraps
from pathlib import Path
from textwrap import fill
from typing import Any, ParamSpec, TextIO, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.table import Table
from rich.text import Text

from gnncal.data.errors import (
    GnncalWarning,
    InputError,
    MissingExtraError,
    to_jsonable,
    without_secrets,
)
from gnncal.files.output import check_file, is_special

NO_MEMORY = re.compile(
    r"cannot allocate|can't allocate|unable to allocate|failed to map segment|not enough memory|"
    r"can't start new thread|out of memory|bad_alloc|malloc of size|failed to allocate",
    re.IGNORECASE,
)
LIBRARIES = {"duckdb", "_duckdb", "pyarrow", "fsspec", "s3fs", "botocore", "aiobotocore"}
LIBRARIES |= {"pyspark", "py4j", "safetensors", "numba", "llvmlite", "onnx", "onnxruntime"}
MEMORY = "there is not enough memory for this; allow the process more, or pass a smaller input."
LONGEST = 1500  # characters of a sentence
WIDTH = 100  # columns of what is printed
WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def sentence_of(error: BaseException) -> str | None:
    """Return what to print of an error; None if it is a mistake in the program."""
    if isinstance(error, InputError):
        return _cut(str(error))
    cause = error.__cause__ or error
    if isinstance(error, MemoryError) or isinstance(cause, MemoryError):
        return MEMORY
    of_machine = isinstance(cause, ImportError | OSError | RuntimeError | SystemError)
    if (of_machine or _is_foreign(cause)) and NO_MEMORY.search(str(cause)):
        return MEMORY
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        return _cut(f"{where}{error.strerror}; check the path and the disk, or choose another.")
    if isinstance(error, MissingExtraError | OSError):
        return _cut(str(error))
    if _is_foreign(error):
        return _cut(f"{type(error).__module__.partition('.')[0]} stopped: {error}")
    return None


def _is_foreign(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in LIBRARIES


def _cut(text: str) -> str:
    text = without_secrets(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


# C0 but tab and line feed, DEL, C1, and what turns the direction of text or ends a line.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text that shows control characters instead of sending them to a terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class Terminal(Console):
    """A console for text that strangers wrote in part; nothing of it is markup or control."""

    def __init__(self, **given: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **given)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print tables of Rich, and everything else as its text."""
        texts = (o if hasattr(o, "__rich_console__") else Text(printable(str(o))) for o in objects)
        super().print(*texts, **options)

    def render(self, *given: Any, **options: Any) -> Iterable[Segment]:
        """Render as Rich does; Rich's own control codes have segments of their own."""
        for segment in super().render(*given, **options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Show what is being done, which is never markup."""
        return super().status(Text(status) if isinstance(status, str) else status, **options)


out, err = Terminal(), Terminal(stderr=True)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_stdout: TextIO | None = None  # where a JSON document goes while everything else goes to stderr


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


def with_error_messages(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a verb so that bad input ends with one line on stderr, and warnings become notes."""

    @wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        global _stdout
        _stdout = sys.stdout
        only_json = redirect_stdout(sys.stderr) if kwargs.get("json") else nullcontext()
        with error_messages(), warnings.catch_warnings(), only_json:  # calibrators may print
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GnncalWarning)
            warnings.showwarning = lambda message, *rest, **more: note(message)
            return verb(*args, **kwargs)
        raise AssertionError  # for the type checker: the block returns or raises

    return wrapped


def note(message: Warning | str) -> None:
    """Print something worth knowing as one line on stderr."""
    print_line("note", message)


def print_line(kind: str, message: object) -> None:
    """Print a kind of message and the message as one line on stderr."""
    print(f"{kind}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


def with_bar(items: Collection[T], doing: str) -> Iterable[T]:
    """Show a progress bar while the items are worked through, if there is a terminal to show it."""
    if not err.is_terminal:
        return items  # a bar that is switched off still ends its line in Rich before 14.3
    from rich.progress import track

    return track(items, doing, console=err, transient=True)


def print_written(folder: Path | str, files: list[str]) -> None:
    """Print where the results are, unwrapped so that the path can be copied."""
    out.print(f"written to {folder}: {', '.join(files)}", soft_wrap=True)


def plain_table(title: str, columns: Iterable[str] = ()) -> Table:
    """Return an empty table in the house style: a name, and columns of numbers."""
    style: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
    table = Table(title=title, title_justify="left", **style)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table


def wrapped(text: str) -> str:
    """Return text with lines of at most 100 columns."""
    lines = (
        each if len(each) <= WIDTH else fill(each, WIDTH, **WHOLE) for each in text.split("\n")
    )
    return "\n".join(lines)


def print_result(
    text: object,
    document: Any,
    *,
    as_json: bool,
    notes: Iterable[str] = (),
    written: str = "",
    to: Console | None = None,
) -> None:
    """Print the notes to stderr, and JSON or the text, and what was written where, to stdout."""
    for message in notes:
        note(message)
    if as_json:
        print_json(document)
        return
    console = to or out
    is_rich = hasattr(text, "__rich_console__")
    console.print(text if is_rich else wrapped(str(text)), soft_wrap=not is_rich)
    if written:
        console.print(f"\nwritten to {written}", soft_wrap=True)  # a path that can be copied


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    print(to_json(value), file=_stdout, flush=True)


def to_json(value: Any) -> str:
    """Return records, arrays and numbers as JSON in ASCII; NaN and infinity become null."""
    return json.dumps(to_jsonable(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f")


def check_page_target(
    path: Path | None, *, inputs: Iterable[Path] = (), overwrite: bool = False
) -> None:
    """Check before any work that a page can be written to this path, if there is one."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; --out expects a file such as {path}/report.html.")
    check_file(path, inputs=inputs, overwrite=overwrite)
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.absolute().parent}; create it first.")


def console_beside(page: Path) -> Console:
    """Return where to speak of a page: not on stdout if the page itself may go there."""
    return err if is_special(page) else out
