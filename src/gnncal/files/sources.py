"""Which files are data: one rule for the tables in memory and for those of every engine.

- A path that exists is taken as it is, whatever signs its name has. Only a path that does not
  exist may be a glob, and its leading folders that do exist are taken as they are too.
- In a folder, and among what a glob finds, data are the files whose names end in ``.parquet``. If a
  part of their path below the folder begins with ``_`` or ``.``, they are remains of a program that
  was writing, and no data.
- Folders below the given one that are called ``name=value`` are Hive partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from gnncal.core.errors import InputError
from gnncal.files.places import SIGNS, Place, place_of

SUFFIX = ".parquet"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A file with what the folders above it say: the columns of Hive partitions, null as None."""

    path: str
    partition: dict[str, str | None]


@dataclass(frozen=True)
class Source:
    """The files that one path means, in the order of their names."""

    given: str  # as the user typed it
    place: Place
    root: str  # the folder that was given, or the one in which the glob begins
    files: list[DataFile]


def find_source(given: str, what: str) -> Source:
    """Return the data files of a file, a folder or a glob; ``what`` says what they are for."""
    place, path = place_of(given)
    if place.is_file(path):
        return Source(given, place, path.rpartition("/")[0], [DataFile(path, {})])
    if place.is_folder(path):
        root, paths = path, place.files_below(path)
    else:
        root, paths = _glob(place, path)
    names = (path.removeprefix(root.rstrip("/") + "/") for path in paths)
    data = sorted({name for name in names if _is_data(name)})
    if not data:
        raise InputError(
            f"there are no Parquet files for {what} at {given}; pass a file, a folder or a glob "
            f"such as 'part-*{SUFFIX}' (names end in {SUFFIX}, and no part begins with _ or .)."
        )
    inner = root.rstrip("/")
    return Source(
        given, place, root, [DataFile(f"{inner}/{name}", _partition(name)) for name in data]
    )


def _glob(place: Place, path: str) -> tuple[str, list[str]]:
    """Return the folder in which a glob begins, and every file that it finds."""
    root, parts = "/" if path.startswith("/") else "", path.strip("/").split("/")
    while parts:
        further = f"{root.rstrip('/')}/{parts[0]}" if root else parts[0]
        if any(sign in parts[0] for sign in SIGNS) and not place.is_folder(further):
            break
        root = further
        del parts[0]
    if not parts or not root or not place.is_folder(root):
        return root, []
    return root, place.matches(root, "/".join(parts))


def _is_data(name: str) -> bool:
    return name.endswith(SUFFIX) and not any(part[:1] in ("_", ".") for part in name.split("/"))


def _partition(name: str) -> dict[str, str | None]:
    """Return what the folders of a relative path say."""
    values: dict[str, str | None] = {}
    for folder in name.split("/")[:-1]:
        column, sign, value = folder.partition("=")
        if not sign:
            continue
        column = unquote(column)
        if column in values:
            raise InputError(f"two folders of {name} give values of {column}; keep one of them.")
        values[column] = None if value == NULL_PARTITION else unquote(value)
    return values
