"""The tables that are read: which columns they have, and the same names for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnncal.core.errors import InputError
from gnncal.files.parquet import class_names_in

LIST_COLUMN = "logits"  # one list of K numbers for each node, instead of z0..zK-1
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Layout:
    """What the nodes' table looks like."""

    n_classes: int
    is_list: bool  # logits in one list column, not in K columns
    has_label: bool
    has_split: bool
    class_names: list[str] | None = None


def is_remote(source: str) -> bool:
    """Return whether a source is on object storage and left to the engine to find."""
    return "://" in source


def check_source(source: str, what: str) -> str:
    """The source as text; a local one must be a file, a folder with Parquet files, or a glob."""
    if is_remote(source):
        return source
    if not local_files(source):
        raise InputError(
            f"there are no Parquet files for {what} at {source}; pass a file, a folder or a glob "
            "such as 'part-*.parquet'."
        )
    return source


def local_files(source: str) -> list[Path]:
    """Return the files of a local source, sorted."""
    path = Path(source)
    if path.is_dir():
        return sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if path.is_file():
        return [path]
    anchor = Path(path.anchor) if path.is_absolute() else Path()
    pattern = str(path.relative_to(path.anchor)) if path.is_absolute() else str(path)
    if not any(sign in pattern for sign in "*?["):
        return []
    return sorted(file for file in anchor.glob(pattern) if file.is_file())


def class_names_of(source: str) -> list[str] | None:
    """Return the class names in the metadata of the first file's schema, as bundles have them."""
    import pyarrow.parquet as pq

    if is_remote(source):
        return None
    return class_names_in(pq.read_schema(local_files(source)[0]), source)


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
        if kind.is_string() != wanted.is_string() or not (kind.is_string() or _is_whole(kind)):
            raise InputError(
                f"the column {name} of the edges is of type {kind} but id is of type {wanted}; use "
                "one type, whole numbers or text."
            )
    return edges.select("src", "dst")


def numbered_classes(nodes: Any) -> int:
    """K if the logits are in the columns z0..zK-1, 0 if there is a list column instead."""
    if "id" not in nodes.columns:
        raise InputError(f"the nodes lack the column id; they have {_few(nodes.columns)}.")
    kind = nodes.schema()["id"]
    if not (kind.is_string() or _is_whole(kind)):
        raise InputError(f"the column id is of type {kind}; use whole numbers or text.")
    numbers = sorted(int(n[1:]) for n in nodes.columns if n[:1] == "z" and n[1:].isdigit())
    if numbers and LIST_COLUMN in nodes.columns:
        raise InputError(
            f"the nodes have z columns and the column {LIST_COLUMN}; keep one of the two."
        )
    if LIST_COLUMN in nodes.columns:
        if not nodes.schema()[LIST_COLUMN].is_array():
            raise InputError(
                f"the column {LIST_COLUMN} is of type {nodes.schema()[LIST_COLUMN]}; expected a "
                "list of numbers."
            )
        return 0
    if numbers != list(range(len(numbers))) or len(numbers) < 2:
        raise InputError(
            f"the nodes need the columns z0, z1, ... without gaps, or one list column "
            f"{LIST_COLUMN}; they have {_few(nodes.columns)}."
        )
    return len(numbers)


def _is_whole(kind: Any) -> bool:
    """Whole numbers; Spark reads unsigned ones of 64 bits as decimals without a fraction."""
    return kind.is_integer() or (kind.is_decimal() and kind.scale == 0)


def _few(columns: Any, limit: int = 12) -> str:
    names = list(columns)
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
