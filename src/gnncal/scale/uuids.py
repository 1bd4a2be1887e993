"""UUIDs on Spark, which has no such type: they are read as text, and written as UUIDs again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

GROUPS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def uuid_columns(schema: Any) -> list[str]:
    """Return the columns of an Arrow schema that hold UUIDs."""
    return [
        field.name
        for field in schema
        if getattr(field.type, "extension_name", None) == "arrow.uuid"
    ]


def spark_schema(schema: Any) -> Any:
    """Return what Spark is told to read: without it, Spark refuses a file that has UUIDs."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    for name in uuid_columns(schema):
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.binary()))
    return from_arrow_schema(schema)


def as_text(rows: Any, columns: list[str]) -> Any:
    """Return Spark's rows with 16 bytes as text such as 6f0c...-....; ``columns`` are changed."""
    from pyspark.sql import functions

    for name in columns:
        digits = functions.lower(functions.hex(functions.col(name)))
        rows = rows.withColumn(name, functions.regexp_replace(digits, GROUPS, "$1-$2-$3-$4-$5"))
    return rows


def restore_uuids(folder: Path, column: str) -> None:
    """Write the Parquet files of a folder again, with the text of one column as UUIDs."""
    import pyarrow.parquet as pq

    for file in sorted(folder.glob("*.parquet")):
        partial = file.with_suffix(".partial")
        with pq.ParquetFile(file) as opened:
            place = opened.schema_arrow.get_field_index(column)
            parts = (_with_uuids(group, place) for group in _groups(opened))
            first = next(parts, _with_uuids(opened.schema_arrow.empty_table(), place))
            with pq.ParquetWriter(partial, first.schema, compression="zstd") as writer:
                writer.write_table(first)
                for part in parts:
                    writer.write_table(part)
        os.replace(partial, file)


def _groups(opened: Any) -> Any:
    return (opened.read_row_group(number) for number in range(opened.num_row_groups))


def _with_uuids(table: Any, place: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.replace_substring(table.column(place).combine_chunks(), "-", "")
    text = "".join(digits.to_pylist())
    storage = pa.Array.from_buffers(
        pa.binary(16), len(digits), [None, pa.py_buffer(bytes.fromhex(text))]
    )
    values = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    return table.set_column(place, table.schema.field(place).name, values)
