"""Bundles as a folder of Parquet files.

``nodes.parquet`` has the columns id, label (null, NaN or -1 where unknown), split (train, val, test
or null) and z0..zK-1; ``edges.parquet`` has src and dst, which name ids. Class names may stand in
``class_names.json``, or in the schema's metadata of ``nodes.parquet`` under ``class_names``, as a
JSON list; labels may then be names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import check_names_are_no_numbers, warn_about_edge_weights
from gnncal.data.errors import InputError, require, short_repr
from gnncal.files.archives import check_expansion
from gnncal.files.output import write_file
from gnncal.files.tables import (
    Table,
    find_table,
    first_line,
    is_uuid,
    names_of_json,
    number_of,
    numbered_columns,
)
from gnncal.graph.graph import Graph

SPLITS = ("train", "val", "test")
NAMES, LARGEST_NAMES = "class_names.json", 2**24
BY_CLASS = {"probs": "p", "sets": "set"}  # arrays with a column for each class
LONGEST_TEXT = 1000  # characters of an id, a label or a split
COLUMNS = ("id", "label", "split", "src", "dst", "weight")


def read(folder: Path, *, labels_required: bool = True) -> dict[str, Any]:
    """Read what a bundle in a folder is made of."""
    columns = ["id", "label", "split"] if labels_required else ["id"]
    nodes = _read_table(folder / "nodes.parquet", columns)
    edges = _read_table(folder / "edges.parquet", ["src", "dst"])
    logits = _numbered_columns(nodes, "z", folder / "nodes.parquet")
    ids = _column(nodes, "id")
    check_ids(ids, f"{folder / 'nodes.parquet'}")
    edge_index = np.stack([_ends(edges, end, ids, folder) for end in ("src", "dst")])
    if "weight" in edges.column_names:
        warn_about_edge_weights("weight")
    names = _class_names(nodes, folder)
    masks = _splits(nodes, folder)
    return {
        "logits": logits,
        "labels": _labels(nodes, names, folder),
        "graph": Graph(edge_index, len(ids)),
        **masks,
        "test": masks["test"] if masks["test"].any() else None,
        "node_ids": ids,
        "class_names": names,
    }


def read_probabilities(path: Path) -> tuple[FloatArray, npt.NDArray[Any] | None]:
    """Return the columns p0..pK-1 and the ids."""
    table = _read_table(path, ["id"])
    return _numbered_columns(table, "p", path), _column(table, "id")


def read_column(folder: Path, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers of nodes.parquet by its name."""
    pq = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
    path = folder / "nodes.parquet"
    try:
        names = pq.read_schema(path).names
        values = pq.read_table(path, columns=[name])[name].to_numpy() if name in names else None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); pass a folder with it.") from error
    if values is None:
        raise InputError(f"{path} has no column {name!r}; it has {', '.join(names)}.")
    return values


def _ends(edges: Any, name: str, ids: npt.NDArray[Any], folder: Path) -> IntArray:
    """Return the row of the node at each end; a text is looked up once."""
    if edges[name].null_count:
        raise InputError(f"the column {name} has {edges[name].null_count} nulls; fill them in.")
    values, rows = _distinct(edges, name)
    wanted = values if rows is None else values.astype(str)
    found = rows_of(wanted, ids, f"{folder / 'edges.parquet'}")
    return found if rows is None else found[rows]


def write(
    path: Path,
    arrays: dict[str, Any],
    node_ids: npt.NDArray[Any] | None,
    class_names: list[str] | None,
) -> None:
    """Write a column for each array, p0, p1, ... or set0, set1, ... for those of all classes."""
    pa = require("pyarrow", extra="parquet", purpose="writing Parquet")
    pq = require("pyarrow.parquet", extra="parquet", purpose="writing Parquet")
    n_rows = len(arrays["prediction"])
    columns = {"id": np.arange(n_rows) if node_ids is None else node_ids}
    columns |= {name: array for name, array in arrays.items() if array.ndim == 1}
    for name, prefix in BY_CLASS.items():
        if name in arrays:
            columns |= {f"{prefix}{c}": column for c, column in enumerate(arrays[name].T)}
    about = None if class_names is None else {"class_names": json.dumps(class_names)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns).replace_schema_metadata(about), sink)
    write_file(path, sink.getvalue().to_pybytes())


def _read_table(path: Path, required: list[str]) -> Any:
    """Return the columns that may be of use; sizes and types are looked at before they are read."""
    require("pyarrow", extra="parquet", purpose="reading Parquet")
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is a pipe or a device; pass a file.")
    table = find_table(str(path), path.stem, _is_of_use)
    missing = [name for name in required if name not in table.types]
    if missing:
        everything = find_table(str(path), path.stem, lambda name: True).types
        few = short_repr(", ".join(everything)).strip("'")
        raise InputError(f"{path} lacks the columns {', '.join(missing)}; it has {few}.")
    _check_types(table, path)
    try:
        read = _read_files(table)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a broken file makes Arrow raise almost anything
        raise InputError(f"{path} cannot be read as Parquet ({first_line(error)}).") from error
    names = table.class_names
    return read.replace_schema_metadata(names and {"class_names": json.dumps(names)})


def _read_files(table: Table) -> Any:
    """Read the files of a table as one; names of folders are columns, and text is a dictionary."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    folders = {name: table.types[name] for name in table.groups[0].folders}
    texts = {name for name, kind in table.types.items() if pa.types.is_string(kind)} - {*folders}
    # Each text once, even while it is read: a small file may repeat a long one a million times.
    types = table.types | dict.fromkeys(texts, pa.dictionary(pa.int32(), pa.string()))
    rows = ds.dataset(
        [file for group in table.groups for file in group.files],
        schema=pa.schema(types.items()),
        format=ds.ParquetFileFormat(dictionary_columns=texts),
        partitioning=ds.partitioning(pa.schema(folders.items()), flavor="hive"),
        partition_base_dir=table.root,
    )
    for fragment in rows.get_fragments():
        size = _declared_size(fragment.metadata, types.keys() - folders.keys())
        check_expansion(Path(fragment.path), size)
    read = rows.to_table().unify_dictionaries().combine_chunks()
    for i, (name, kind) in enumerate(table.types.items()):
        if pa.types.is_string(kind) or is_uuid(kind):
            read = read.set_column(i, name, _as_dictionary(read[name], name, table))
    return read


def _declared_size(metadata: Any, wanted: Collection[str]) -> int:
    """Return the bytes that the end of a file promises for some columns, at least 8 a value."""
    size = 8 * metadata.num_rows * len(wanted)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = (group.column(i) for i in range(group.num_columns))
        size += sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in wanted)
    return int(size)


def _as_dictionary(values: Any, name: str, table: Table) -> Any:
    """Return text, or UUIDs as text, with each value once: NumPy's has the longest one's width."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_uuid(values.type):
        values = pa.chunked_array(
            [[each and str(each) for each in values.to_pylist()]], pa.string()
        )
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    for chunk in coded.chunks:
        chunk.validate(full=True)  # text that is no UTF-8 would fail later
        longest = pc.max(pc.utf8_length(chunk.dictionary)).as_py() or 0
        if longest > LONGEST_TEXT:
            raise InputError(
                f"the column {name} of {table.given} has a text of {longest:,} characters; use at "
                f"most {LONGEST_TEXT:,}."
            )
    return coded


def _is_of_use(name: str) -> bool:
    return name in COLUMNS or any(number_of(name, prefix) is not None for prefix in "zp")


def _check_types(table: Table, path: Path) -> None:
    from pyarrow import types

    for name, kind in table.types.items():
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)
        is_text = types.is_string(kind)
        if not (is_number or ((is_text or is_uuid(kind)) and name in COLUMNS)):
            expected = "numbers or text" if name in COLUMNS else "numbers"
            raise InputError(f"the column {name} of {path} is of type {kind}; use {expected}.")


def _numbered_columns(table: Any, prefix: str, path: Path) -> FloatArray:
    names = numbered_columns(table.column_names, prefix, f"{path}")
    if not names:
        raise InputError(
            f"{path} needs the columns {prefix}0, {prefix}1, ... without gaps; it has "
            f"{', '.join(table.column_names)}."
        )
    return np.stack([np.asarray(table[n].to_numpy(), np.float64) for n in names], axis=1)


def _column(table: Any, name: str) -> npt.NDArray[Any]:
    if table[name].null_count:
        raise InputError(f"the column {name} has {table[name].null_count} nulls; fill them in.")
    values, rows = _distinct(table, name)
    return values if rows is None else values.astype(str)[rows]


def _distinct(table: Any, name: str) -> tuple[npt.NDArray[Any], IntArray | None]:
    """Return the texts of a column, each once, and which of them a row has; numbers as they are."""
    import pyarrow as pa

    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows
        column = pa.array([], column.type)
    if not pa.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False)), None
    rows = np.asarray(column.indices.fill_null(-1))
    used, rows = np.unique(rows, return_inverse=True)
    words = [None if i < 0 else column.dictionary[i].as_py() for i in used.tolist()]
    return np.array(words, dtype=object), rows


def _class_names(nodes: Any, folder: Path) -> list[str] | None:
    written = (nodes.schema.metadata or {}).get(b"class_names")
    return names_beside(None if written is None else json.loads(written), folder)


def names_beside(inside: list[str] | None, folder: Path) -> list[str] | None:
    """Return the names in a table's metadata, or in a file next to it that anyone can write."""
    path = folder / NAMES
    if not path.is_file():
        return inside
    if path.stat().st_size > LARGEST_NAMES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; that is no list of names.")
    named = names_of_json(path.read_bytes(), f"{path}")
    if inside is not None and inside != named:
        raise InputError(
            f"{path} has {short_repr(named)} but nodes.parquet says {short_repr(inside)}; remove "
            "the file."
        )
    return named


def _labels(table: Any, names: list[str] | None, folder: Path) -> IntArray:
    if "label" not in table.column_names:
        return np.full(table.num_rows, -1)
    values, rows = _distinct(table, "label")
    if rows is None:
        check_names_are_no_numbers(names or [], f"{folder / 'nodes.parquet'}")
        # NaN is what pandas has where a number is missing.
        is_missing = np.isnan(values) if values.dtype.kind == "f" else _is_none(values)
        return np.where(is_missing, -1, values) if is_missing.any() else values
    if names is None:
        raise InputError(
            f"labels in {folder / 'nodes.parquet'} are names but nothing says which z column each "
            f"class has; write {folder / NAMES}, a list in column order such as "
            f"{_example_of_names(values)}."
        )
    code: dict[str | None, int] = {name: c for c, name in enumerate(names)} | {None: -1}
    unknown = sorted(value for value in values if value not in code)
    if unknown:
        raise InputError(
            f"the label {short_repr(unknown[0])} is not among the class names {short_repr(names)}."
        )
    return np.array([code[value] for value in values], dtype=np.int64)[rows]


def _is_none(values: npt.NDArray[Any]) -> BoolArray:
    return np.array([value is None for value in values], dtype=bool)


def _example_of_names(values: Iterable[Any]) -> str:
    """Return the first names in some order, for a message that asks for the right one."""
    found = sorted(value for value in values if value is not None)
    few = found if len(found) < 5 else [*found[:3], "..."]
    return json.dumps([name[:20] for name in few])


def _splits(table: Any, folder: Path) -> dict[str, npt.NDArray[np.bool_]]:
    if "split" not in table.column_names:
        return {split: np.zeros(table.num_rows, dtype=bool) for split in SPLITS}
    values, rows = _distinct(table, "split")
    known = _is_none(values) | np.isin(values, SPLITS)
    if not known.all():
        raise InputError(
            f"the column split of {folder / 'nodes.parquet'} has {short_repr(values[~known][0])}; "
            f"expected {', '.join(SPLITS)} or null."
        )
    return {split: (values == split)[... if rows is None else rows] for split in SPLITS}


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
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    if not len(ranked):
        raise InputError(f"{where}: there are no ids.")
    position = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
    missing = np.flatnonzero(ranked[position] != wanted)
    if missing.size:
        raise InputError(
            f"{where}: {missing.size} ids are not among the nodes (first: "
            f"{short_repr(wanted[missing[0]])})."
        )
    return order[position]
