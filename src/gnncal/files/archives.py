"""Arrays from ``.npz`` files whose content is not trusted.

A file may declare far more data than it has bytes, so sizes are looked at before anything is
allocated. Only the members that are wanted are read, and nothing is unpickled.
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.errors import InputError

Arrays = dict[str, npt.NDArray[Any]]
ALWAYS_ALLOWED = 2**28  # bytes that any file may unpack to
LARGEST_EXPANSION = 250  # times the file's own size; real logits and graphs shrink far less
FREE_COLUMNS = 2**17  # a matrix may have so many however few its entries
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class ExpansionError(InputError):
    """A file declares far more data than it has bytes."""


def check_expansion(path: Path, size: int) -> None:
    """Raise an InputError if a file would unpack to more bytes than its size allows."""
    limit = max(ALWAYS_ALLOWED, LARGEST_EXPANSION * path.stat().st_size)
    if size > limit:
        raise ExpansionError(
            f"{path} would unpack to {size:,} bytes, but a file of its size may unpack to at "
            f"most {limit:,}; if the size is intended, write it without compression."
        )


def read_npz(path: Path, wanted: Iterable[str]) -> tuple[Arrays, list[str]]:
    """Return the wanted arrays that the file has, and the names of everything in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            chosen = {name: members[name] for name in wanted if name in members}
            for name, info in chosen.items():
                _check_header(archive, name, info)
            check_expansion(path, sum(info.file_size for info in chosen.values()))
            return {name: _read(archive, info) for name, info in chosen.items()}, sorted(members)
    except (ExpansionError, MemoryError):
        raise
    except Exception as error:  # a broken file makes NumPy, zipfile or zlib raise almost anything
        with path.open("rb") as file:
            said = "a single array" if file.read(6) == b"\x93NUMPY" else error
        raise InputError(
            f"{path} cannot be read as .npz ({said}); write it with np.savez and plain arrays."
        ) from error


def _check_header(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> None:
    """Refuse Python objects, and an array whose shape does not fit the archive's own count."""
    with archive.open(info) as member:
        shape, _, dtype = HEADERS[np.lib.format.read_magic(member)](member)
        size = member.tell() + prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, which are never read")
    if min(shape, default=0) < 0 or size != info.file_size:
        raise InputError(f"{name} declares shape {shape} but has {info.file_size:,} bytes")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(info) as member:
        array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        member.read(1)  # reaching the end makes the archive compare its checksum
    if array.dtype.kind == "U" and array.size:
        points = np.ascontiguousarray(array).reshape(-1).view(array.dtype.str[0] + "u4")
        if points.max() > sys.maxunicode:  # making a str of it is an error of the interpreter
            raise InputError(f"{info.filename} holds text that is not Unicode")
    return array


def csr_from_parts(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    shape: Any,
    *,
    name: str = "the matrix",
) -> sparse.csr_array:
    """The matrix (n_rows, n_columns) of these parts, or an InputError that says what is wrong."""
    try:
        if data.dtype.kind not in "fiub" or {indices.dtype.kind, indptr.dtype.kind} - {*"iu"}:
            raise ValueError(f"its data are {data.dtype}; use numbers, and integers as indices")
        n_rows, n_columns = np.asarray(shape).tolist()
        if indptr[-1] != len(indices):  # SciPy would leave the rest out
            raise ValueError(f"indptr ends at {indptr[-1]} of {len(indices)} indices")
        if n_columns > max(FREE_COLUMNS, len(indices)):
            raise ValueError(f"{n_columns} columns are too many for {len(indices)} entries")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            matrix = sparse.csr_array((data, indices, indptr), shape=(n_rows, n_columns))
            matrix.check_format(full_check=True)
        return matrix
    except (ValueError, TypeError, OverflowError, IndexError, Warning) as error:
        raise InputError(f"the CSR parts of {name} do not fit together: {error}.") from error
