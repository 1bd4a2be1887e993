"""Columns that stand in the names of folders: ``split=val/part-0.parquet``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gnncal.core.errors import require

WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)  # fits 64 bits, and no 007
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def partition_type(values: Iterable[str | None]) -> Any:
    """Return the Arrow type of a column whose values are the names of folders."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    texts = {value for value in values if value is not None}
    if all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        return pa.int64()
    if all(NUMBER.fullmatch(text) and not _is_code(text) for text in texts):
        return pa.float64()
    return pa.string()


def partition_value(text: str | None, kind: Any) -> Any:
    """Return a folder's text as a value of the column's type."""
    types = require("pyarrow", extra="parquet", purpose="reading Parquet").types
    if text is None:
        return None
    if types.is_integer(kind):
        return int(text)
    return float(text) if types.is_floating(kind) else text


def agrees(metadata: Any, name: str, text: str | None) -> bool:
    """Return whether a file's statistics prove that every row has what the folder says."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        columns = (group.column(i) for i in range(group.num_columns))
        facts = next((c.statistics for c in columns if c.path_in_schema == name), None)
        if facts is None or not facts.has_null_count:
            return False
        if text is None:
            if facts.null_count != group.num_rows:
                return False
        elif facts.null_count or not facts.has_min_max or not _both(facts, text):
            return False
    return True


def _both(facts: Any, text: str) -> bool:
    if isinstance(facts.min, str):
        return bool(facts.min == facts.max == text)
    is_number = isinstance(facts.min, int | float) and not isinstance(facts.min, bool)
    return bool(
        is_number and NUMBER.fullmatch(text) and facts.min == facts.max == _exact(text, facts.min)
    )


def _exact(text: str, like: int | float) -> int | float:
    is_whole = isinstance(like, int) and WHOLE_NUMBER.fullmatch(text)
    return int(text) if is_whole else float(text)


def _is_code(text: str) -> bool:
    """Numbers with a leading zero and no fraction are codes, such as 007; so are very long ones."""
    return text.lstrip("+-").isdigit()
