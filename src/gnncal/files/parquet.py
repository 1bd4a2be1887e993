"""Bundles as a folder of Parquet files.

``nodes.parquet`` has the columns id, label (null, NaN or -1 where unknown), split (train, val, test
or null) and z0..zK-1; ``edges.parquet`` has src and dst, which name ids. Class names may stand in
``class_names.json``, or in the schema's metadata of ``nodes.parquet`` under ``class_names``, as a
JSON list; labels may then be names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_names_are_no_numbers, warn_about_edge_weights
from gnncal.data.errors import InputError, require, short_repr
from gnncal.files.archives import Arrays, check_expansion
from gnncal.files.output import is_special, write_file
from gnncal.files.tables import (
    Table,
    find_table,
    first_line,
    is_uuid,
    names_of_json,
    number_of,
    numbered_columns,
)

SPLITS = ("train", "val", "test")
NAMES, LARGEST_NAMES = "class_names.json", 2**24
BY_CLASS = {"probs": "p", "sets": "set"}  # arrays with a column for each class
LONGEST_TEXT = 1000  # characters of an id, a label or a split
COLUMNS = ("id", "label", "split", "src", "dst", "weight")


def read(folder: Path, *, labels_required: bool = True) -> Arrays:
    """Read what an ``.npz`` bundle would hold; class names are a list."""
    place = folder / "nodes.parquet"
    nodes = read_table(place, ["id", "label", "split"] if labels_required else ["id"])
    edges = read_table(folder / "edges.parquet", ["src", "dst"])
    if "weight" in edges.column_names:
        warn_about_edge_weights("weight")
    ids = column_of(nodes, "id")
    check_ids(ids, f"{place}")
    ends = []
    for end in ("src", "dst"):
        values, rows = _coded(edges, end, nulls=False)
        ends.append(rows_of(values, ids, f"{folder / 'edges.parquet'}")[rows])
    names = names_beside(names_in(nodes.schema), folder)
    arrays: dict[str, Any] = {"logits": _by_class(nodes, "z", place), "edge_index": np.stack(ends)}
    arrays |= {"node_ids": ids, "class_names": names} if names else {"node_ids": ids}
    if "label" in nodes.column_names:
        arrays["labels"] = _labels(nodes, names, folder)
    if "split" in nodes.column_names:
        values, rows = _coded(nodes, "split")
        for word in values[~np.isin(values, SPLITS)]:
            raise InputError(
                f"the column split of {place} has {short_repr(word)}; expected "
                f"{', '.join(SPLITS)} or null."
            )
        masks = {f"{split}_mask": np.append(values == split, False)[rows] for split in SPLITS}
        arrays |= {name: mask for name, mask in masks.items() if name != "test_mask" or mask.any()}
    return arrays


def read_probabilities(path: Path) -> Arrays:
    """Return the columns p0..pK-1 and the ids."""
    table = read_table(path, ["id"])
    return {"probs": _by_class(table, "p", path), "node_ids": column_of(table, "id")}


def write(path: Path, arrays: Arrays, about: dict[str, str]) -> None:
    """Write a column for each array, p0, p1, ... or set0, set1, ... for those of all classes."""
    pa = require("pyarrow", extra="parquet", purpose="writing Parquet")
    pq = require("pyarrow.parquet", extra="parquet", purpose="writing Parquet")
    columns = {"id": arrays.get("node_ids", np.arange(len(arrays["prediction"])))}
    columns |= {n: each for n, each in arrays.items() if n != "node_ids" and each.ndim == 1}
    for name, prefix in BY_CLASS.items():
        if name in arrays:
            columns |= {f"{prefix}{c}": column for c, column in enumerate(arrays[name].T)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns).replace_schema_metadata(about or None), sink)
    write_file(path, sink.getvalue().to_pybytes())


def _is_of_use(name: str) -> bool:
    return name in COLUMNS or any(number_of(name, prefix) is not None for prefix in "zp")


def read_table(
    path: Path, required: list[str], is_of_use: Callable[[str], bool] = _is_of_use
) -> Any:
    """Return the columns that may be of use; sizes and types are looked at before they are read."""
    require("pyarrow", extra="parquet", purpose="reading Parquet")
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    if is_special(path):
        raise InputError(f"{path} is a pipe or a device; pass a file.")
    table = find_table(str(path), path.stem, is_of_use)
    if missing := [name for name in required if name not in table.types]:
        few = short_repr(", ".join(find_table(str(path), path.stem, lambda name: True).types))
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}; it has {few.strip(chr(39))}."
        )
    try:
        return _read_files(table, path)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a broken file makes Arrow raise almost anything
        raise InputError(f"{path} cannot be read as Parquet ({first_line(error)}).") from error


def _read_files(table: Table, path: Path) -> Any:
    """Read the files of a table as one; names of folders are columns, and text is a dictionary."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import types

    for name, kind in table.types.items():
        is_text = name in COLUMNS and (types.is_string(kind) or is_uuid(kind))
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)
        if not (is_number or is_text or (name not in COLUMNS and types.is_boolean(kind))):
            expected = "numbers or text" if name in COLUMNS else "numbers"
            raise InputError(f"the column {name} of {path} is of type {kind}; use {expected}.")
    first, *_ = table.files.values()
    folders = {name: table.types[name] for name in first}
    texts = {name for name, kind in table.types.items() if types.is_string(kind)} - {*folders}
    # Each text once, even while it is read: a small file may repeat a long one a million times.
    schema = table.types | dict.fromkeys(texts, pa.dictionary(pa.int32(), pa.string()))
    rows = ds.dataset(
        list(table.files),
        schema=pa.schema(schema.items()),
        format=ds.ParquetFileFormat(dictionary_columns=texts),
        partitioning=ds.partitioning(pa.schema(folders.items()), flavor="hive"),
        partition_base_dir=table.root,
    )
    for fragment in rows.get_fragments():
        size = _declared_size(fragment.metadata, schema.keys() - folders.keys())
        check_expansion(Path(fragment.path), size)
    about = table.class_names and {"class_names": json.dumps(table.class_names)}
    read = rows.to_table().unify_dictionaries().combine_chunks()
    read.validate(full=True)  # text that is not UTF-8 would fail later
    return read.replace_schema_metadata(about)


def _declared_size(metadata: Any, wanted: Collection[str]) -> int:
    """Return the bytes that the end of a file states for some columns, at least 8 a value."""
    size = 8 * metadata.num_rows * len(wanted)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = (group.column(i) for i in range(group.num_columns))
        size += sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in wanted)
    return int(size)


def _by_class(table: Any, prefix: str, path: Path) -> FloatArray:
    names = numbered_columns(table.column_names, prefix, f"{path}")
    if not names:
        raise InputError(
            f"{path} needs the columns {prefix}0, {prefix}1, ... without gaps; it has "
            f"{', '.join(table.column_names)}."
        )
    return np.stack([np.asarray(table[n].to_numpy(), np.float64) for n in names], axis=1)


def column_of(table: Any, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as an array."""
    values, rows = _coded(table, name, nulls=False)
    return values[rows]


def _coded(table: Any, name: str, *, nulls: bool = True) -> tuple[npt.NDArray[Any], Any]:
    """Return the texts of a column, and which of them a row has, -1 for null; numbers as are."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    column = table[name]
    if column.null_count and not nulls:
        raise InputError(f"the column {name} has {column.null_count} nulls; fill them in.")
    if is_uuid(column.type):
        column = pa.chunked_array([[each and str(each) for each in column.to_pylist()]])
    if types.is_string(column.type) or types.is_null(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    if not types.is_dictionary(column.type):
        return np.asarray(column.to_numpy()), ...
    whole = column.unify_dictionaries().combine_chunks()
    if not len(column):
        whole = pa.array([], column.type)
    longest = pc.max(pc.utf8_length(whole.dictionary)).as_py() or 0
    if longest > LONGEST_TEXT:
        raise InputError(
            f"the column {name} has a text of {longest:,} characters; use at most {LONGEST_TEXT:,}."
        )
    used, rows = np.unique(np.asarray(whole.indices.fill_null(-1)), return_inverse=True)
    words = whole.dictionary.take(pa.array(used[used >= 0])).to_pylist()
    return np.array(words, dtype=str), rows - (used < 0).any()


def names_in(schema: Any) -> list[str] | None:
    """Return the class names in the metadata of a table."""
    written = (schema.metadata or {}).get(b"class_names")
    return None if written is None else json.loads(written)


def names_beside(inside: list[str] | None, folder: Path) -> list[str] | None:
    """Return the names in a table's metadata, or in a file next to it that anyone can write."""
    path = folder / NAMES
    if not path.is_file():
        return inside
    if path.stat().st_size > LARGEST_NAMES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; that is not a list of names.")
    named = names_of_json(path.read_bytes(), f"{path}")
    if inside is not None and inside != named:
        raise InputError(
            f"{path} has {short_repr(named)} but nodes.parquet says {short_repr(inside)}; remove "
            "the file."
        )
    return named


def _labels(table: Any, names: list[str] | None, folder: Path) -> IntArray:
    values, rows = _coded(table, "label")
    if rows is ...:
        check_names_are_no_numbers(names or [], f"{folder / 'nodes.parquet'}")
        # NaN is what pandas has where a number is missing, and Arrow where it is null.
        is_missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        return np.where(is_missing, -1, values) if is_missing.any() else values
    if names is None and len(values):
        few = json.dumps([word[:20] for word in values[:4]])
        raise InputError(
            f"labels in {folder / 'nodes.parquet'} are names but nothing says which z column each "
            f"class has; write {folder / NAMES}, a list in column order such as {few}."
        )
    for word in values[~np.isin(values, names or [])]:
        raise InputError(
            f"the label {short_repr(word)} is not among the class names {short_repr(names)}."
        )
    return np.array([*((names or []).index(word) for word in values), -1], dtype=np.int64)[rows]


def check_ids(ids: npt.NDArray[Any], where: str) -> None:
    """Refuse ids that occur more than once in a file."""
    ranked = np.sort(ids)
    twice = np.flatnonzero(ranked[1:] == ranked[:-1])
    if twice.size:
        raise InputError(f"{where}: the id {short_repr(ranked[twice[0]])} occurs more than once.")


def rows_of(wanted: npt.NDArray[Any], ids: npt.NDArray[Any], where: str) -> npt.NDArray[np.int64]:
    """Return the position in ``ids`` of each wanted id; both may be numbers or strings."""
    if not wanted.size:
        return np.empty(0, dtype=np.int64)
    if wanted.dtype.kind != ids.dtype.kind and {wanted.dtype.kind, ids.dtype.kind} != {"i", "u"}:
        raise InputError(
            f"{where}: ids of type {wanted.dtype} cannot be looked up among ids of type "
            f"{ids.dtype}; use one type."
        )
    if not len(ids):
        raise InputError(f"{where}: there are no nodes.")
    order = np.argsort(ids, kind="stable")
    position = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    found = order[position]
    missing = wanted[ids[found] != wanted]
    if missing.size:
        first = short_repr(missing[0])
        if missing.size == 1:
            raise InputError(f"{where}: {first} is not the id of a node.")
        raise InputError(f"{where}: {missing.size:,} ids are not among the nodes (first: {first}).")
    return found
