"""The file of a watch: JSON with a checksum, which appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from gnncal.core.errors import InputError
from gnncal.files.output import SEAL, as_path, is_sealed, seal, write_file

T = TypeVar("T")
FORMAT = 1
ABOUT = "the state of a watch, made by gnncal; gnncal watch goes on from here"
UNREADABLE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


def write_state(path: Any, content: dict[str, Any]) -> None:
    """Write what a watch is made of."""
    whole = {"about": ABOUT, "format": FORMAT, **content}
    write_file(as_path(path), seal(json.dumps(whole, allow_nan=False).encode(), "json"))


def read_state(path: Any, rebuild: Callable[[dict[str, Any]], T]) -> T:
    """Return what ``rebuild`` makes of the content, or say what is wrong with it."""
    place = as_path(path)
    if not place.is_file():
        raise InputError(f"there is no file {place}; pass one that a watch has written.")
    try:
        written = place.read_bytes()
        content = json.loads(written)
        if content["about"] != ABOUT:
            raise InputError("it is no state of a watch.")
        if content["format"] != FORMAT:
            raise InputError("its format is another than this gnncal's; upgrade gnncal to read it.")
        content.pop(SEAL.decode(), None)
        if not is_sealed(written):
            raise InputError("its checksum does not match its content; it is damaged.")
        return rebuild(content)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    except UNREADABLE as error:
        raise InputError(
            f"{place} is damaged or no state of a watch ({type(error).__name__}); choose another "
            "file to begin again."
        ) from error
