"""What the command line prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import typer
from rich.console import Console
from rich.progress import track

from gnncal.core.errors import GnncalWarning, InputError, MissingExtraError
from gnncal.core.plain import plain

out = Console(markup=False, emoji=False, highlight=False)
err = Console(stderr=True)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def friendly(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that bad input ends with one line on stderr, and warnings become notes."""

    @wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GnncalWarning)
            warnings.showwarning = lambda message, *rest, **more: note(message)
            try:
                return verb(*args, **kwargs)
            except (
                BrokenPipeError
            ):  # the reader left, as in `gnncal ... | head`; typer ends quietly
                raise
            except (InputError, MissingExtraError, OSError) as error:
                _print_line("error", _plain_text(error))
        raise typer.Exit(2)

    # The help of a verb is its docstring; without the line ends of the source it fits any width.
    wrapped.__doc__ = "\n\n".join(
        " ".join(paragraph.split()) for paragraph in cleandoc(verb.__doc__ or "").split("\n\n")
    )
    return wrapped


def note(message: Warning | str) -> None:
    """Print something worth knowing as one line on stderr."""
    _print_line("note", message)


def _plain_text(error: Exception) -> str:
    """What went wrong; of a file, without the number of the error."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}; check the path, or choose another."
    return str(error)


def _print_line(kind: str, message: object) -> None:
    print(f"{kind}: {' '.join(str(message).split())}", file=sys.stderr)


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
    print(to_json(value))


def to_json(value: Any) -> str:
    """Return records, arrays and numbers as JSON; NaN and infinity become null."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def page_target(path: Path) -> Path:
    """Check before any work that a page can be written to this path."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; --out expects a file such as {path}/report.html.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.absolute().parent}; create it first.")
    return path


@contextmanager
def staged_folder(target: Path, *, replaces: tuple[str, ...] = ()) -> Iterator[Path]:
    """Give a temporary folder whose files move to ``target`` only if the block succeeds.

    Files of ``target`` with the names ``replaces`` are of an earlier result and are then removed.
    """
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; --out expects a folder.")
    parent = target.absolute().parent
    if not parent.is_dir():
        raise InputError(f"there is no folder {parent}; create it or choose another --out.")
    # Inside a folder that exists: it may be a mounted volume, and renaming cannot cross those.
    staging = (target if target.is_dir() else parent) / f".gnncal-{uuid4().hex}"
    with ending_on_sigterm():
        try:
            staging.mkdir()
            yield staging
            if target.is_dir():
                for name in replaces:
                    (target / name).unlink(missing_ok=True)
                for file in sorted(staging.iterdir()):
                    os.replace(file, target / file.name)
            else:
                os.replace(staging, target)
        except OSError as error:
            if error.filename is None or staging.name not in str(error.filename):
                raise
            # The staging folder means nothing to a user.
            parts = Path(error.filename).parts
            place = target.joinpath(*parts[parts.index(staging.name) + 1 :])
            raise OSError(error.errno, error.strerror, str(place)) from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program like an exception, so that unfinished files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
