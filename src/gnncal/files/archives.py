"""Arrays from ``.npz`` files whose content is not trusted.

A file may declare far more data than it has bytes, so sizes are looked at before anything is
allocated. Only the members that are wanted are read, and nothing is unpickled.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.errors import InputError

Arrays = dict[str, npt.NDArray[Any]]
ALWAYS_ALLOWED = 2**28  # bytes that any file may unpack to
LARGEST_EXPANSION = 250  # times the file's own size; real logits and graphs shrink far less
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
            size = sum(_declared_size(archive, name, info) for name, info in chosen.items())
            check_expansion(path, size)
            return {name: _read(archive, info) for name, info in chosen.items()}, sorted(members)
    except (ExpansionError, MemoryError):
        raise
    except Exception as error:  # a broken file makes NumPy, zipfile or zlib raise almost anything
        if _starts_with(path, b"\x93NUMPY"):
            raise InputError(
                f"{path} holds a single array; expected an .npz with named arrays."
            ) from None
        raise InputError(
            f"{path} cannot be read as .npz ({error}); write it with np.savez and plain arrays."
        ) from error


def _declared_size(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> int:
    """Return the size of an array by its own header, which must agree with the archive's."""
    with archive.open(info) as member:
        shape, dtype = _read_header(member, name)
        header = member.tell()
    size = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or header + size != info.file_size:
        raise InputError(f"{name} declares shape {shape} but has {info.file_size:,} bytes")
    return int(size)


def _read_header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version not in HEADERS:
        raise InputError(f"{name} has an unknown format")
    shape, _, dtype = HEADERS[version](member)
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, which are never read")
    return shape, dtype


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(info) as member:
        array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        member.read(1)  # reaching the end makes the archive compare its checksum
    if array.dtype.kind == "U" and array.size:
        points = np.ascontiguousarray(array).reshape(-1).view(array.dtype.str[0] + "u4")
        if points.max() > sys.maxunicode:  # making a str of it is an error of the interpreter
            raise InputError(f"{info.filename} holds text that is not Unicode")
    return array


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


FREE_COLUMNS = 2**17  # a matrix may have so many however few its entries


def csr_from_parts(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    shape: Any,
    *,
    name: str = "the matrix",
) -> sparse.csr_array:
    """The matrix (n_rows, n_columns) of these parts, or an InputError that says what is wrong."""
    n_rows, n_columns = _check_shape(shape, name)
    for part, values in (("indices", indices), ("indptr", indptr)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise InputError(f"the {part} of {name} must be a list of integers.")
    if data.ndim != 1 or data.dtype.kind not in "fiub":
        raise InputError(f"the data of {name} has dtype {data.dtype}; expected a list of numbers.")
    problem = _contradiction(data, indices, indptr, n_rows, n_columns)
    if problem:
        raise InputError(f"the CSR parts of {name} do not fit together: {problem}.")
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, n_columns))


def _check_shape(shape: Any, name: str) -> tuple[int, int]:
    listed = np.asarray(shape)
    if listed.dtype.kind not in "iu" or listed.shape != (2,) or listed.min() < 0:
        raise InputError(f"the CSR parts of {name} do not fit together: its shape is not a pair.")
    return int(listed[0]), int(listed[1])


def _contradiction(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    n_rows: int,
    n_columns: int,
) -> str | None:
    if len(indptr) != n_rows + 1:
        return f"indptr has {len(indptr)} entries for {n_rows} rows"
    if indptr[0] != 0 or indptr[-1] != len(indices):
        return f"indptr runs from {indptr[0]} to {indptr[-1]} over {len(indices)} indices"
    if (indptr[1:] < indptr[:-1]).any():
        return "a row ends before it starts"
    if len(data) != len(indices):
        return f"there are {len(data)} values for {len(indices)} indices"
    if len(indices) and (indices.min() < 0 or indices.max() >= n_columns):
        return f"indices lie in {indices.min()}..{indices.max()} with {n_columns} columns"
    if n_columns > max(FREE_COLUMNS, len(indices)):
        return f"{n_columns} columns are too many for {len(indices)} entries"
    return None
