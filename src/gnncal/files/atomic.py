"""Single files: they appear whole or not at all, and never in the place of something else.

A file is replaced only if this program made it, which a sign in each of its formats tells. A
symbolic link is followed. A pipe or a device is written into and stays what it is.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from gnncal.core.errors import InputError, shown


def as_path(path: Any) -> Path:
    """Return a path that a user has passed, or say that it is none."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {shown(path)}; pass the name of a file, as text or a Path.")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"path is {shown(text)}, which names no file; pass the name of a file.")
    return Path(text)


SIGN = "made by gnncal"  # for formats that have room for a remark
SIGNS = (
    SIGN.encode(),
    b'<meta name="generator" content="gnncal ',  # pages
    b'{"__metadata__":{"gnncal":',  # safetensors
    b"\n\x06gnncal\x12",  # a property of an ONNX model
    b"/gnncal.json",  # an extra file of a torch program
)
MOST_LINKS = 40  # of a chain, as Linux has it


def write_atomically(path: Path, payload: bytes, *, replace: bool = False) -> None:
    """Write beside the target and move into place, so that no half file is ever seen.

    ``replace`` is for caches, whose files are replaced whatever they hold.
    """
    number = _descriptor(path)
    if number is not None:
        _write_to(os.dup(number), payload)
        return
    if _is_special(path):
        _write_to(os.open(path, os.O_WRONLY), payload)
        return
    if not replace:
        check_file(path)
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    temporary = real.with_name(f".gnncal-{uuid4().hex}")
    try:
        temporary.write_bytes(payload)
        if real.exists():
            temporary.chmod(stat.S_IMODE(real.stat().st_mode))
        os.replace(temporary, real)
    except OSError as error:
        if error.filename is None or temporary.name not in str(error.filename):
            raise
        # The name on the way means nothing to a user.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_file(path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Refuse a place where a file may not be written; to be called before any work."""
    check_tilde(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the file to write, with its name.")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise InputError(f"{path} is the input itself; choose another file for the output.")
    if not path.is_file() or _descriptor(path) is not None:
        return
    if not made_here(path):
        raise InputError(
            f"{path} is there already and is no file of gnncal, so it is not replaced; choose "
            "another name, or move it away."
        )
    if not os.access(path, os.W_OK):
        raise InputError(f"{path} is write-protected; choose another name, or allow writing to it.")


def check_tilde(path: Path) -> None:
    """Refuse a tilde that no shell has replaced: it would become the name of a folder."""
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise InputError(
            f"{path} begins with a tilde, which only a shell replaces, and not in quotes nor "
            "after =; write the path in full."
        )


def made_here(path: Path) -> bool:
    """Return whether a file carries a sign of this program, or is empty."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return True
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(sign) >= 0 for sign in SIGNS)


def is_stdout(path: Path) -> bool:
    """Return whether what is written to this path goes to the standard output, as /dev/stdout."""
    return _descriptor(path) == 1


def _is_special(path: Path) -> bool:
    """Pipes, sockets and devices."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _descriptor(path: Path) -> int | None:
    """Return the number of the open file that a name such as /dev/stdout or /dev/fd/63 is for.

    Opening such a name a second time would write over what was written to it before.
    """
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if path.name.isdigit() and folder in (f"/proc/{os.getpid()}/fd", "/dev/fd"):
            return int(path.name)
        place = Path(folder, path.name)
        if not place.is_symlink():
            return None
        path = Path(folder, place.readlink())
    return None


def _write_to(descriptor: int, payload: bytes) -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what was printed before comes before
    with open(descriptor, "wb") as file:
        file.write(payload)
