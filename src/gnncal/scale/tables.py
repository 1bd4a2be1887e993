"""The two tables: which columns they have, which rows can be used, and the same arrays for all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_names_are_no_numbers
from gnncal.data.errors import LONGEST_VALUE, InputError
from gnncal.files.tables import is_uuid, numbered_columns

LIST_COLUMN = "logits"  # one list of K numbers for each node, instead of z0..zK-1
SPLITS = ("train", "val", "test")  # a node has the number of its split, -1 without one
TRAIN, VAL, TEST = range(len(SPLITS))
NODE_COLUMNS = ("id", "label", "split", LIST_COLUMN)  # next to z0..zK-1
EDGE_COLUMNS = ("src", "dst")
MOST_NAMES = 12  # of columns, in a sentence
N_EXAMPLES = 3
LOGIT_COLUMN = re.compile("z[0-9]+")
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


@dataclass(frozen=True)
class Layout:
    """What the nodes' table looks like."""

    n_classes: int
    logits: tuple[str, ...]  # the K columns in the order of the classes; none if they are in a list
    is_narrow: bool  # whether logits are float32
    has_label: bool
    has_split: bool
    class_names: list[str] | None = None

    @property
    def dtype(self) -> Any:
        """The type of the logits, and so of all that is computed for each class."""
        return np.dtype(np.float32 if self.is_narrow else np.float64)


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
        import pyarrow as pa

        ids = self.ids.filter(pa.array(kept))
        labels, splits, reasons = (v[kept] for v in (self.labels, self.splits, self.reasons))
        return NodeRows(ids, self.logits[kept], labels, splits, reasons)


@dataclass(frozen=True)
class BadRows:
    """Rows of one table that cannot be used for one reason."""

    table: str  # nodes or edges
    reason: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        what = "ids" if self.table == "nodes" else "edges"
        shown = ", ".join(self.examples)
        return f"{self.count:,} rows of the {self.table}: {self.reason} ({what} {shown})"


class BadRowCount:
    """Counts bad rows while tables are read, and keeps the first examples."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}

    def add(self, table: str, reason: str, count: int, examples: Sequence[Any]) -> None:
        """Count more rows of a kind; an example is an id, or the two ends of an edge."""
        before, known = self.found.get((table, reason), (0, ()))
        texts = [
            " -> ".join(map(_text, each)) if isinstance(each, tuple) else _text(each)
            for each in examples[: N_EXAMPLES - len(known)]
        ]
        self.found[table, reason] = before + count, (*known, *texts)

    def add_nodes(self, rows: NodeRows) -> None:
        """Count rows by their reasons."""
        for number in np.unique(rows.reasons[rows.reasons >= 0]):
            places = np.flatnonzero(rows.reasons == number)
            examples = rows.ids.take(places[:N_EXAMPLES]).to_pylist()
            self.add("nodes", REASONS[number], places.size, examples)

    @property
    def rows(self) -> list[BadRows]:
        """Everything that was found, the nodes' reasons in their order."""
        order = (*REASONS, DUPLICATE, NULL_END, NO_NODE)
        keys = sorted(self.found, key=lambda key: order.index(key[1]))
        return [BadRows(*key, *self.found[key]) for key in keys]

    def refuse(self) -> None:
        """Raise one InputError that says everything, unless nothing is wrong."""
        if self.found:
            raise InputError(
                f"{'; '.join(map(str, self.rows))}. Correct them, or pass --skip-bad "
                "(skip_bad=True) to leave such rows out."
            )


def is_of_nodes(name: str) -> bool:
    """Return whether a column of the nodes' table is used."""
    return name in NODE_COLUMNS or LOGIT_COLUMN.fullmatch(name) is not None


def is_of_edges(name: str) -> bool:
    """Return whether a column of the edges' table is used."""
    return name in EDGE_COLUMNS


def check_edges(edges: Types, nodes: Types) -> None:
    """Raise unless the columns src and dst of the edges have the type of the ids."""
    missing = [name for name in EDGE_COLUMNS if name not in edges]
    if missing:
        raise InputError(
            f"the edges lack the columns {', '.join(missing)}; they have {_few(edges)}."
        )
    wanted = nodes["id"]
    for name in EDGE_COLUMNS:
        if kind_of_id(edges[name]) is None or kind_of_id(edges[name]) != kind_of_id(wanted):
            raise InputError(
                f"the column {name} of the edges is of type {type_name(edges[name])} but id is of "
                f"type {type_name(wanted)}; use one type, whole numbers, text or UUIDs."
            )


def check_nodes(kinds: Types, *, fits: bool) -> list[str]:
    """Return the columns of the logits by class, none if they are in a list."""
    if "id" not in kinds:
        raise InputError(f"the nodes lack the column id; they have {_few(kinds)}.")
    if kind_of_id(kinds["id"]) is None:
        raise InputError(
            f"the column id is of type {type_name(kinds['id'])}; use whole numbers, text or UUIDs."
        )
    columns = _logit_columns(kinds)
    _check_label_and_split(kinds, fits=fits)
    return columns


def layout_of(
    kinds: Types, columns: list[str], n_classes: int, class_names: list[str] | None
) -> Layout:
    """Return how the nodes' table is laid out, if labels and names fit the classes."""
    import pyarrow as pa

    if n_classes == 1:
        raise InputError(
            "the nodes have one logit each, so one class; at least two are expected. For a "
            "sigmoid model with logit z, write 0 as z0 and z as z1."
        )
    label = kinds.get("label")
    if label is not None and pa.types.is_boolean(label) and n_classes != 2:
        raise InputError(
            f"the column label is of type boolean but there are {n_classes} classes; use whole "
            "numbers 0, 1, ... or class names."
        )
    if class_names is not None and not len(set(class_names)) == len(class_names) == n_classes:
        raise InputError(
            f"class_names has {len(class_names)} names but there are {n_classes} classes; name "
            "each class once."
        )
    if label is not None and pa.types.is_string(label) and class_names is None:
        raise InputError(
            "labels are names but nothing says which logit each class has; write class_names.json "
            "next to the nodes, a list in the order of the logits, or schema metadata class_names."
        )
    if label is not None and not pa.types.is_string(label):
        check_names_are_no_numbers(class_names or [], "class_names")
    logits = [kinds[name] for name in columns] or [kinds[LIST_COLUMN].value_type]
    is_narrow = all(pa.types.is_float32(kind) for kind in logits)
    has_split = "split" in kinds
    return Layout(n_classes, tuple(columns), is_narrow, label is not None, has_split, class_names)


def usual_length(lengths: Mapping[int | None, int]) -> int:
    """Return how many logits most lists have; lists of another length are bad rows."""
    if not lengths:
        raise InputError(NO_ROWS)
    usable = {size: n for size, n in lengths.items() if (size or 0) > 0}
    if not usable:
        raise InputError(
            f"the lists of {LIST_COLUMN} are empty or null in all rows; expected one logit for "
            "each class."
        )
    return int(min(usable, key=lambda size: (-usable[size], size)) or 0)


def kind_of_id(kind: Any) -> str | None:
    """Return what ids of this type are: whole numbers, text or UUIDs; None if no ids."""
    import pyarrow as pa

    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "whole numbers"
    if pa.types.is_string(kind):
        return "text"
    return "UUIDs" if is_uuid(kind) else None


def type_name(kind: Any) -> str:
    """Return what a sentence calls an Arrow type."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    names = {"double": "float64", "float": "float32", "bool": "boolean", "date32[day]": "date"}
    return names.get(str(kind), str(kind))


def as_uuids(texts: Any) -> Any:
    """Return an Arrow column of UUIDs from their texts, as engines hand them over."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = "".join(pc.replace_substring(texts, "-", "").to_pylist())
    buffers = [None, pa.py_buffer(bytes.fromhex(digits))]
    storage = pa.Array.from_buffers(pa.binary(16), len(texts), buffers)
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def read_rows(batch: Any, layout: Layout, *, fits: bool) -> NodeRows:
    """Return the rows of an Arrow batch as arrays, and say which of them cannot be used."""
    logits = _logits(batch, layout)
    labels, splits = _labels(batch, layout), _splits(batch, layout)
    reasons = np.full(len(logits), -1, dtype=np.int8)
    needs_label = (splits == VAL) & fits
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(logits.sum(axis=1))  # quick; a sum may overflow as well
    if not is_finite.all():
        is_finite[~is_finite] = np.isfinite(logits[~is_finite]).all(axis=1)
    wrong = (
        _mask(batch["id"].is_null()),
        ~is_finite,
        labels < -1,
        splits < -1,
        needs_label & (labels == -1),
    )
    for number in reversed(range(len(wrong))):  # the first reason counts
        reasons[wrong[number]] = number
    return NodeRows(batch["id"], logits, labels, splits, reasons)


def _logits(batch: Any, layout: Layout) -> FloatArray:
    """Return the logits (n, n_classes), NaN in rows without as many numbers."""
    import pyarrow.compute as pc

    n_rows, K = batch.num_rows, layout.n_classes
    if layout.logits:
        columns = [_numbers(batch[name], layout.dtype) for name in layout.logits]
        return np.array(columns).T.copy()
    lists = batch[LIST_COLUMN]
    has_all = _mask(pc.fill_null(pc.equal(pc.list_value_length(lists), K), False))
    values = _numbers(
        lists.filter(pc.equal(pc.list_value_length(lists), K)).flatten(), layout.dtype
    )
    if has_all.all():
        return values.reshape(n_rows, K)
    matrix = np.full((n_rows, K), np.nan, dtype=layout.dtype)
    matrix[has_all] = values.reshape(-1, K)
    return matrix


def _labels(batch: Any, layout: Layout) -> IntArray:
    """Return the classes (int32), -1 where unknown and -2 where it cannot be a label."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not layout.has_label:
        return np.full(batch.num_rows, -1, dtype=np.int32)
    values = batch["label"]
    if pa.types.is_string(values.type):
        places = pc.index_in(values, pa.array(layout.class_names or [], pa.string()))
        codes = _numbers(pc.fill_null(places, -2), np.dtype(np.float64))
        codes[_mask(values.is_null())] = -1
        return codes.astype(np.int32)
    numbers = _numbers(values, np.dtype(np.float64))
    numbers[np.isnan(numbers)] = -1.0  # null, and what pandas has where a number is missing
    is_class = (numbers >= -1) & (numbers < layout.n_classes) & (numbers == np.floor(numbers))
    return np.where(is_class, numbers, -2).astype(np.int32)


def _splits(batch: Any, layout: Layout) -> IntArray:
    """Return the numbers of the splits, -1 without one and -2 for another word."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not layout.has_split or pa.types.is_null(batch["split"].type):
        return np.full(batch.num_rows, -1, dtype=np.int8)
    values = batch["split"]
    codes = pc.fill_null(pc.index_in(values, pa.array(SPLITS)), -2)
    codes = codes.to_numpy(zero_copy_only=False).astype(np.int8)
    codes[_mask(values.is_null())] = -1
    return codes


def _numbers(values: Any, dtype: Any) -> FloatArray:
    """Return Arrow numbers as an array, NaN for null."""
    import pyarrow as pa

    wanted = pa.float32() if dtype == np.float32 else pa.float64()
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if values.type != wanted:
        values = values.cast(wanted, safe=False)
    found = values.to_numpy(zero_copy_only=False)
    return found if found.flags.writeable else found.copy()


def _mask(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)


def _logit_columns(kinds: Types) -> list[str]:
    import pyarrow as pa

    columns = numbered_columns(kinds, "z", "the nodes")
    if columns and LIST_COLUMN in kinds:
        raise InputError(
            f"the nodes have z columns and the column {LIST_COLUMN}; keep one of the two."
        )
    if LIST_COLUMN in kinds:
        kind = kinds[LIST_COLUMN]
        if not pa.types.is_list(kind) or not _is_number(kind.value_type):
            raise InputError(
                f"the column {LIST_COLUMN} is of type {type_name(kind)}; expected a list of K "
                "numbers for each node."
            )
    elif not columns:
        raise InputError(
            f"the nodes need the columns z0, z1, ... without gaps, or one list column "
            f"{LIST_COLUMN}; they have {_few(kinds)}."
        )
    for name in columns:
        if not _is_number(kinds[name]):
            raise InputError(
                f"the column {name} of the nodes is of type {type_name(kinds[name])}; logits are "
                "numbers, so convert it first."
            )
    return columns


def _check_label_and_split(kinds: Types, *, fits: bool) -> None:
    import pyarrow as pa

    missing = [name for name in ("label", "split") if name not in kinds]
    if missing and fits:
        raise InputError(
            f"the nodes have no column {' and no column '.join(missing)}, so nothing can be "
            f"fitted; they have {_few(kinds)}. Add label (the class) and split ('val' for "
            "calibration nodes), or apply a fitted calibrator with --calibrator (calibrator=)."
        )
    label, split = kinds.get("label"), kinds.get("split")
    is_text = pa.types.is_string
    if not (label is None or pa.types.is_boolean(label) or is_text(label) or _is_number(label)):
        raise InputError(
            f"the column label is of type {type_name(label)}; use whole numbers 0, 1, ... or class "
            "names."
        )
    if not (split is None or is_text(split) or pa.types.is_null(split)):
        raise InputError(
            f"the column split is of type {type_name(split)}; expected the text "
            f"{', '.join(SPLITS)} or null."
        )


def _is_number(kind: Any) -> bool:
    """Return whether values are numbers; a column that holds nothing but nulls may have been."""
    from pyarrow import types

    is_any = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(is_one(kind) for is_one in is_any)


def _few(columns: Types) -> str:
    names = list(columns)
    return ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
