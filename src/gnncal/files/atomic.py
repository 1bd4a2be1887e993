"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from gnncal.core.errors import InputError


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
