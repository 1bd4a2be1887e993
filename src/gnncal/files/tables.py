"""Parquet tables of one file or of many: which files are data, and whether they make one table.

- A path that exists is taken literally. Otherwise its existing folders are taken literally, and
  the rest is a glob.
- Data are the files whose names end in ``.parquet``. If a part of their path below the folder
  begins with ``_`` or ``.``, they are remains of a program that was writing, not data.
- Folders below the given one that are called ``name=value`` give a column that the files lack.

Rows are read in Arrow batches, by the same code for memory, DuckDB and the executors of Spark.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from gnncal.data.errors import SECRET, InputError, MissingExtraError, require, short_repr

SUFFIX = ".parquet"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)  # fits 64 bits, and no 007
NUMBER = re.compile("0*([0-9]{1,9})")  # str.isdigit would take ² and the digits of other scripts
N_READERS = 16  # files that are worth opening at the same time
BUFFER = 1 << 20  # bytes of a column that are read at once
LONGEST = 300  # characters of what a library says
Folders = dict[str, str | None]  # values by column, as the names of folders have them


@dataclass(frozen=True)
class Table:
    """The files of one table and how they fit together."""

    given: str  # as the user typed it
    storage: Any  # an fsspec filesystem
    root: str  # the file or the folder that was given, or the folder in which a glob begins
    is_searched: bool  # whether files that appear anywhere below the root would be read too
    files: dict[str, Folders]  # with what the names of folders say about each
    types: dict[str, Any]  # of each column of use, as an Arrow type that keeps all values
    class_names: Any  # what the files' metadata say, not checked

    @property
    def is_remote(self) -> bool:
        """Whether the files lie in object storage."""
        return is_remote(self.given)


def find_table(given: str, what: str, is_of_use: Callable[[str], bool]) -> Table:
    """Find the files of a table and compare the columns that are used."""
    require("pyarrow", extra="parquet", purpose="reading Parquet")
    storage, path = open_storage(given)
    advice = "; check the address, the endpoint and the credentials"
    with errors_as(f"{given} cannot be reached", advice):
        root, is_searched, files = _find(storage, path)
    if not files:
        raise InputError(
            f"found no Parquet files for {what} at {given}; pass a file, a folder or a glob "
            f"such as 'part-*{SUFFIX}' (names end in {SUFFIX}, and no part begins with _ or .)."
        )
    with ThreadPoolExecutor(N_READERS) as pool:
        schemas = list(pool.map(lambda file: _schema(storage, file, is_of_use), files))
    folders = {file: _folders(root, file, is_of_use) for file in files}
    types, names = _fit_together(given, dict(zip(files, schemas, strict=True)), folders)
    return Table(given, storage, root, is_searched, folders, types, names)


def names_of_json(text: bytes, what: str) -> Any:
    """Return the class names of a JSON document, still unchecked."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not a list of names in JSON ({error}).") from error
    if not isinstance(names, list | None):
        raise InputError(
            f"{what} is {short_repr(names)}, which is not a list of names such as "
            '["fine", "fraud"].'
        )
    return names


def number_of(name: str, prefix: str) -> int | None:
    """Return 7 for z7 and z07, None for a name of another form."""
    match = NUMBER.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return None if match is None else int(match[1])


def numbered_columns(names: Iterable[str], prefix: str, where: str) -> list[str]:
    """Return the names with a number in the order of the numbers, which must be 0, 1, ..., K-1."""
    numbers = {name: number for name in names if (number := number_of(name, prefix)) is not None}
    ordered = sorted(numbers, key=lambda name: numbers[name])
    for expected, name in enumerate(ordered):
        if numbers[name] != expected:
            problem = f"{prefix}{expected} is missing although {name} exists"
            if numbers[name] < expected:
                problem = f"{ordered[expected - 1]} and {name} are both column {numbers[name]}"
            raise InputError(
                f"expected {prefix}0, {prefix}1, ... without gaps as columns of {where}; {problem}."
            )
    return ordered


# Storage


def is_remote(source: str) -> bool:
    """Return whether a source is the address of object storage."""
    return "://" in source


def open_storage(address: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of a path or an address, and the path there."""
    # Listings are kept, so that one run reads one version; each call begins anew.
    protocol, _, path = address.rpartition("://")
    protocol = protocol.lower()
    if protocol and SECRET.search(address):
        raise InputError(
            f"the address {protocol}://... has a key and a secret before its @; leave them out "
            "and give them by the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    extra = "s3" if protocol else "parquet"
    fsspec = require("fsspec", extra=extra, purpose=f"reading {protocol or 'Parquet'}")
    try:
        storage = fsspec.filesystem(protocol or "file", skip_instance_cache=True)
    except ImportError as error:
        extra = ": pip install 'gnncal[s3]'" if protocol in ("s3", "s3a") else f" ({error})"
        raise MissingExtraError(f"{protocol}:// needs another package{extra}.") from error
    except ValueError as error:
        raise InputError(f"{protocol}:// is not known; use s3:// or a local path.") from error
    return storage, path.rstrip("/") if protocol else Path(os.path.abspath(path)).as_posix()


@contextmanager
def errors_as(problem: str, advice: str = "") -> Iterator[None]:
    """Raise any error as an InputError of one sentence; storages and broken files raise many."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{problem} ({first_line(error)}){advice}.") from error


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says; DuckDB's may begin with Python's traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if lines[0].startswith("Traceback"):
        lines = [line for line in lines[1:] if line and not line.startswith(" ")] or lines
    return lines[0] if len(lines[0]) <= LONGEST else f"{lines[0][: LONGEST - 3]}..."


def _find(storage: Any, path: str) -> tuple[str, bool, list[str]]:
    """Return where the search began, whether it looked everywhere below, and the data files."""
    if storage.isfile(path):
        return path, False, [path]
    root, parts = path, list[str]()
    while root and not storage.isdir(root):
        root, _, name = root.rpartition("/")
        parts.insert(0, name)
    pattern = "/".join([glob.escape(root), *parts])
    found = storage.glob(pattern) if parts else [root]
    listed = (entry for each in found for entry in storage.find(each, detail=True).items())
    files = {file for file, facts in listed if facts["type"] == "file"}  # and no pipe
    inner = root.rstrip("/") + "/"
    data = (
        file
        for file in files
        if file.endswith(SUFFIX)
        and not any(part[:1] in ("_", ".") for part in file.removeprefix(inner).split("/"))
    )
    return root, not parts or "**" in parts, sorted(data)


# Schemas


def plain_type(kind: Any) -> Any:
    """Return the Arrow type without what only says how values are stored."""
    import pyarrow as pa
    from pyarrow import types

    while types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_decimal(kind):
        return pa.float64() if kind.scale else pa.int64()
    return kind


def common_type(*kinds: Any) -> Any:
    """Return the narrowest Arrow type that holds the values of all."""
    import pyarrow as pa

    schemas = [pa.schema([("", kind)]) for kind in kinds]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def _schema(storage: Any, file: str, is_of_use: Callable[[str], bool]) -> Any:
    """Return the columns of use of a file, with plain types and the file's metadata."""
    import pyarrow as pa

    with opened(storage, file) as parquet:
        schema = parquet.schema_arrow
        fields = [pa.field(f.name, plain_type(f.type)) for f in schema if is_of_use(f.name)]
        for f in fields:
            if [g.name for g in fields].count(f.name) > 1:
                raise InputError(f"{file} has the column {f.name} more than once.")
        return pa.schema(fields, schema.metadata)


def _folders(root: str, file: str, is_of_use: Callable[[str], bool]) -> Folders:
    """Return the columns of use that the folders between the root and a file are called after."""
    values: Folders = {}
    for folder in file.removeprefix(root).split("/")[:-1]:
        column, sign, value = folder.partition("=")
        column = unquote(column)
        if sign and is_of_use(column):
            if column in values:
                raise InputError(f"two folders of {file} give values of {column}; keep one.")
            values[column] = None if value == NULL_FOLDER else unquote(value)
    return values


def _fit_together(
    given: str, schemas: dict[str, Any], folders: dict[str, Folders]
) -> tuple[dict[str, Any], Any]:
    """Return the types of columns and the class names; raise an InputError if files disagree."""
    import pyarrow as pa

    def refuse(contradiction: str) -> NoReturn:
        raise InputError(f"the files of {given} do not make one table: {contradiction}.")

    first, *_ = schemas
    names, kinds = None, {name: dict[Any, str]() for name in schemas[first].names}
    for file, schema in schemas.items():
        for name in folders[file].keys() & {*schema.names}:
            raise InputError(
                f"{file} has the column {name} and lies below the folder "
                f"{name}={folders[file][name]}, which may contradict it; drop the column or "
                "rename the folder."
            )
        for one, two in ((first, file), (file, first)):
            for name in {*schemas[one].names, *folders[one]} - {*schemas[two].names, *folders[two]}:
                refuse(f"{one} has the column {name}, {two} lacks it")
        text = (schema.metadata or {}).get(b"class_names", b"null")
        more = names_of_json(text, f"class_names in {file}")
        if names and more and names != more:
            refuse(f"classes are {short_repr(names)} in {first} and {short_repr(more)} in {file}")
        names = names or more
        for name in kinds:
            kinds[name].setdefault(schema.field(name).type, file)
    types: dict[str, Any] = {}
    for name, files in kinds.items():
        try:
            types[name] = common_type(*files)
        except pa.ArrowTypeError:
            (one, file), *_, (two, other) = files.items()
            refuse(f"{name} is {one} in {file} and {two} in {other}; use one type")
    for name in folders[first]:
        values = [each[name] for each in folders.values()]
        is_whole = all(value is None or INTEGER.fullmatch(value) for value in values)
        types[name] = pa.int64() if is_whole else pa.string()
    return types, names


# Rows


class Piece(NamedTuple):
    """A row group of a file."""

    file: str
    row_group: int
    n_rows: int


def pieces_of(table: Table) -> list[Piece]:
    """Return the row groups of a table's files."""

    def pieces(file: str) -> list[Piece]:
        with opened(table.storage, file) as parquet:
            groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
            return [Piece(file, i, group.num_rows) for i, group in enumerate(groups)]

    with ThreadPoolExecutor(N_READERS) as pool:
        return [piece for some in pool.map(pieces, table.files) for piece in some]


def read_batches(table: Table, pieces: Iterable[Piece], n_rows: int) -> Iterator[Any]:
    """Give the rows of some pieces as Arrow batches of the table's types."""
    import pyarrow as pa

    for file, some in groupby(pieces, key=lambda piece: piece.file):
        folders, groups = table.files[file], [piece.row_group for piece in some]
        columns = [name for name in table.types if name not in folders]
        with opened(table.storage, file) as parquet:
            for batch in parquet.iter_batches(n_rows, groups, columns):
                batch.validate(full=True)  # text that is not UTF-8 would fail later
                values = {name: batch[name] for name in columns}
                for name, text in folders.items():
                    values[name] = pa.repeat(pa.scalar(text, pa.string()), len(batch))
                yield pa.record_batch({n: values[n].cast(k) for n, k in table.types.items()})


@contextmanager
def opened(storage: Any, file: str) -> Iterator[Any]:
    """Open a Parquet file; errors name the file."""
    import pyarrow.parquet as pq

    with errors_as(f"{file} cannot be read as Parquet"):
        # By its name, a local file is read without Python.
        source = file if "file" in storage.protocol else storage.open(file, block_size=BUFFER)
        with pq.ParquetFile(source, buffer_size=BUFFER, pre_buffer=False) as parquet:
            yield parquet
