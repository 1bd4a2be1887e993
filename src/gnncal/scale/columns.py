"""The tables that are read: which columns they have, and the same names for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gnncal.data.errors import InputError
from gnncal.files.tables import numbered_columns

LIST_COLUMN = "logits"  # one list of K numbers for each node, instead of z0..zK-1
SPLITS = ("train", "val", "test")
NODE_COLUMNS = ("id", "label", "split", LIST_COLUMN)  # beside z0..zK-1
EDGE_COLUMNS = ("src", "dst")
MOST_NAMES = 12  # of columns, in a sentence
LOGIT_COLUMN = re.compile("z[0-9]+")


@dataclass(frozen=True)
class Layout:
    """What the nodes' table looks like."""

    n_classes: int
    logits: tuple[str, ...]  # the K columns in the order of the classes; none if they are in a list
    has_label: bool
    has_split: bool
    class_names: list[str] | None = None


def is_of_nodes(name: str) -> bool:
    """Return whether a column of the nodes' table is used."""
    return name in NODE_COLUMNS or LOGIT_COLUMN.fullmatch(name) is not None


def is_of_edges(name: str) -> bool:
    """Return whether a column of the edges' table is used."""
    return name in EDGE_COLUMNS


def check_edges(edges: Any, nodes: Any) -> Any:
    """Return the columns src and dst of the edges' table, whose type is that of the ids."""
    missing = [name for name in ("src", "dst") if name not in edges.columns]
    if missing:
        raise InputError(
            f"the edges lack the columns {', '.join(missing)}; they have {_few(edges.columns)}."
        )
    wanted = nodes.schema()["id"]
    for name in ("src", "dst"):
        kind = edges.schema()[name]
        if kind_of_id(kind) is None or kind_of_id(kind) != kind_of_id(wanted):
            raise InputError(
                f"the column {name} of the edges is of type {kind} but id is of type {wanted}; use "
                "one type, whole numbers, text or UUIDs."
            )
    return edges.select("src", "dst")


def check_nodes(nodes: Any, *, fits: bool) -> list[str]:
    """Return the columns of the logits by class, none if they are in a list."""
    kinds = nodes.schema()
    if "id" not in kinds:
        raise InputError(f"the nodes lack the column id; they have {_few(kinds)}.")
    if kind_of_id(kinds["id"]) is None:
        raise InputError(
            f"the column id is of type {kinds['id']}; use whole numbers, text or UUIDs."
        )
    columns = _logit_columns(kinds)
    _check_label_and_split(kinds, fits=fits)
    return columns


def check_number_of_classes(kinds: Any, n_classes: int) -> None:
    """Refuse logits of one class, and labels of two values for more than two classes."""
    if n_classes == 1:
        raise InputError(
            "the nodes have one logit each, so one class; at least two are expected. For a "
            "sigmoid model with logit z, write 0 as z0 and z as z1."
        )
    if "label" in kinds and kinds["label"].is_boolean() and n_classes != 2:
        raise InputError(
            f"the column label is of type boolean but there are {n_classes} classes; use whole "
            "numbers 0, 1, ... or class names."
        )


def kind_of_id(kind: Any) -> str | None:
    """Return what ids of this type are: whole numbers, text or UUIDs; None if they cannot be
    ids."""
    if kind.is_integer() or (kind.is_decimal() and kind.scale == 0):
        return "whole numbers"
    if kind.is_string():
        return "text"
    return "UUIDs" if kind.is_uuid() else None


def _logit_columns(kinds: Any) -> list[str]:
    columns = numbered_columns(kinds, "z", "the nodes")
    if columns and LIST_COLUMN in kinds:
        raise InputError(
            f"the nodes have z columns and the column {LIST_COLUMN}; keep one of the two."
        )
    if LIST_COLUMN in kinds:
        kind = kinds[LIST_COLUMN]
        if not kind.is_array() or not _is_number(kind.value_type):
            raise InputError(
                f"the column {LIST_COLUMN} is of type {kind}; expected a list of K numbers for "
                "each node."
            )
    elif not columns:
        raise InputError(
            f"the nodes need the columns z0, z1, ... without gaps, or one list column "
            f"{LIST_COLUMN}; they have {_few(kinds)}."
        )
    for name in columns:
        if not _is_number(kinds[name]):
            raise InputError(
                f"the column {name} of the nodes is of type {kinds[name]}; logits are numbers, so "
                "convert it first."
            )
    return columns


def _check_label_and_split(kinds: Any, *, fits: bool) -> None:
    missing = [name for name in ("label", "split") if name not in kinds]
    if missing and fits:
        raise InputError(
            f"the nodes have no column {' and no column '.join(missing)}, so nothing can be "
            f"fitted; they have {_few(kinds)}. Add label (the class) and split ('val' for "
            "calibration nodes), or apply a fitted calibrator with --calibrator (calibrator=)."
        )
    label, split = kinds.get("label"), kinds.get("split")
    if label is not None and not (label.is_boolean() or label.is_string() or _is_number(label)):
        raise InputError(
            f"the column label is of type {label}; use whole numbers 0, 1, ... or class names."
        )
    if split is not None and not (split.is_string() or split.is_null()):
        raise InputError(
            f"the column split is of type {split}; expected the text {', '.join(SPLITS)} or null."
        )


def _is_number(kind: Any) -> bool:
    """Return whether values are numbers; a column that holds nothing but nulls may have been."""
    return kind.is_integer() or kind.is_floating() or kind.is_decimal() or kind.is_null()


def _few(columns: Any) -> str:
    names = list(columns)
    return ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
