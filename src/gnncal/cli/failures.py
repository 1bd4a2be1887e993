"""Failures that end a command with one sentence: of the input, the disk, the memory, a library."""

from __future__ import annotations

import re

from gnncal.data.errors import InputError, MissingExtraError, without_secrets

NO_MEMORY = re.compile(
    r"cannot allocate|can't allocate|unable to allocate|failed to map segment|not enough memory|"
    r"can't start new thread|out of memory|bad_alloc|malloc of size|failed to allocate",
    re.IGNORECASE,
)
LIBRARIES = {"duckdb", "_duckdb", "pyarrow", "fsspec", "s3fs", "botocore", "aiobotocore"}
LIBRARIES |= {"pyspark", "py4j", "safetensors", "numba", "llvmlite", "onnx", "onnxruntime"}
MEMORY = "there is not enough memory for this; allow the process more, or pass a smaller input."
LONGEST = 1500  # characters of a sentence


def sentence_of(error: BaseException) -> str | None:
    """Return what to print of an error; None if it is a mistake in the program."""
    if isinstance(error, InputError):
        return _cut(str(error))
    cause = error.__cause__ or error
    if isinstance(error, MemoryError) or isinstance(cause, MemoryError):
        return MEMORY
    of_machine = isinstance(cause, ImportError | OSError | RuntimeError | SystemError)
    if (of_machine or _is_foreign(cause)) and NO_MEMORY.search(str(cause)):
        return MEMORY
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        return _cut(f"{where}{error.strerror}; check the path and the disk, or choose another.")
    if isinstance(error, MissingExtraError | OSError):
        return _cut(str(error))
    if _is_foreign(error):
        return _cut(f"{type(error).__module__.partition('.')[0]} stopped: {error}")
    return None


def _is_foreign(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in LIBRARIES


def _cut(text: str) -> str:
    text = without_secrets(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
