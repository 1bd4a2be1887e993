"""The two tables: their columns are checked, and their rows read as the same arrays everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_names_are_no_numbers
from gnncal.data.errors import LONGEST_VALUE, InputError, short_repr
from gnncal.files.tables import N_READERS, Table, first_line, is_uuid, numbered_columns

LIST_COLUMN = "logits"  # one list of K numbers for each node, instead of z0..zK-1
LOGIT_COLUMN = re.compile("z[0-9]+")
SPLITS = ("train", "val", "test")  # a node has the number of its split, -1 without one
TRAIN, VAL, TEST = range(len(SPLITS))
ENDS = ("src", "dst")
WHOLE, NUMBERS, TEXT, UUIDS, BOOLEANS, LISTS, NULLS = (
    *("whole numbers", "numbers", "text", "UUIDs"),
    *("booleans", "lists of numbers", "nulls"),
)
IDS, LOGITS = (WHOLE, TEXT, UUIDS), (NUMBERS, WHOLE, NULLS)
MAY_BE = {  # what each column may hold; z0, z1, ... hold LOGITS
    **dict.fromkeys(("id", *ENDS), IDS),
    "label": (WHOLE, TEXT, NUMBERS, BOOLEANS, NULLS),
    "split": (TEXT, NULLS),
    LIST_COLUMN: (LISTS,),
}
BUFFER = 1 << 20  # bytes of a column that are read at once
SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
MOST_NAMES = 12  # of columns, in a sentence
N_EXAMPLES = 3
NO_ROWS = "the table of the nodes has columns but no rows; check what was written there."
REASONS = (  # why a row of the nodes cannot be used, in the order in which they are looked for
    "the id is null",
    "a logit is null, NaN or infinite, or the list has another length",
    "the label is not a class",
    "the split is not train, val or test",
    "the split is val but there is no label",
)
DUPLICATE, NULL_END, NO_NODE = (
    "the id occurs more than once",
    "an end is null",
    "an end is not a node",
)
Types = Mapping[str, Any]  # Arrow types by column


def is_of_nodes(name: str) -> bool:
    """Return whether a column of the nodes' table is used."""
    return (name in MAY_BE and name not in ENDS) or LOGIT_COLUMN.fullmatch(name) is not None


def is_of_edges(name: str) -> bool:
    """Return whether a column of the edges' table is used."""
    return name in ENDS


def size_of(text: str) -> int:
    """Return the number of bytes of a size such as 4GiB, 500MB or 2g."""
    match = SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(
            f"the memory limit is {short_repr(text)}; expected a size such as 4GiB or 500MB."
        )
    number, unit, binary = match.groups()
    base = 1000 if text.strip()[-1:] in "bB" and not binary else 1024
    return int(float(number) * base ** ("kmgt".index(unit.lower()) + 1))


# Rows that cannot be used


class BadRows:
    """Counts rows that cannot be used while tables are read, and keeps the first examples."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}  # by reason

    def add(self, table: str, reason: str, count: int, examples: Iterable[Any]) -> None:
        """Count more rows; an example is an id, or the two ends of an edge."""
        new = {"table": table, "reason": reason, "count": 0, "examples": []}
        entry = self._found.setdefault(reason, new)
        entry["count"] += int(count)
        entry["examples"] += [
            " -> ".join(map(_text, each if isinstance(each, tuple) else (each,)))
            for each in examples
        ]
        del entry["examples"][N_EXAMPLES:]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What was found by table and reason, in the order of the reasons."""
        order = (*REASONS, DUPLICATE, NULL_END, NO_NODE)
        return [self._found[reason] for reason in order if reason in self._found]

    def __str__(self) -> str:
        return "; ".join(
            f"{each['count']:,} rows of the {each['table']}: {each['reason']} "
            f"({'ids' if each['table'] == 'nodes' else 'edges'} {', '.join(each['examples'])})"
            for each in self.rows
        )


def _text(value: Any) -> str:
    text = str(UUID(bytes=value) if isinstance(value, bytes) else value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


# Columns


@dataclass(frozen=True)
class Layout:
    """What the nodes' table looks like."""

    n_classes: int
    logits: tuple[str, ...]  # the K columns in the order of the classes; none if they are in a list
    dtype: Any  # of the logits, and so of all that is computed for each class
    has_label: bool
    has_split: bool
    class_names: list[str] | None = None


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
            raise InputError(
                f"the {table} lack the column {' and '.join(missing)}{instead}; they have "
                f"{', '.join([*types][:MOST_NAMES])}."
            )
        for name, kind in types.items():
            expected = MAY_BE.get(name, LOGITS)
            if kind_of(kind) not in expected:
                raise InputError(
                    f"the column {name} of the {table} is of type {kind}; expected "
                    f"{expected[0] if expected is not IDS else 'whole numbers, text or UUIDs'}."
                )
    for name in ENDS:
        if kind_of(edges[name]) != kind_of(nodes["id"]):
            raise InputError(
                f"the column {name} of the edges is of type {edges[name]} but id is of type "
                f"{nodes['id']}; use one type, whole numbers, text or UUIDs."
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
    """Return what values of an Arrow type are, by one of the words above."""
    from pyarrow import types

    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return WHOLE
    if types.is_list(kind) and kind_of(kind.value_type) in LOGITS:
        return LISTS
    if types.is_floating(kind) or types.is_decimal(kind):
        return NUMBERS
    tests = {
        TEXT: types.is_string,
        UUIDS: is_uuid,
        BOOLEANS: types.is_boolean,
        NULLS: types.is_null,
    }
    return next((word for word, holds in tests.items() if holds(kind)), str(kind))


def layout_of(
    types: Types, columns: list[str], n_classes: int, class_names: list[str] | None
) -> Layout:
    """Return how the nodes' table is laid out, if labels and names fit the classes."""
    if n_classes == 1:
        raise InputError(
            "the nodes have one logit each, so one class; at least two are expected. For a "
            "sigmoid model with logit z, write 0 as z0 and z as z1."
        )
    label = kind_of(types["label"]) if "label" in types else None
    if label == BOOLEANS and n_classes != 2:
        raise InputError(
            f"the column label is of type boolean but there are {n_classes} classes; use whole "
            "numbers 0, 1, ... or class names."
        )
    if class_names is not None and not len(set(class_names)) == len(class_names) == n_classes:
        raise InputError(
            f"class_names has {len(class_names)} names but there are {n_classes} classes; name "
            "each class once."
        )
    if label == TEXT and class_names is None:
        raise InputError(
            "labels are names but nothing says which logit each class has; write class_names.json "
            "next to the nodes, a list in the order of the logits, or schema metadata class_names."
        )
    if label not in (None, TEXT):
        check_names_are_no_numbers(class_names or [], "class_names")
    logits = [types[name] for name in columns] or [types[LIST_COLUMN].value_type]
    dtype = np.dtype(np.float32 if {*map(str, logits)} == {"float"} else np.float64)
    has_split = "split" in types and kind_of(types["split"]) == TEXT
    return Layout(n_classes, tuple(columns), dtype, label is not None, has_split, class_names)


def usual_length(batches: Iterable[Any]) -> int:
    """Return how many logits most lists of the first rows have; other lists are bad rows."""
    import pyarrow.compute as pc

    n_rows = 0
    for batch in batches:
        n_rows += len(batch)
        lengths = _array(pc.fill_null(pc.list_value_length(batch[LIST_COLUMN]), 0))
        sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
        if sizes.size:
            return int(sizes[counts.argmax()])
    if not n_rows:
        raise InputError(NO_ROWS)
    raise InputError(
        f"the lists of {LIST_COLUMN} are empty or null in all rows; expected one logit for each "
        "class."
    )


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
        with _parquet(table, file) as opened:
            facts = opened.metadata
            counts = [facts.row_group(i).num_rows for i in range(facts.num_row_groups)]
        return [Piece(file, folders, i, count) for i, count in enumerate(counts)]

    with ThreadPoolExecutor(N_READERS) as pool:
        found = pool.map(lambda each: pieces(*each), table.files.items())
        return [piece for some in found for piece in some]


def read_batches(table: Table, pieces: Sequence[Piece], n_rows: int) -> Iterator[Any]:
    """Give the rows of some pieces as Arrow batches, whose types are those of the table."""
    for file, some in groupby(pieces, key=lambda piece: piece.file):
        groups = list(some)
        folders = groups[0].folders
        columns = [name for name in table.types if name not in folders]
        with _parquet(table, file) as opened:
            batches = opened.iter_batches(n_rows, [each.row_group for each in groups], columns)
            while (batch := _next(batches, file)) is not None:
                yield _typed(batch, table.types, folders, file)


def _parquet(table: Table, file: str) -> Any:
    import pyarrow.parquet as pq

    try:
        # By its name, a local file is read without Python.
        source = table.storage.open(file, "rb", block_size=BUFFER) if table.is_remote else file
        return pq.ParquetFile(source, buffer_size=BUFFER)
    except Exception as error:  # each storage has its own, and a broken file almost any
        raise _unreadable(file, error) from error


def _next(batches: Iterator[Any], file: str) -> Any:
    try:
        return next(batches, None)
    except Exception as error:
        raise _unreadable(file, error) from error


def _typed(batch: Any, types: Types, folders: dict[str, str | None], file: str) -> Any:
    """Return a batch with the types of its table, and what the names of folders say."""
    import pyarrow as pa

    columns = []
    for name, kind in types.items():
        if name in folders:
            values = pa.repeat(pa.scalar(folders[name], pa.string()), len(batch))
        else:
            values = batch[name]
        if is_uuid(kind) and not is_uuid(values.type):
            values = pa.ExtensionArray.from_storage(kind, values)
        try:
            columns.append(values if values.type == kind else values.cast(kind))
        except pa.ArrowInvalid as error:
            raise _unreadable(file, error) from error
    return pa.record_batch(columns, names=list(types))


def _unreadable(file: str, error: Exception) -> Exception:
    if isinstance(error, MemoryError):
        return error
    return InputError(f"{file} cannot be read as Parquet ({first_line(error)}).")


# Rows


@dataclass(frozen=True)
class NodeRows:
    """Rows of the nodes' table as arrays."""

    ids: Any  # Arrow
    logits: FloatArray  # (n, n_classes)
    labels: IntArray  # -1 where unknown
    splits: IntArray  # numbers of SPLITS
    reasons: IntArray  # why a row cannot be used, by its number in REASONS; -1 if it can

    def good(self) -> NodeRows:
        """Return the rows that can be used."""
        kept = self.reasons < 0
        if kept.all():
            return self
        ids = self.ids.take(np.flatnonzero(kept))
        labels, splits, reasons = (v[kept] for v in (self.labels, self.splits, self.reasons))
        return NodeRows(ids, self.logits[kept], labels, splits, reasons)


def read_rows(batch: Any, layout: Layout, *, fits: bool) -> NodeRows:
    """Return the rows of an Arrow batch as arrays, and say which of them cannot be used."""
    logits, labels, splits = _logits(batch, layout), _labels(batch, layout), _splits(batch, layout)
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(logits.sum(axis=1))  # quick; a sum may overflow as well
    is_finite[~is_finite] = np.isfinite(logits[~is_finite]).all(axis=1)
    needs_label = (splits == VAL) & fits
    wrong = (_array(batch["id"].is_null()), ~is_finite, labels < -1, splits < -1)
    reasons = np.select([*wrong, needs_label & (labels == -1)], range(len(REASONS)), -1)
    return NodeRows(batch["id"], logits, labels, splits, reasons.astype(np.int8))


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
    """Return the classes (int32), -1 where unknown and -2 where it cannot be a label."""
    if not layout.has_label:
        return np.full(len(batch), -1, dtype=np.int32)
    values = batch["label"]
    if kind_of(values.type) == TEXT:
        return _codes(values, layout.class_names or []).astype(np.int32)
    numbers = _numbers(values, np.float64)
    numbers[np.isnan(numbers)] = -1.0  # null, and what pandas has where a number is missing
    is_class = (numbers >= -1) & (numbers < layout.n_classes) & (numbers == np.floor(numbers))
    return np.where(is_class, numbers, -2).astype(np.int32)


def _splits(batch: Any, layout: Layout) -> IntArray:
    """Return the numbers of the splits, -1 without one and -2 for another word."""
    if not layout.has_split:
        return np.full(len(batch), -1, dtype=np.int8)
    return _codes(batch["split"], SPLITS).astype(np.int8)


def _codes(values: Any, words: Sequence[str]) -> IntArray:
    """Return the place of each text among some words, -1 for null and -2 for another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.fill_null(pc.index_in(values, pa.array(words, pa.string())), -2)
    return np.where(_array(values.is_null()), -1, _array(codes))


def _numbers(values: Any, dtype: Any) -> FloatArray:
    """Return Arrow numbers as an array, NaN for null."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    found = _array(values.cast(pa.from_numpy_dtype(dtype), safe=False))
    return found if found.flags.writeable else found.copy()


def _array(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)
