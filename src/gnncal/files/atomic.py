"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from gnncal.core.errors import InputError, shown


def as_path(path: Any, *, name: str = "path") -> Path:
    """Return a path that a user has passed, or say that it is none."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"{name} is {shown(path)}; pass the name of a file, as text or a Path.")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{name} is {shown(text)}, which names no file; pass the name of a file.")
    return Path(text)


def write_atomically(path: Path, payload: bytes) -> None:
    """Write beside the target and move into place, so that no half file is ever seen."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the file to write, with its name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.write_bytes(payload)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
