"""Bundles as a folder of Parquet files.

``nodes.parquet`` has the columns id, label (null, NaN or -1 where unknown), split (train, val, test
or null) and z0..zK-1; ``edges.parquet`` has src and dst, which name ids. Class names may stand in
``class_names.json``, or in the schema's metadata of ``nodes.parquet`` under ``class_names``, as a
JSON list; labels may then be names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.checks import check_names_are_no_numbers, check_probs, warn_about_edge_weights
from gnncal.core.errors import InputError, require, shown
from gnncal.core.graph import Graph
from gnncal.files.agreement import Table, class_names_in, names_of_json, read_together
from gnncal.files.archives import check_expansion
from gnncal.files.atomic import SIGN, write_atomically
from gnncal.files.bundle import Bundle, Verdict, rows_of
from gnncal.files.kinds import is_uuid
from gnncal.files.numbered import number_of, numbered_columns
from gnncal.files.partitions import partition_value
from gnncal.files.sources import DataFile, find_source

SPLITS = ("train", "val", "test")
NAMES, LARGEST_NAMES = "class_names.json", 2**24
COLUMNS = ("id", "label", "split", "src", "dst", "weight")


def read(folder: Path, *, labels_required: bool = True) -> Bundle:
    """Read the bundle in a folder."""
    columns = ["id", "label", "split"] if labels_required else ["id"]
    nodes = _read_table(folder / "nodes.parquet", columns)
    edges = _read_table(folder / "edges.parquet", ["src", "dst"])
    logits = _numbered_columns(nodes, "z", folder / "nodes.parquet")
    ids = _column(nodes, "id")
    where = f"{folder / 'edges.parquet'}"
    edge_index = np.stack([rows_of(_column(edges, end), ids, where) for end in ("src", "dst")])
    if "weight" in edges.column_names:
        warn_about_edge_weights("weight")
    names = _class_names(nodes, folder)
    masks = _splits(nodes, folder)
    return Bundle.checked(
        logits=logits,
        labels=_labels(nodes, names, folder),
        graph=Graph(edge_index, len(ids)),
        train=masks["train"],
        val=masks["val"],
        test=masks["test"] if masks["test"].any() else None,
        node_ids=ids,
        class_names=names,
        labels_required=labels_required,
    )


def write_probabilities(
    folder: Path, bundle: Bundle, probs: FloatArray, temperature: FloatArray | None
) -> Path:
    """Write the columns id, prediction, confidence, temperature, p0..pK-1."""
    columns = _predictions(bundle, probs)
    if temperature is not None:
        columns["temperature"] = temperature
    columns |= {f"p{c}": probs[:, c] for c in range(probs.shape[1])}
    return _write(folder / "probabilities.parquet", columns, bundle)


def write_decisions(
    folder: Path, bundle: Bundle, probs: FloatArray, verdict: Verdict, sets: BoolArray | None
) -> Path:
    """Write the columns id, prediction, confidence, those of the verdict, perhaps set0..setK-1."""
    columns = {**_predictions(bundle, probs), **verdict}
    if sets is not None:
        columns |= {f"set{c}": sets[:, c] for c in range(sets.shape[1])}
    return _write(folder / "decisions.parquet", columns, bundle)


def read_probabilities(path: Path) -> tuple[FloatArray, npt.NDArray[Any] | None]:
    """Return the columns p0..pK-1 and the ids."""
    table = _read_table(path, ["id"])
    return check_probs(_numbered_columns(table, "p", path)), _column(table, "id")


def _predictions(bundle: Bundle, probs: FloatArray) -> dict[str, Any]:
    predictions, rows = probs.argmax(axis=1), np.arange(len(probs))
    return {
        "id": rows if bundle.node_ids is None else bundle.node_ids,
        "prediction": predictions,
        "confidence": probs[rows, predictions],
    }


def _write(path: Path, columns: dict[str, Any], bundle: Bundle) -> Path:
    pa = require("pyarrow", extra="parquet", purpose="writing Parquet")
    pq = require("pyarrow.parquet", extra="parquet", purpose="writing Parquet")
    about = {SIGN: ""}
    if bundle.class_names is not None:
        about["class_names"] = json.dumps(bundle.class_names)
    table = pa.table(columns).replace_schema_metadata(about)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    write_atomically(path, sink.getvalue().to_pybytes())
    return path


def _read_table(path: Path, required: list[str]) -> Any:
    """Return the columns that may be of use; sizes and types are looked at before they are read.

    A folder with the name of a file is a table of several files, by the rules of sources.py. The
    metadata of the schema holds the class names, if the files have some.
    """
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    files = read_together(find_source(str(path), path.stem), _is_of_use)
    parts = [_read_file(files, file, required).select(files.types) for file in files.source.files]
    names = files.class_names
    metadata = None if names is None else {"class_names": json.dumps(names)}
    return pa.concat_tables(part.replace_schema_metadata(metadata) for part in parts)


def _read_file(table: Table, file: DataFile, required: list[str]) -> Any:
    """Read one file; its columns get the types of the whole table."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    pq = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
    path = Path(file.path)
    try:
        with pq.ParquetFile(path) as opened:
            schema, n_rows = opened.schema_arrow, opened.metadata.num_rows
            _check_names([*schema.names, *table.partitions], required, path)
            wanted = [name for name in schema.names if _is_of_use(name)]
            _check_types(table, [*wanted, *table.partitions], path)
            check_expansion(path, 8 * n_rows * len(wanted))
            part = opened.read(wanted)
        part.validate(full=True)  # text that is no UTF-8 would fail later
        for number, name in enumerate(wanted):
            part = part.set_column(number, name, _plain(part[name], table.types[name]))
        for name in table.partitions:
            value = partition_value(file.partition[name], table.types[name])
            part = part.append_column(name, pa.repeat(pa.scalar(value, table.types[name]), n_rows))
    except InputError:
        raise
    except Exception as error:  # a broken file makes Arrow raise almost anything
        raise InputError(f"{path} cannot be read as Parquet ({error}).") from error
    return part


def _plain(values: Any, kind: Any) -> Any:
    """Return a column in the type that it has in the whole table; UUIDs become text."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    if is_uuid(kind):
        codes = (getattr(value, "bytes", value) for value in values.to_pylist())
        texts = [None if code is None else str(UUID(bytes=code)) for code in codes]
        return pa.array(texts, pa.string())
    return values.cast(kind, safe=False)  # whole numbers may become floats


def _is_of_use(name: str) -> bool:
    return name in COLUMNS or any(number_of(name, prefix) is not None for prefix in "zp")


def _check_names(names: list[str], required: list[str], path: Path) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(names)}."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path} has the column {twice[0]} more than once.")


def _check_types(table: Table, names: list[str], path: Path) -> None:
    types = require("pyarrow", extra="parquet", purpose="reading Parquet").types
    for name in names:
        kind = table.types[name]
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
    values = np.asarray(table[name].to_numpy())
    if values.dtype != object:
        return values
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"the column {name} is of type {table[name].type}; use numbers or text.")
    return values.astype(str)


def _class_names(nodes: Any, folder: Path) -> list[str] | None:
    """Return the names in the table's metadata, or in a file beside it that anyone can write."""
    inside, path = class_names_in(nodes.schema, folder / "nodes.parquet"), folder / NAMES
    if not path.is_file():
        return inside
    if path.stat().st_size > LARGEST_NAMES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; that is no list of names.")
    beside = names_of_json(path.read_bytes(), f"{path}")
    if inside is not None and inside != beside:
        raise InputError(
            f"{path} has {shown(beside)} but nodes.parquet says {shown(inside)}; remove the file."
        )
    return beside


def _labels(table: Any, names: list[str] | None, folder: Path) -> IntArray:
    if "label" not in table.column_names:
        return np.full(table.num_rows, -1)
    column = table["label"].to_pylist()
    if not all(value is None or isinstance(value, int | float | str) for value in column):
        raise InputError(
            f"the column label is of type {table['label'].type}; use integers or class names."
        )
    if not any(isinstance(value, str) for value in column):
        check_names_are_no_numbers(names or [], f"{folder / 'nodes.parquet'}")
        # NaN, which is not itself, is what pandas has where a number is missing.
        return np.array([-1 if value is None or value != value else value for value in column])
    if names is None:
        raise InputError(
            f"labels in {folder / 'nodes.parquet'} are names but nothing says which z column each "
            f"class has; write {folder / NAMES}, a list in column order such as "
            f"{_example_of_names(column)}."
        )
    code: dict[str | None, int] = {name: c for c, name in enumerate(names)}
    unknown = sorted({str(value) for value in column if value is not None and value not in code})
    if unknown:
        raise InputError(f"the label {unknown[0]!r} is not among the class names {shown(names)}.")
    return np.array([code.get(value, -1) for value in column])


def _example_of_names(column: list[Any]) -> str:
    """Return the first names in some order, for a message that asks for the right one."""
    found = sorted({value for value in column if isinstance(value, str)})
    return json.dumps(found) if len(found) < 5 else json.dumps([*found[:3], "..."])


def _splits(table: Any, folder: Path) -> dict[str, npt.NDArray[np.bool_]]:
    values = np.full(table.num_rows, None)
    if "split" in table.column_names:
        values = np.array(table["split"].to_pylist(), dtype=object)
    unknown = sorted({str(v) for v in values if v is not None and v not in SPLITS})
    if unknown:
        raise InputError(
            f"the column split of {folder / 'nodes.parquet'} has {unknown[0]!r}; "
            f"expected {', '.join(SPLITS)} or null."
        )
    return {split: values == split for split in SPLITS}
