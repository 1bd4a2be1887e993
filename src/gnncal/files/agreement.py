"""Whether the files of one source make one table.

Only the ends of the files are read, where Parquet keeps schema and statistics. Files of one table
have the same columns (of those that are used), of types that have something in common, and name
the classes alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from gnncal.core.checks import check_names_are_no_numbers
from gnncal.core.errors import InputError, require, shown
from gnncal.files.kinds import common_kind, common_type, kind_of, plain_type
from gnncal.files.partitions import agrees, partition_type
from gnncal.files.sources import DataFile, Source


@dataclass(frozen=True)
class Table:
    """The files of one table and how they fit together."""

    source: Source
    groups: list[list[DataFile]]  # files whose columns of use have the same types
    types: dict[str, Any]  # of each column of use, as an Arrow type that keeps all values
    mixed: list[str]  # columns of use whose type is not the same in all files
    partitions: list[str]  # columns of use that stand in the names of folders only
    class_names: list[str] | None


@dataclass(frozen=True)
class _Alike:
    """Files with the same schema below folders that give the same columns."""

    types: dict[str, Any]  # the columns of use in the files
    folders: frozenset[str]  # the columns of use in the names of folders
    class_names: list[str] | None
    files: list[DataFile]


def read_together(source: Source, is_of_use: Callable[[str], bool]) -> Table:
    """Compare the columns of use of all files; refuse files that do not make one table."""
    alike = _alike(source, is_of_use)
    names = list(dict.fromkeys(name for some in alike for name in [*some.types, *some.folders]))
    partitions = [name for name in names if _is_partition(source, alike, name)]
    types = {name: _type(source, alike, name) for name in names if name not in partitions}
    mixed = [name for name in types if len({some.types[name] for some in alike}) > 1]
    for name in partitions:
        types[name] = partition_type(file.partition[name] for file in source.files)
    groups: dict[tuple[str, ...], list[DataFile]] = {}
    for some in alike:
        same = tuple(str(some.types[name]) for name in mixed)
        groups.setdefault(same, []).extend(some.files)
    return Table(
        source, list(groups.values()), types, mixed, partitions, _class_names(source, alike)
    )


def class_names_in(schema: Any, where: object) -> list[str] | None:
    """Return the class names in the metadata of a Parquet schema, None if it has none."""
    metadata = schema.metadata or {}
    if b"class_names" not in metadata:
        return None
    return names_of_json(metadata[b"class_names"], f"class_names in {where}")


def names_of_json(text: bytes, what: str) -> list[str]:
    """Return the class names in a JSON document; ``what`` is what an error calls it."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str | int) for name in names):
        raise InputError(f'{what} is not a JSON list of names such as ["fine", "fraud"].')
    if not all(isinstance(name, str) for name in names):
        check_names_are_no_numbers(names, what)
    return [str(name) for name in names]


def _alike(source: Source, is_of_use: Callable[[str], bool]) -> list[_Alike]:
    """Read the end of every file, and put those together that say the same."""

    def look(file: DataFile) -> tuple[bytes, Any]:
        return _schema(source, file, is_of_use)

    if len(source.files) == 1:
        looked = [look(source.files[0])]
    else:
        with ThreadPoolExecutor(source.place.n_readers) as pool:
            looked = list(pool.map(look, source.files))
    groups: dict[tuple[bytes, frozenset[str]], _Alike] = {}
    for file, (code, schema) in zip(source.files, looked, strict=True):
        folders = frozenset(name for name in file.partition if is_of_use(name))
        if (code, folders) not in groups:
            types = {f.name: plain_type(f.type) for f in schema if is_of_use(f.name)}
            names = class_names_in(schema, source.place.address(file.path))
            groups[code, folders] = _Alike(types, folders, names, [])
        groups[code, folders].files.append(file)
    return list(groups.values())


def _schema(source: Source, file: DataFile, is_of_use: Callable[[str], bool]) -> tuple[bytes, Any]:
    """Return a file's schema, as bytes that can be compared too; its folders must not object."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    pq = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
    where = source.place.address(file.path)
    try:
        with source.place.open(file.path) as opened:
            metadata = pq.read_metadata(opened)
        schema = metadata.schema.to_arrow_schema()
        for number, field in enumerate(schema):
            if field.type == pa.binary(16) and _is_uuid(metadata.schema, field.name):
                schema = schema.set(number, field.with_type(pa.uuid()))
        both = [n for n in schema.names if n in file.partition and is_of_use(n)]
        wrong = [name for name in both if not agrees(metadata, name, file.partition[name])]
        code = schema.serialize().to_pybytes()
    except Exception as error:  # a broken file makes Arrow raise almost anything
        raise InputError(f"{where} cannot be read as Parquet ({first_line(error)}).") from error
    if wrong:
        raise InputError(
            f"{where} has the column {wrong[0]} and lies below the folder "
            f"{wrong[0]}={file.partition[wrong[0]]}, and nothing shows that they agree in every "
            "row; drop the column or rename the folder."
        )
    return code, schema


def first_line(error: Exception) -> str:
    """Return the first line of what an error says; DuckDB's may begin with Python's traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if lines[0].startswith("Traceback"):
        lines = [line for line in lines[1:] if line and not line.startswith(" ")] or lines
    return lines[0]


def _is_uuid(schema: Any, name: str) -> bool:
    columns = (schema.column(i) for i in range(len(schema)))
    return any(c.path == name and c.logical_type.type == "UUID" for c in columns)


def _is_partition(source: Source, alike: Sequence[_Alike], name: str) -> bool:
    """Whether a column stands in the folders' names only; all files must have it in one way."""
    without = [some for some in alike if name not in some.types]
    if not without:
        return False
    with_it = [some for some in alike if name in some.types]
    if not with_it and all(name in some.folders for some in alike):
        return True
    if not with_it:
        with_it = [some for some in alike if name in some.folders]
        without = [some for some in alike if name not in some.folders]
        raise InputError(
            f"the files of {source.given} do not make one table: {_first(source, with_it)} lies "
            f"below a folder {name}=..., {_first(source, without)} does not."
        )
    raise InputError(
        f"the files of {source.given} do not make one table: {_first(source, with_it)} has the "
        f"column {name}, {_first(source, without)} lacks it."
    )


def _type(source: Source, alike: Sequence[_Alike], name: str) -> Any:
    types = {some.types[name]: some for some in alike}
    kinds = {kind_of(kind): some for kind, some in types.items()}
    for one, other in combinations(kinds, 2):
        if common_kind([one, other]) is None:
            raise InputError(
                f"the files of {source.given} do not make one table: {name} is {one} in "
                f"{_first(source, [kinds[one]])} and {other} in "
                f"{_first(source, [kinds[other]])}; use one type."
            )
    return common_type(types)


def _class_names(source: Source, alike: Sequence[_Alike]) -> list[str] | None:
    named = [some for some in alike if some.class_names is not None]
    for some in named[1:]:
        if some.class_names != named[0].class_names:
            raise InputError(
                f"the files of {source.given} name the classes differently: "
                f"{shown(named[0].class_names)} in {_first(source, named)} and "
                f"{shown(some.class_names)} in {_first(source, [some])}."
            )
    return named[0].class_names if named else None


def _first(source: Source, alike: Sequence[_Alike]) -> str:
    return source.place.address(alike[0].files[0].path)
