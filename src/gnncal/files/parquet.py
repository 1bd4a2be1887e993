"""Nodes and edges as Parquet tables: columns are checked, and rows become arrays.

The nodes have the columns id, label (null, NaN or -1 where unknown), split (train, val, test or
null) and z0..zK-1, or one list column ``logits``; the edges have src and dst, which name ids. Class
names may be in ``class_names.json`` next to the nodes, or in the schema's metadata under
``class_names``, as a JSON list; labels may then be names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import (
    check_class_names,
    check_names_are_no_numbers,
    same_class_names,
    warn_about_edge_weights,
)
from gnncal.data.errors import InputError, require, short_repr
from gnncal.files.archives import Arrays, check_expansion
from gnncal.files.output import write_file
from gnncal.files.tables import (
    Table,
    common_type,
    find_table,
    names_of_json,
    number_of,
    numbered_columns,
    opened,
    pieces_of,
    read_batches,
)

LIST_COLUMN = "logits"  # one list of K numbers for each node, instead of z0..zK-1
SPLITS = ("train", "val", "test")  # a node has the number of its split, -1 without one
TRAIN, VAL, TEST = range(len(SPLITS))
ENDS = ("src", "dst")
NODE_COLUMNS = re.compile(f"id|label|split|{LIST_COLUMN}|z[0-9]+")
IDS = "whole numbers or text"
KINDS = {  # what a column may hold, by the words of its expectation
    IDS: ("integer", "text"),
    "whole numbers or class names": ("integer", "number", "text", "boolean", "null"),
    f"the text {', '.join(SPLITS)} or null": ("text", "null"),
    "lists of numbers": ("list",),
    "numbers": ("integer", "number", "null"),
}
EXPECTED = dict(zip(("id", "label", "split", LIST_COLUMN), KINDS, strict=False))
EXPECTED |= dict.fromkeys(ENDS, IDS)
N_EXAMPLES = 3
REASONS = (  # why a row of the nodes cannot be used, in the order in which they are looked for
    "the id is null",
    "a logit is null, NaN or infinite, or the list has another length",
    "the label is not a class",
    "the split is not train, val or test",
    "the split is val but the label is missing",
)
DUPLICATE = "the id occurs more than once"
NULL_END, NO_NODE = "an end is null", "an end is not a node"
NO_ROWS = "the table of the nodes has columns but no rows; check what was written there."
NAMES, LARGEST_NAMES = "class_names.json", 2**24
BY_CLASS = {"probs": "p", "sets": "set"}  # arrays with a column for each class
LONGEST_TEXT = 1000  # characters of an id in memory, where the longest one sets the width of all
ROWS_AT_ONCE = 1 << 20


class Layout(NamedTuple):
    """The columns of the nodes' table."""

    n_classes: int
    logits: Sequence[str]  # the K columns in the order of the classes; none if they are in a list
    dtype: Any  # of the logits, and so of all that is computed for each class
    kinds: Mapping[str, str]  # what the other columns hold
    class_names: list[str] | None = None


class NodeRows(NamedTuple):
    """Rows of the nodes' table as arrays."""

    ids: Any  # Arrow
    logits: FloatArray  # (n, n_classes)
    labels: IntArray  # -1 where unknown
    splits: IntArray  # numbers of SPLITS
    reasons: IntArray  # why a row cannot be used, by its number in REASONS; -1 if it can


class BadRows:
    """Counts rows that cannot be used while tables are read, and keeps the first examples."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}  # by reason

    def add(self, table: str, reason: str, count: int, examples: Iterable[Any]) -> None:
        """Count more rows; an example is an id, or the two ends of an edge."""
        new = {"table": table, "reason": reason, "count": 0, "examples": []}
        entry = self._found.setdefault(reason, new)
        entry["count"] += int(count)
        for each in [*examples][: N_EXAMPLES - len(entry["examples"])]:
            ends = each if isinstance(each, tuple) else (each,)
            entry["examples"].append(" -> ".join(short_repr(end).strip("'\"") for end in ends))

    def add_nodes(self, rows: NodeRows) -> None:
        """Count the rows of the nodes that have a reason."""
        for number in np.unique(rows.reasons[rows.reasons >= 0]):
            places = np.flatnonzero(rows.reasons == number)
            few = rows.ids.take(places[:N_EXAMPLES]).to_pylist()
            self.add("nodes", REASONS[number], len(places), few)

    def add_edges(self, batch: Any, known: BoolArray) -> None:
        """Count the edges of which not both ends are nodes."""
        nulls = np.any([_array(batch[end].is_null()) for end in ENDS], axis=0)
        for reason, rows in ((NULL_END, ~known & nulls), (NO_NODE, ~known & ~nulls)):
            if (places := np.flatnonzero(rows)).size:
                few = batch.select(ENDS).take(places[:N_EXAMPLES]).to_pylist()
                self.add("edges", reason, places.size, [tuple(row.values()) for row in few])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What was found by table and reason, in the order of the reasons."""
        order = (*REASONS, DUPLICATE, NULL_END, NO_NODE)
        return [self._found[reason] for reason in order if reason in self._found]

    def __str__(self) -> str:
        return "; ".join(
            f"{counted_rows(each)} of the {each['table']}: {each['reason']} "
            f"({'ids' if each['table'] == 'nodes' else 'edges'} {', '.join(each['examples'])})"
            for each in self.rows
        )


def counted_rows(found: Mapping[str, Any]) -> str:
    """Return how many rows were found, in words."""
    return "1 row" if found["count"] == 1 else f"{found['count']:,} rows"


# Columns


def find_tables(nodes: str, edges: str) -> tuple[Table, Table]:
    """Find the files of both tables before anything is computed."""
    of_nodes = find_table(nodes, "nodes", lambda name: bool(NODE_COLUMNS.fullmatch(name)))
    of_edges = find_table(edges, "edges", lambda name: name in ENDS)
    for name, kind in of_edges.types.items():
        if kind_of(kind) == "null" and "id" in of_nodes.types:  # as pandas writes no edges
            of_edges.types[name] = of_nodes.types["id"]
    with opened(of_edges.storage, next(iter(of_edges.files))) as first:
        if "weight" in first.schema_arrow.names:
            warn_about_edge_weights("weight")
    return of_nodes, of_edges


def layout_of(
    nodes: Table, edges: Table, *, fits: bool, fitted_names: list[str] | None = None
) -> Layout:
    """Check the columns of both tables, and that labels and names fit the classes."""
    types = nodes.types
    columns = _check_columns(types, edges.types, fits=fits)
    n_classes = len(columns) or _usual_length(nodes)
    if n_classes == 1:
        raise InputError(
            "the nodes have one logit each, so one class; at least two are expected. For a "
            "sigmoid model with logit z, write 0 as z0 and z as z1."
        )
    names = same_class_names(check_class_names(_names_of(nodes), n_classes), fitted_names)
    kinds = {name: kind_of(types[name]) for name in EXPECTED if name in types}
    if kinds.get("label") == "boolean" and n_classes != 2:
        raise InputError(f"the column label is boolean but there are {n_classes} classes.")
    if kinds.get("label") == "text" and names is None:
        raise InputError(
            f"labels are names but the order of the classes is unknown; write {NAMES} next to "
            "the nodes, a list in the order of the logits, or schema metadata class_names."
        )
    if kinds.get("label", "text") != "text":
        check_names_are_no_numbers(names or [])
    logits = {str(types[name]) for name in columns} or {str(types[LIST_COLUMN].value_type)}
    return Layout(n_classes, columns, np.dtype("f4" if logits == {"float"} else "f8"), kinds, names)


def _check_columns(nodes: Mapping[str, Any], edges: Mapping[str, Any], *, fits: bool) -> list[str]:
    """Check the types of both tables; return the columns of the logits, none if they are a list."""
    columns = numbered_columns(nodes, "z", "the nodes")
    if columns and LIST_COLUMN in nodes:
        raise InputError(
            f"the nodes have z columns and the column {LIST_COLUMN}; keep one of the two."
        )
    needed = ("id",) if columns else ("id", LIST_COLUMN)
    for table, types, required in (("nodes", nodes, needed), ("edges", edges, ENDS)):
        if missing := [name for name in required if name not in types]:
            instead = " (or z0, z1, ... without gaps)" if LIST_COLUMN in missing else ""
            raise InputError(f"the {table} lack the column {' and '.join(missing)}{instead}.")
        _check_types(table, types)
    for name in ENDS:
        if kind_of(edges[name]) != kind_of(nodes["id"]):
            raise InputError(
                f"the column {name} of the edges is of type {edges[name]} but id is of type "
                f"{nodes['id']}; use one type, {IDS}."
            )
    missing = [name for name in ("label", "split") if name not in nodes]
    if missing and fits:
        raise InputError(
            f"the nodes have no column {' and no column '.join(missing)}, so nothing can be "
            "fitted. Add label (the class) and split ('val' for calibration nodes), or apply a "
            "fitted calibrator (--calibrator of scale, gnncal apply)."
        )
    return columns


def _check_types(table: str, types: Mapping[str, Any]) -> None:
    for name, kind in types.items():
        expected = EXPECTED.get(name, "numbers")
        if kind_of(kind) not in KINDS[expected]:
            raise InputError(
                f"the column {name} of the {table} is of type {kind}; expected {expected}."
            )


def kind_of(kind: Any) -> str:
    """Return what values of an Arrow type are, in one word."""
    from pyarrow import types

    if types.is_list(kind) and kind_of(kind.value_type) in KINDS["numbers"]:
        return "list"
    tests = {"integer": types.is_integer, "number": types.is_floating, "text": types.is_string}
    tests |= {"boolean": types.is_boolean, "null": types.is_null}
    return next((word for word, holds in tests.items() if holds(kind)), "")


def _usual_length(nodes: Table) -> int:
    """Return how many logits most lists of the first rows have; other lists are bad rows."""
    import pyarrow.compute as pc

    for batch in read_batches(nodes, pieces_of(nodes), 1 << 10):
        lengths = _array(pc.fill_null(pc.list_value_length(batch[LIST_COLUMN]), 0))
        sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
        if sizes.size:
            return int(sizes[counts.argmax()])
    raise InputError(f"the nodes have no rows, or the lists of {LIST_COLUMN} are empty in all.")


def _names_of(nodes: Table) -> Any:
    """Return the names in a table's metadata, or in a file next to it that anyone can write."""
    path, inside = Path(nodes.root).parent / NAMES, nodes.class_names
    if nodes.is_remote or not path.is_file():
        return inside
    if path.stat().st_size > LARGEST_NAMES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; that is not a list of names.")
    named = names_of_json(path.read_bytes(), f"{path}")
    if inside is not None and inside != named:
        raise InputError(
            f"{path} has {short_repr(named)} but the nodes say {short_repr(inside)}; remove the "
            "file."
        )
    return named


# Rows


def read_rows(batch: Any, layout: Layout, *, fits: bool) -> NodeRows:
    """Return the rows of an Arrow batch as arrays, and say which of them cannot be used."""
    logits, labels = _logits(batch, layout), _labels(batch, layout)
    splits = np.full(len(batch), -1)
    if layout.kinds.get("split") == "text":
        splits = _codes(batch["split"], SPLITS)
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(logits.sum(axis=1))  # quick; a sum may overflow as well
    is_finite[~is_finite] = np.isfinite(logits[~is_finite]).all(axis=1)
    needs_label = (splits == VAL) & fits
    wrong: tuple[BoolArray, ...] = (_array(batch["id"].is_null()), ~is_finite, labels < -1)
    wrong = (*wrong, splits < -1, needs_label & (labels == -1))
    reasons = np.select(wrong, range(len(REASONS)), -1)
    arrays = labels.astype(np.int32), splits.astype(np.int8), reasons.astype(np.int8)
    return NodeRows(batch["id"], logits, *arrays)


def _logits(batch: Any, layout: Layout) -> FloatArray:
    """Return the logits (n, n_classes), NaN in rows without as many numbers."""
    import pyarrow.compute as pc

    if layout.logits:
        return _matrix(batch, layout.logits, layout.dtype)
    lists = batch[LIST_COLUMN]
    has_all = pc.fill_null(pc.equal(pc.list_value_length(lists), layout.n_classes), False)
    values = _numbers(lists.filter(has_all).flatten(), layout.dtype).reshape(-1, layout.n_classes)
    if len(values) == len(lists):
        return values
    matrix = np.full((len(lists), layout.n_classes), np.nan, dtype=layout.dtype)
    matrix[_array(has_all)] = values
    return matrix


def _labels(batch: Any, layout: Layout) -> IntArray:
    """Return the classes, -1 where unknown and -2 where it cannot be a label."""
    if "label" not in layout.kinds:
        return np.full(len(batch), -1)
    if layout.kinds["label"] == "text":
        return _codes(batch["label"], layout.class_names or [])
    numbers = _numbers(batch["label"], np.dtype("f8"))
    numbers = np.where(np.isnan(numbers), -1.0, numbers)  # as pandas has it where one is missing
    is_class = (numbers >= -1) & (numbers < layout.n_classes) & (numbers == np.floor(numbers))
    return np.where(is_class, numbers, -2).astype(np.int64)


def _codes(values: Any, words: Sequence[str]) -> IntArray:
    """Return the place of each text among some words, -1 for null and -2 for another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.fill_null(pc.index_in(values, pa.array(words, pa.string())), -2)
    return np.where(_array(values.is_null()), -1, _array(codes))


def _matrix(batch: Any, columns: Sequence[str], dtype: Any) -> FloatArray:
    return np.array([_numbers(batch[name], dtype) for name in columns]).T.copy()


def _numbers(values: Any, dtype: Any) -> FloatArray:
    """Return Arrow numbers as an array, NaN for null."""
    import pyarrow as pa

    whole = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    return _array(whole.cast(pa.from_numpy_dtype(dtype), safe=False))


def _array(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)


# In memory


def read(folder: Path, *, labels_required: bool = True) -> Arrays:
    """Read what an ``.npz`` bundle would hold; class names are a list."""
    pc = require("pyarrow.compute", extra="parquet", purpose="reading Parquet")
    nodes, edges = find_tables(*(f"{folder / name}.parquet" for name in ("nodes", "edges")))
    layout = layout_of(nodes, edges, fits=labels_required)._replace(dtype=np.dtype("f8"))
    rows, bad = read_rows(_whole(nodes), layout, fits=labels_required), BadRows()
    bad.add_nodes(rows)
    if not bad.rows:
        batch, kind = _whole(edges), common_type(*edges.types.values(), rows.ids.type)
        places = (pc.index_in(batch[end].cast(kind), rows.ids.cast(kind)) for end in ENDS)
        edge_index = np.stack([_array(each.fill_null(-1)) for each in places])
        bad.add_edges(batch, edge_index.min(axis=0) >= 0)
    if bad.rows:
        raise InputError(f"{folder} has {bad}; correct them.")
    arrays: dict[str, Any] = {"logits": rows.logits, "edge_index": edge_index}
    arrays |= {"labels": rows.labels, "node_ids": _plain(rows.ids, "id")}
    arrays |= {"class_names": layout.class_names} if layout.class_names else {}
    if "split" in layout.kinds:
        masks = {f"{split}_mask": rows.splits == i for i, split in enumerate(SPLITS)}
        arrays |= {name: mask for name, mask in masks.items() if name != "test_mask" or mask.any()}
    return arrays


def read_probabilities(path: Path) -> Arrays:
    """Return the columns p0..pK-1 and the ids."""
    table = find_table(
        str(path), "nodes", lambda name: name == "id" or number_of(name, "p") is not None
    )
    columns = numbered_columns(table.types, "p", f"{path}")
    if "id" not in table.types or not columns:
        raise InputError(f"{path} needs the columns id and p0, p1, ... without gaps.")
    _check_types("nodes", table.types)
    batch = _whole(table)
    return {
        "probs": _matrix(batch, columns, np.dtype("f8")),
        "node_ids": _plain(batch["id"], "id"),
    }


def read_column(folder: Path, name: str) -> npt.NDArray[Any]:
    """Return a column of the nodes, which may have any name."""
    table = find_table(str(folder / "nodes.parquet"), "nodes", lambda each: each == name)
    if name not in table.types:
        raise InputError(f"{folder / 'nodes.parquet'} lacks the column {name}.")
    return _plain(_whole(table)[name], name)


def _whole(table: Table) -> Any:
    """Return all rows as one Arrow batch; sizes are looked at before anything is read."""
    import pyarrow as pa

    pieces = pieces_of(table)
    for file in table.files:
        n_rows = sum(piece.n_rows for piece in pieces if piece.file == file)
        check_expansion(Path(file), 8 * n_rows * len(table.types))
    batches = read_batches(table, pieces, ROWS_AT_ONCE)
    rows = pa.Table.from_batches(batches, pa.schema(table.types.items()))
    return pa.record_batch([column.combine_chunks() for column in rows.columns], rows.schema)


def _plain(values: Any, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as an array."""
    import pyarrow.compute as pc

    if values.null_count:
        raise InputError(f"the column {name} has {values.null_count} nulls; fill them in.")
    if kind_of(values.type) != "text":
        return np.asarray(_array(values))
    longest = pc.max(pc.utf8_length(values)).as_py() or 0
    if longest > LONGEST_TEXT:
        raise InputError(
            f"the column {name} has a text of {longest:,} characters; use at most {LONGEST_TEXT:,}."
        )
    return np.array(values.to_pylist(), dtype=str)


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
