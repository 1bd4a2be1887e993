"""The two tables: their columns are checked, and their rows read as the same arrays everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import check_names_are_no_numbers
from gnncal.data.errors import LONGEST_VALUE, InputError
from gnncal.files.tables import N_READERS, Table, first_line, is_uuid, numbered_columns

LIST_COLUMN = "logits"  # one list of K numbers for each node, instead of z0..zK-1
SPLITS = ("train", "val", "test")  # a node has the number of its split, -1 without one
TRAIN, VAL, TEST = range(len(SPLITS))
ENDS = ("src", "dst")
NODE_COLUMNS = re.compile(f"id|label|split|{LIST_COLUMN}|z[0-9]+")
IDS = "whole numbers, text or UUIDs"
KINDS = {  # what a column may hold, by the words of its expectation
    IDS: ("integer", "text", "UUID"),
    "whole numbers or class names": ("integer", "number", "text", "boolean", "null"),
    f"the text {', '.join(SPLITS)} or null": ("text", "null"),
    "lists of numbers": ("list",),
    "numbers": ("integer", "number", "null"),
}
EXPECTED = dict(zip(("id", "label", "split", LIST_COLUMN), KINDS, strict=False))
EXPECTED |= dict.fromkeys(ENDS, IDS)
BUFFER = 1 << 20  # bytes of a column that are read at once
N_EXAMPLES = 3
NO_ROWS = "the table of the nodes has columns but no rows; check what was written there."
REASONS = (  # why a row of the nodes cannot be used, in the order in which they are looked for
    "the id is null",
    "a logit is null, NaN or infinite, or the list has another length",
    "the label is not a class",
    "the split is not train, val or test",
    "the split is val but there is no label",
)
DUPLICATE = "the id occurs more than once"
NULL_END, NO_NODE = "an end is null", "an end is not a node"
Types = Mapping[str, Any]  # Arrow types by column


class BadRows:
    """Counts rows that cannot be used while tables are read, and keeps the first examples."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}  # by reason

    def add(self, table: str, reason: str, count: int, examples: Iterable[Any]) -> None:
        """Count more rows; an example is an id, or the two ends of an edge."""
        new = {"table": table, "reason": reason, "count": 0, "examples": []}
        entry = self._found.setdefault(reason, new)
        entry["count"] += int(count)
        ends = (each if isinstance(each, tuple) else (each,) for each in examples)
        entry["examples"] += [" -> ".join(map(_text, each)) for each in ends]
        del entry["examples"][N_EXAMPLES:]

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


def _text(value: Any) -> str:
    text = str(UUID(bytes=value) if isinstance(value, bytes) else value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


# Columns


class Layout(NamedTuple):
    """What the nodes' table looks like."""

    n_classes: int
    logits: Sequence[str]  # the K columns in the order of the classes; none if they are in a list
    dtype: Any  # of the logits, and so of all that is computed for each class
    kinds: Mapping[str, str]  # what id, label and split hold
    class_names: Sequence[str] | None = None


def check_columns(nodes: Types, edges: Types, *, fits: bool) -> list[str]:
    """Check the types of both tables; return the columns of the logits, none if they are a list."""
    columns = numbered_columns(nodes, "z", "the nodes")
    if columns and LIST_COLUMN in nodes:
        raise InputError(
            f"the nodes have z columns and the column {LIST_COLUMN}; keep one of the two."
        )
    needed = ("id",) if columns else ("id", LIST_COLUMN)
    for table, types, required in (("nodes", nodes, needed), ("edges", edges, ENDS)):
        missing = [name for name in required if name not in types]
        if missing:
            instead = " (or z0, z1, ... without gaps)" if LIST_COLUMN in missing else ""
            raise InputError(f"the {table} lack the column {' and '.join(missing)}{instead}.")
        for name, kind in types.items():
            expected = EXPECTED.get(name, "numbers")
            if kind_of(kind) not in KINDS[expected]:
                raise InputError(
                    f"the column {name} of the {table} is of type {kind}; expected {expected}."
                )
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
            "fitted calibrator with --calibrator (calibrator=)."
        )
    return columns


def kind_of(kind: Any) -> str:
    """Return what values of an Arrow type are, in one word."""
    from pyarrow import types

    if types.is_list(kind) and kind_of(kind.value_type) in KINDS["numbers"]:
        return "list"
    if types.is_decimal(kind):
        return "number" if kind.scale else "integer"
    tests = {"integer": types.is_integer, "number": types.is_floating, "text": types.is_string}
    tests |= {"UUID": is_uuid, "boolean": types.is_boolean, "null": types.is_null}
    return next((word for word, holds in tests.items() if holds(kind)), "")


def layout_of(types: Types, columns: list[str], n_classes: int, names: list[str] | None) -> Layout:
    """Return how the nodes' table is laid out, if labels and names fit the classes."""
    if n_classes == 1:
        raise InputError(
            "the nodes have one logit each, so one class; at least two are expected. For a "
            "sigmoid model with logit z, write 0 as z0 and z as z1."
        )
    kinds = {name: kind_of(types[name]) for name in ("id", "label", "split") if name in types}
    if kinds.get("label") == "boolean" and n_classes != 2:
        raise InputError(f"the column label is boolean but there are {n_classes} classes.")
    if names is not None and not len(set(names)) == len(names) == n_classes:
        raise InputError(
            f"class_names has {len(names)} names but there are {n_classes} classes; name each "
            "class once."
        )
    if kinds.get("label") == "text" and names is None:
        raise InputError(
            "labels are names but nothing says which logit each class has; write class_names.json "
            "next to the nodes, a list in the order of the logits, or schema metadata class_names."
        )
    if kinds.get("label", "text") != "text":
        check_names_are_no_numbers(names or [], "class_names")
    logits = {str(types[name]) for name in columns} or {str(types[LIST_COLUMN].value_type)}
    return Layout(n_classes, columns, np.dtype("f4" if logits == {"float"} else "f8"), kinds, names)


def usual_length(batches: Iterable[Any]) -> int:
    """Return how many logits most lists of the first rows have; other lists are bad rows."""
    import pyarrow.compute as pc

    for batch in batches:
        lengths = _array(pc.fill_null(pc.list_value_length(batch[LIST_COLUMN]), 0))
        sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
        if sizes.size:
            return int(sizes[counts.argmax()])
    raise InputError(f"the nodes have no rows, or the lists of {LIST_COLUMN} are empty in all.")


# Files


class Piece(NamedTuple):
    """A row group of a file."""

    file: str
    folders: dict[str, str | None]  # columns that the names of folders give
    row_group: int
    n_rows: int


def pieces_of(table: Table) -> list[Piece]:
    """Return the row groups of a table's files."""

    def pieces(file: str, folders: dict[str, str | None]) -> list[Piece]:
        with _opened(table, file) as parquet:
            groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
            return [Piece(file, folders, i, group.num_rows) for i, group in enumerate(groups)]

    with ThreadPoolExecutor(N_READERS) as pool:
        found = pool.map(lambda each: pieces(*each), table.files.items())
        return [piece for some in found for piece in some]


def read_batches(table: Table, pieces: Iterable[Piece], n_rows: int) -> Iterator[Any]:
    """Give the rows of some pieces as Arrow batches of the table's types; UUIDs are bytes."""
    import pyarrow as pa

    for file, some in groupby(pieces, key=lambda piece: piece.file):
        groups = list(some)
        folders = groups[0].folders
        columns = [name for name in table.types if name not in folders]
        numbers = [each.row_group for each in groups]
        with _opened(table, file) as parquet:
            for batch in parquet.iter_batches(n_rows, numbers, columns):
                typed = []
                for name, kind in table.types.items():
                    text = pa.scalar(folders.get(name), pa.string())
                    values = pa.repeat(text, len(batch)) if name in folders else batch[name]
                    values = values.storage if is_uuid(values.type) else values
                    typed.append(values.cast(pa.binary() if is_uuid(kind) else kind))
                yield pa.record_batch(typed, names=list(table.types))


@contextmanager
def _opened(table: Table, file: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    try:
        # By its name, a local file is read without Python.
        source = table.storage.open(file, "rb", block_size=BUFFER) if table.is_remote else file
        with pq.ParquetFile(source, buffer_size=BUFFER, pre_buffer=False) as parquet:
            yield parquet
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each storage has its own, and a broken file almost any
        raise InputError(f"{file} cannot be read as Parquet ({first_line(error)}).") from error


# Rows


class NodeRows(NamedTuple):
    """Rows of the nodes' table as arrays."""

    ids: Any  # Arrow
    logits: FloatArray  # (n, n_classes)
    labels: IntArray  # -1 where unknown
    splits: IntArray  # numbers of SPLITS
    reasons: IntArray  # why a row cannot be used, by its number in REASONS; -1 if it can


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
        return np.array([_numbers(batch[name], layout.dtype) for name in layout.logits]).T.copy()
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


def _numbers(values: Any, dtype: Any) -> FloatArray:
    """Return Arrow numbers as an array, NaN for null."""
    import pyarrow as pa

    whole = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    return _array(whole.cast(pa.from_numpy_dtype(dtype), safe=False))


def _array(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)
