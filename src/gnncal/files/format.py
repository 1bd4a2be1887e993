"""Fitted objects as one safetensors file: tensors plus a JSON header. Nothing is pickled.

The header says what kind of object it is (``calibrator``, ``decision``), under that word its name,
and has the values that make it up. Arrays are tensors that the header refers to by name. A
checksum over the whole file finds accidents; whoever rebuilds an object checks every value, because
a checksum can be forged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from gnncal.data.arrays import as_numpy
from gnncal.data.errors import InputError, MissingExtraError, short_repr
from gnncal.files.output import as_path, check_finished, write_file

T = TypeVar("T")
ReadTensor = Callable[[str], np.ndarray[Any, Any]]
Tensors = dict[str, np.ndarray[Any, Any]]
PackObject = Callable[[Any], tuple[str, Any] | None]  # its kind and its plain form, if it knows it
UnpackObject = Callable[[str, Any], Any]  # the reverse
FORMAT_VERSION = 1
HEADER = "gnncal"  # the metadata key that makes a safetensors file one of ours
NO_CHECKSUM = "0" * 64  # stands in the file while its checksum is computed
UNREADABLE = (
    *(SafetensorError, OSError, RecursionError),
    *(AttributeError, KeyError, OverflowError, TypeError, ValueError),
)


def write_saved(path: Any, header: dict[str, Any], tensors: Tensors) -> None:
    """Write a header and its tensors; the file appears whole or not at all."""
    whole = {"format": FORMAT_VERSION, "checksum": NO_CHECKSUM, **header}
    content = to_bytes(tensors, metadata={HEADER: json.dumps(whole)})
    digest = _checksum(content, NO_CHECKSUM)
    write_file(as_path(path), content.replace(NO_CHECKSUM.encode(), digest.encode(), 1))


def read_saved(path: Any, rebuild: Callable[[dict[str, Any], ReadTensor], T]) -> T:
    """Return what ``rebuild`` makes of a header and its tensors, or say what is wrong with them."""
    place = as_path(path)
    if not place.is_file():
        raise InputError(f"file not found: {place}; pass a file that save() has written.")
    check_finished(place)
    try:
        content = place.read_bytes()
        with safe_open(place, framework="numpy") as file:
            return rebuild(_read_header(file.metadata() or {}, content), file.get_tensor)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    except MissingExtraError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{place} is damaged or not a safetensors file ({type(error).__name__}: {error}); "
            "save it again."
        ) from error


def pack(value: Any, key: str, tensors: Tensors, pack_object: PackObject) -> Any:
    """JSON for ``value``; arrays go to ``tensors`` and leave a reference."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        packed = {name: pack(v, f"{key}.{name}", tensors, pack_object) for name, v in value.items()}
        return {"dict": packed}
    if known := pack_object(value):
        return {known[0]: pack(known[1], key, tensors, pack_object)}
    is_texts = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    if isinstance(value, tuple) or is_texts:
        return {"tuple": [pack(v, f"{key}.{i}", tensors, pack_object) for i, v in enumerate(value)]}
    if isinstance(value, np.ndarray | list) or hasattr(value, "detach"):
        array = as_numpy(value)
        if array.dtype.kind in "biuf" and array.itemsize <= 8:
            # safetensors writes the buffer as it lies in memory, whatever the strides.
            tensors[key] = np.asarray(array, order="C")
            return {"tensor": key}
    raise InputError(
        f"{key} is a {type(value).__name__}, which cannot be saved; use numbers, strings or "
        "arrays of numbers."
    )


def unpack(packed: Any, tensor: ReadTensor, unpack_object: UnpackObject) -> Any:
    """Reverse :func:`pack`."""
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensor(content)
    if kind == "dict":
        return {name: unpack(value, tensor, unpack_object) for name, value in content.items()}
    if kind == "tuple" and isinstance(content, list):
        return tuple(unpack(value, tensor, unpack_object) for value in content)
    return unpack_object(kind, unpack(content, tensor, unpack_object))


def _read_header(metadata: dict[str, str], content: bytes) -> dict[str, Any]:
    if HEADER not in metadata:
        raise InputError("this was not written by gnncal; pass a file that save() has written.")
    header: dict[str, Any] = json.loads(metadata[HEADER])
    version = header["format"]
    if type(version) is not int or version != FORMAT_VERSION:
        raise InputError(
            f"its format is {short_repr(version)}, but this gnncal reads {FORMAT_VERSION}; upgrade "
            "gnncal, or save it again."
        )
    if header["checksum"] != _checksum(content, header["checksum"]):
        raise InputError("its checksum does not match its content; it is damaged, so save again.")
    return header


def _checksum(content: bytes, written: str) -> str:
    """Return the digest of a whole file in which zeros stand for the checksum it has."""
    return sha256(content.replace(written.encode(), NO_CHECKSUM.encode(), 1)).hexdigest()
