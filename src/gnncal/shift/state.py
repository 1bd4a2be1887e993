"""The file of a watch: JSON with a checksum, which appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from gnncal.core.errors import InputError
from gnncal.files.atomic import SIGN, as_path, write_atomically

T = TypeVar("T")
FORMAT = 1
ABOUT = f"the state of a watch, {SIGN}; gnncal watch goes on from here"
UNREADABLE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


def write_state(path: Any, content: dict[str, Any]) -> None:
    """Write what a watch is made of."""
    whole = {"about": ABOUT, "format": FORMAT, **content}
    signed = {**whole, "checksum": _checksum(whole)}
    write_atomically(as_path(path), (json.dumps(signed, allow_nan=False) + "\n").encode())


def read_state(path: Any, rebuild: Callable[[dict[str, Any]], T]) -> T:
    """Return what ``rebuild`` makes of the content, or say what is wrong with it."""
    place = as_path(path)
    if not place.is_file():
        raise InputError(f"there is no file {place}; pass one that a watch has written.")
    try:
        content = json.loads(place.read_bytes())
        if content["about"] != ABOUT:
            raise InputError("it is no state of a watch.")
        if content["format"] != FORMAT:
            raise InputError("its format is another than this gnncal's; upgrade gnncal to read it.")
        checksum = content.pop("checksum")
        if checksum != _checksum(content):
            raise InputError("its checksum does not match its content; it is damaged.")
        return rebuild(content)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    except UNREADABLE as error:
        raise InputError(
            f"{place} is damaged or no state of a watch ({type(error).__name__}); choose another "
            "file to begin again."
        ) from error


def _checksum(content: dict[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
