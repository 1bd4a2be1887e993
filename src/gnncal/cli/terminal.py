"""Failures that end a command with one sentence: of the input, the disk, the memory, a library."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.progress import track
from rich.segment import Segment
from rich.status import Status
from rich.text import Text
from typer.core import TyperGroup

from gnncal.data.errors import GnncalWarning, InputError, MissingExtraError, plain, without_secrets
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


class Verbs(TyperGroup):
    """The program's verbs; what is wrong with a command line is said without its control codes."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        """Read the command line up to the verb."""
        with _printable_errors():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the rest of the command line and run the verb."""
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # of Click, which Typer has a copy of
            error.message = printable(error.message)  # type: ignore[attr-defined]
        raise


out, err = Terminal(), Terminal(stderr=True)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_stdout: TextIO | None = None  # where a JSON document goes while everything else goes to stderr


def friendly(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that bad input ends with one line on stderr, and warnings become notes."""

    @wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        global _stdout
        _stdout = sys.stdout
        only_json = redirect_stdout(sys.stderr) if kwargs.get("json") else nullcontext()
        with warnings.catch_warnings(), only_json:  # calibrators of other packages may print
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GnncalWarning)
            warnings.showwarning = lambda message, *rest, **more: note(message)
            try:
                return verb(*args, **kwargs)
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
        raise typer.Exit(2)

    # The help of a verb is its docstring; without the line ends of the source it fits any width.
    wrapped.__doc__ = "\n\n".join(
        " ".join(paragraph.split()) for paragraph in cleandoc(verb.__doc__ or "").split("\n\n")
    )
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
    return track(items, doing, console=err, transient=True)


def print_written(folder: Path | str, files: list[str]) -> None:
    """Print where the results are, unwrapped so that the path can be copied."""
    out.print(f"written to {folder}: {', '.join(files)}", soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    print(to_json(value), file=_stdout, flush=True)


def to_json(value: Any) -> str:
    """Return records, arrays and numbers as JSON in ASCII; NaN and infinity become null."""
    return json.dumps(plain(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f")


def page_target(path: Path, *, inputs: Iterable[Path] = (), overwrite: bool = False) -> Path:
    """Check before any work that a page can be written to this path."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; --out expects a file such as {path}/report.html.")
    check_file(path, inputs=inputs, overwrite=overwrite)
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.absolute().parent}; create it first.")
    return path


def console_beside(page: Path) -> Console:
    """Return where to speak of a page: not on stdout if the page itself may go there."""
    return err if is_special(page) else out
