"""What a column holds, in the user's words, and what two files of one column have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gnncal.core.errors import require

NOTHING, WHOLE, NUMBERS, TEXT, UUIDS = "nothing", "whole numbers", "numbers", "text", "UUIDs"
LISTS = "lists of "


def plain_type(kind: Any) -> Any:
    """Return the Arrow type without what only says how values are stored."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    types = pa.types
    while types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def kind_of(kind: Any) -> str:
    """Return what a column of this plain type holds."""
    types = require("pyarrow", extra="parquet", purpose="reading Parquet").types
    if types.is_null(kind):
        return NOTHING
    if types.is_integer(kind):
        return WHOLE
    if types.is_floating(kind) or types.is_decimal(kind):
        return NUMBERS
    if types.is_string(kind):
        return TEXT
    if types.is_list(kind):
        return LISTS + kind_of(kind.value_type)
    return UUIDS if is_uuid(kind) else str(kind)


def is_uuid(kind: Any) -> bool:
    """Return whether an Arrow type is that of UUIDs."""
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def common_kind(kinds: Iterable[str]) -> str | None:
    """Return what all files hold: nothing goes with anything, whole numbers with numbers.

    None means that they have nothing in common.
    """
    distinct = set(kinds)
    if len(distinct) > 1:
        distinct.discard(NOTHING)
    if len(distinct) == 1:
        return distinct.pop()
    if distinct == {WHOLE, NUMBERS}:
        return NUMBERS
    if all(kind.startswith(LISTS) for kind in distinct):
        inner = common_kind(kind.removeprefix(LISTS) for kind in distinct)
        return None if inner is None else LISTS + inner
    return None


def common_type(kinds: Iterable[Any]) -> Any:
    """Return the plain Arrow type that keeps every value of columns with a common kind."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    distinct = set(kinds)
    if len(distinct) == 1:
        return distinct.pop()
    distinct.discard(pa.null())
    if len(distinct) == 1:
        return distinct.pop()
    shared = common_kind(kind_of(kind) for kind in distinct)
    if shared == NUMBERS:
        return pa.float64()
    if shared == WHOLE:
        if pa.uint64() not in distinct:
            return pa.int64()
        signed = any(pa.types.is_signed_integer(kind) for kind in distinct)
        return pa.decimal128(20, 0) if signed else pa.uint64()
    return pa.list_(common_type(kind.value_type for kind in distinct))
