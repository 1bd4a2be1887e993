"""Arrays from ``.npz`` files whose content is not trusted.

A file may declare far more data than it has bytes, so sizes are looked at before anything is
allocated. Only the members that are wanted are read, and nothing is unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.errors import InputError

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
ALWAYS_ALLOWED = 2**28  # bytes that any file may unpack to
LARGEST_EXPANSION = 250  # times the file's own size; real logits and graphs shrink far less
FREE_COLUMNS = 2**17  # a matrix may have so many however few its entries


def check_expansion(path: Path, size: int) -> None:
    """Raise an InputError if a file would unpack to more bytes than its size allows."""
    limit = max(ALWAYS_ALLOWED, LARGEST_EXPANSION * path.stat().st_size)
    if size > limit:
        raise InputError(
            f"{path} would unpack to {size:,} bytes, but a file of its size may unpack to at "
            f"most {limit:,}; if the size is intended, write it without compression."
        )


def read_npz(path: Path, wanted: Iterable[str]) -> tuple[Arrays, list[str]]:
    """Return the wanted arrays that the file has, and the names of everything in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {m.filename.removesuffix(".npy"): m.file_size for m in archive.infolist()}
        chosen = [name for name in wanted if name in sizes]
        check_expansion(path, sum(sizes[name] for name in chosen))
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in chosen}
        for array in arrays.values():
            if array.dtype.kind == "U":
                array.tolist()  # text that is not Unicode fails here rather than later
        return arrays, sorted(sizes)
    except InputError:
        raise
    except Exception as error:  # a broken file makes NumPy, zipfile or zlib raise almost anything
        with path.open("rb") as start:
            said = "a single array" if start.read(6) == b"\x93NUMPY" else str(error)
        if "pickle" in said:
            said = "it holds Python objects, which are never read"
        raise InputError(
            f"{path} cannot be read as .npz ({said}); write it with np.savez and plain arrays."
        ) from error


def csr_from_parts(
    data: Array, indices: Array, indptr: Array, shape: Any, *, name: str = "the matrix"
) -> sparse.csr_array:
    """Return the matrix (n_rows, n_columns) of CSR parts; raise an InputError if it is invalid."""
    try:
        if data.dtype.kind not in "fiub" or {indices.dtype.kind, indptr.dtype.kind} - {*"iu"}:
            raise ValueError(f"its data are {data.dtype}; use numbers, and integers as indices")
        n_rows, n_columns = np.asarray(shape).tolist()
        if indptr[-1] != len(indices):  # SciPy would leave the rest out
            raise ValueError(f"indptr ends at {indptr[-1]} of {len(indices)} indices")
        if n_columns > max(FREE_COLUMNS, len(indices)):
            raise ValueError(f"{n_columns} columns are too many for {len(indices)} entries")
        matrix = sparse.csr_array((data, indices, indptr), shape=(n_rows, n_columns))
        matrix.check_format(full_check=True)
        return matrix
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise InputError(f"the CSR parts of {name} do not fit together: {error}.") from error
