"""Spark: SQL joins and averages on the cluster, and its executors calibrate Arrow batches.

Intermediate tables are Parquet in the work folder, which the driver and all executors see.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.errors import InputError, require
from gnncal.files.tables import Table, first_line, is_uuid
from gnncal.scale.batches import Judge, Reach, Work, column_of, values_to_average
from gnncal.scale.engines import SAMPLE, Engine, EngineName, TableFiles, check_java, size_of
from gnncal.scale.measures import Degrees, Sums, Terms
from gnncal.scale.tables import (
    DUPLICATE,
    EDGE_COLUMNS,
    LIST_COLUMN,
    N_EXAMPLES,
    NO_NODE,
    NULL_END,
    REASONS,
    TEST,
    TRAIN,
    VAL,
    BadRowCount,
    Layout,
    Types,
    as_uuids,
    read_rows,
)

GROUPS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"  # of the digits of a UUID
PRIME = (1 << 31) - 1
TERM = "term_"  # prefix of what a node adds to the metrics


class Spark(Engine):
    """A cluster of Spark, or Spark on this machine."""

    name: EngineName = "spark"

    def __init__(self, work: Path, master: str | None, memory_limit: str | None) -> None:
        pyspark = require("pyspark", extra="spark", purpose="--engine spark")
        check_java()
        self.work = work
        builder = (
            pyspark.sql.SparkSession.builder.appName("gnncal scale")
            .config("spark.sql.ansi.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.showConsoleProgress", "false")
        )
        if master is not None:
            builder = builder.master(master)
        if memory_limit is not None:
            builder = builder.config("spark.driver.memory", f"{size_of(memory_limit) >> 20}m")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the executors, by its path
        self.was_running = pyspark.sql.SparkSession.getActiveSession() is not None
        try:
            with _own_handler():
                self.session = builder.getOrCreate()
        except Exception as error:  # whatever Java, the network or the settings raise
            raise InputError(
                f"Spark did not start ({first_line(error)}); check --master, --memory-limit and "
                "what Java says above."
            ) from error
        self.has_uuids = False

    # Reading

    def open(self, nodes: TableFiles, edges: TableFiles) -> tuple[Types, Types]:
        """Read both tables; an address in object storage is Spark's own business."""
        self.nodes, self.edges = (self._read(table) for table in (nodes, edges))
        return tuple(  # type: ignore[return-value]
            _types(rows) if isinstance(table, str) else table.types
            for table, rows in ((nodes, self.nodes), (edges, self.edges))
        )

    def _read(self, table: TableFiles) -> Any:
        with _readable(table if isinstance(table, str) else table.given):
            if isinstance(table, str):
                return self.session.read.parquet(table)
            parts = [self._read_group(table, group) for group in table.groups]
        rows = parts[0]
        for part in parts[1:]:
            rows = rows.unionByName(part)
        return rows

    def _read_group(self, table: Table, group: Any) -> Any:
        import pyarrow.parquet as pq
        from pyspark.sql import functions as F

        schema = pq.read_schema(group.files[0])
        uuids = [name for name in table.types if is_uuid(table.types[name])]
        reader = self.session.read
        if uuids:  # Spark has no such type and refuses a file that has it
            reader = reader.schema(_without_uuids(schema, uuids))
        rows = reader.parquet(*(_escaped(file) for file in group.files))
        for name in uuids:
            digits = F.lower(F.hex(F.col(name)))
            rows = rows.withColumn(name, F.regexp_replace(digits, GROUPS, "$1-$2-$3-$4-$5"))
        self.has_uuids |= "id" in uuids
        for name, value in group.folders.items():
            rows = rows.withColumn(name, F.lit(None if value is None else str(value)))
        for name in (*table.mixed, *group.folders):
            rows = rows.withColumn(name, F.col(f"`{name}`").cast(_spark_type(table.types[name])))
        return rows.select(*(f"`{name}`" for name in table.types))

    def list_lengths(self) -> dict[int | None, int]:
        """Count the lists by their length; that of null is -1."""
        from pyspark.sql import functions as F

        rows = self.nodes.groupBy(F.size(LIST_COLUMN).alias("size")).count().collect()
        return {row["size"]: row["count"] for row in rows}

    def _keep(self, name: str, rows: Any) -> Any:
        """Compute a table now and keep it as a folder of Parquet files."""
        folder = str(self.work / name)
        try:
            rows.write.mode("overwrite").parquet(folder)
        except Exception as error:  # what Python raises on an executor comes through Java
            if "No module named 'gnncal'" not in str(error):
                raise
            raise InputError(
                "the executors of Spark have no gnncal; install it there, and set PYSPARK_PYTHON "
                "to the path of their Python."
            ) from error
        return self.session.read.parquet(folder)

    # The nodes

    def load(self, layout: Layout, reach: Reach, bad: BadRowCount, *, fits: bool) -> None:
        """Check the rows on the executors, and keep the good ones."""
        from pyspark.sql import functions as F

        self.layout, self.reach = layout, reach
        number = "float" if layout.is_narrow else "double"
        kind = self.nodes.schema["id"].dataType.simpleString()
        schema = f"id {kind}, label int, split int, reason int, logits array<{number}>"
        if reach.hops:
            schema += f", prediction int, values array<{number}>"
        checked = self._keep(
            "checked", self.nodes.mapInArrow(_checked(layout, reach, fits=fits), schema)
        )
        counts = {
            (row["reason"], row["split"]): row["count"]
            for row in checked.groupBy("reason", "split").count().collect()
        }
        for number_of_reason, reason in enumerate(REASONS):
            count = sum(n for (each, _), n in counts.items() if each == number_of_reason)
            if count:
                few = checked.filter(F.col("reason") == number_of_reason).limit(N_EXAMPLES)
                examples = [row["id"] for row in few.select("id").collect()]
                bad.add("nodes", reason, count, examples)
        named = checked.filter(F.col("id").isNotNull()).groupBy("id").count()
        twice = named.filter(F.col("count") > 1)
        (found,) = twice.agg(F.sum("count")).collect()
        if found[0]:
            few = [row["id"] for row in twice.orderBy("id").limit(N_EXAMPLES).collect()]
            bad.add("nodes", DUPLICATE, found[0], few)
        good = checked.filter(F.col("reason") < 0).drop("reason")
        self.table = good.join(twice, "id", "left_anti") if found[0] else good
        self.n_nodes = self.table.count()
        self.has_test = any(each < 0 and split == TEST for each, split in counts)

    # The edges

    def join(self, bad: BadRowCount) -> None:
        """Join both ends of every edge with their nodes, and average by node."""
        from pyspark.sql import functions as F

        nodes, edges = self.table, self.edges.select(*EDGE_COLUMNS)
        both = [
            _end("dst", "src", 1),
            *([] if self.reach.side == "in" else [_end("src", "dst", 0)]),
        ]
        ends = edges.select(F.explode(F.array(*both))).select("col.*")
        rows = ends
        for end, needed in (("node", "prediction"), ("other", "values")):
            columns = [F.col("id").alias(end), *([needed] if self.reach.hops else [])]
            rows = rows.join(nodes.select(*columns), end)
        found = self._keep("neighbours", rows.groupBy("node").agg(*self._sums()))
        sums = [F.sum(name).alias(name) for name in ("in_degree", "turned")]
        (total,) = found.agg(*sums).collect()
        self.n_edges = int(total["in_degree"] or 0)
        if self.reach.hops == 2:
            self.is_undirected = not total["turned"]
            found = self._with_second_hop(ends, found)
        self._find_bad_edges(edges, bad)
        joined = nodes.drop("prediction", "values").join(
            found.drop("turned").withColumnRenamed("node", "id"), "id", "left"
        )
        joined = joined.fillna(dict.fromkeys(("in_degree", "out_degree", "self_loops"), 0))
        if self.reach.hops == 2:
            nothing = F.array_repeat(F.lit(0.0), self.layout.n_classes + 2)
            means = F.coalesce("means", nothing.cast(joined.schema["means"].dataType))
            joined = joined.withColumn("means", means)
        self.table = self._keep("table", joined)

    def _sums(self) -> list[Any]:
        """Return what is added up over the ends of edges at each node."""
        from pyspark.sql import functions as F

        is_inward, is_other = F.col("inward") == 1, F.col("node") != F.col("other")
        # A fingerprint of each edge less that of the edge turned around.
        there, back = (F.xxhash64(*pair) % PRIME for pair in (("node", "other"), ("other", "node")))
        sums = {
            "in_degree": F.sum("inward"),
            "out_degree": F.sum(1 - F.col("inward")),
            "self_loops": F.sum(F.when(is_other, 0).otherwise(F.col("inward"))),
            "turned": F.sum(F.when(is_inward, there - back)),
        }
        hops, side = self.reach.hops, self.reach.side
        if hops:
            of_class = F.element_at("values", F.col("prediction") + 1).cast("double")
            of_side = {"in": is_inward, "out": ~is_inward, "both": F.lit(True)}[side]
            name, counts = ("class_mean", of_side) if hops == 1 else ("support", is_inward)
            sums[name] = F.avg(F.when(is_other & counts, of_class))
        if hops == 2:
            values = (F.col("values")[k] for k in range(self.layout.n_classes + 2))
            means = F.array(*(F.avg(F.when(is_other, value)) for value in values))
            sums["means"] = means.cast(self.table.schema["values"].dataType)
        return [value.alias(name) for name, value in sums.items()]

    def _with_second_hop(self, ends: Any, found: Any) -> Any:
        """Add what the neighbours' means give to the predicted class of each node."""
        from pyspark.sql import functions as F

        ends = ends.filter(F.col("node") != F.col("other"))
        if self.is_undirected:  # then one end of each edge gives the same means
            ends = ends.filter(F.col("inward") == 1)
        own = self.table.select(F.col("id").alias("node"), "prediction")
        others = found.select(F.col("node").alias("other"), "means")
        rows = ends.join(own, "node").join(others, "other")
        of_class = F.element_at("means", F.col("prediction") + 1).cast("double")
        means = rows.groupBy("node").agg(F.avg(of_class).alias("class_mean"))
        return found.join(means, "node", "left")

    def _find_bad_edges(self, edges: Any, bad: BadRowCount) -> None:
        """Count edges with an end that is null or not a node, if some edges are missing."""
        from pyspark.sql import functions as F

        n_bad = edges.count() - self.n_edges
        if not n_bad:
            return
        is_null = F.col("src").isNull() | F.col("dst").isNull()
        ids, lost = self.table.select("id"), edges.filter(~is_null)
        lost = [lost.join(ids, lost[end] == ids["id"], "left_anti") for end in EDGE_COLUMNS]
        n_null = edges.filter(is_null).count()
        for reason, count, rows in (
            (NULL_END, n_null, edges.filter(is_null)),
            (NO_NODE, n_bad - n_null, lost[0].union(lost[1])),
        ):
            if count:
                few = rows.limit(N_EXAMPLES).collect()
                bad.add("edges", reason, count, [tuple(row) for row in few])

    # Batches

    def calibration_rows(self) -> Any:
        """Fetch the nodes of the split val."""
        from pyspark.sql import functions as F

        return _fetched(self.table.filter(F.col("split") == VAL))

    def sample(self) -> Any:
        """Fetch the nodes outside training whose hash is one of a few."""
        from pyspark.sql import functions as F

        among = self.table.filter(F.col("split") != TRAIN)
        every = max(1, -(-among.count() // SAMPLE))
        return _fetched(among.filter(F.pmod(F.xxhash64("id"), F.lit(every)) == 0))

    def degrees(self, judge: Judge) -> Degrees:
        """Count the in-degrees of the test nodes."""
        from pyspark.sql import functions as F

        split = TEST if judge.has_test else -1
        chosen = self.table.filter((F.col("label") >= 0) & (F.col("split") == split))
        rows = chosen.groupBy("in_degree").count().orderBy("in_degree").collect()
        degree, count = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
        return Degrees(degree, count)

    def run(self, work: Work, degrees: Degrees, folder: Path) -> Sums:
        """Calibrate on the executors; the terms of the metrics stand next to the result."""
        number = "float" if self.layout.is_narrow else "double"
        kinds = {"id": self.table.schema["id"].dataType.simpleString(), "prediction": "int"}
        kinds |= dict.fromkeys(work.columns(self.layout.n_classes), "double")
        kinds |= {name: "string" for name in kinds if name == "action"}
        kinds |= {name: number for name in kinds if re.fullmatch("p[0-9]+", name)}
        terms = {f"{TERM}degree": "bigint", **{f"{TERM}{name}": "double" for name in Terms.names}}
        schema = ", ".join(f"{name} {kind}" for name, kind in {**kinds, **terms}.items())
        finished = self._keep("finished", self.table.mapInArrow(_calibrated(work), schema))
        finished.select(*kinds).write.parquet(str(folder))
        for stray in [*folder.glob(".*"), *folder.glob("_*")]:
            stray.unlink()  # checksums and markers of Spark's own
        if self.has_uuids:
            restore_uuids(folder)
        judged = finished.filter(f"{TERM}degree IS NOT NULL").select(*terms)
        sums = Sums(degrees)
        for row in judged.mapInArrow(_summed(degrees), "sums binary").collect():
            with np.load(io.BytesIO(row["sums"])) as totals:
                sums.merge(dict(totals))
        return sums

    def progress(self) -> float | None:
        """Return how many of the tasks that Spark knows of are done."""
        tracker = self.session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        tasks = [(each.numCompletedTasks, each.numTasks) for each in stages if each is not None]
        done, total = (sum(each) for each in zip(*tasks, strict=True)) if tasks else (0, 0)
        return done / total if total else None

    def close(self) -> None:
        """Stop the session, unless it was there before."""
        if not self.was_running:
            self.session.stop()


def _end(node: str, other: str, inward: int) -> Any:
    from pyspark.sql import functions as F

    named = F.col(node).alias("node"), F.col(other).alias("other"), F.lit(inward).alias("inward")
    return F.struct(*named)


def _fetched(rows: Any) -> Any:
    return rows.toArrow().combine_chunks()


# What runs on the executors


def _checked(layout: Layout, reach: Reach, *, fits: bool) -> Callable[..., Iterator[Any]]:
    def check(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            rows = read_rows(batch, layout, fits=fits)
            columns = {
                "id": rows.ids,
                "label": rows.labels,
                "split": rows.splits.astype(np.int32),
                "reason": rows.reasons.astype(np.int32),
                "logits": column_of(rows.logits),
            }
            if reach.hops:
                usable = np.where(rows.reasons[:, None] < 0, rows.logits, rows.logits.dtype.type(0))
                columns["prediction"], values = values_to_average(usable)
                columns["values"] = column_of(values)
            yield pa.record_batch(columns)

    return check


def _calibrated(work: Work) -> Callable[..., Iterator[Any]]:
    def calibrate(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if not batch.num_rows:
                continue
            done = work(batch)
            columns = dict(done.columns)
            for name, values in {"degree": done.terms.degree, **done.terms.values}.items():
                spread = np.full(batch.num_rows, np.nan)
                spread[done.rows] = values
                kept = pa.array(spread, from_pandas=True)  # NaN becomes null
                columns[f"{TERM}{name}"] = kept.cast(pa.int64()) if name == "degree" else kept
            yield pa.record_batch(columns)

    return calibrate


def _summed(degrees: Degrees) -> Callable[..., Iterator[Any]]:
    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        sums = Sums(degrees)
        for batch in batches:
            values = {
                name.removeprefix(TERM): batch[name].to_numpy(zero_copy_only=False)
                for name in batch.schema.names
            }
            sums.add(Terms(values.pop("degree"), values))
        packed = io.BytesIO()
        np.savez_compressed(packed, **sums.totals)  # type: ignore[arg-type]
        yield pa.record_batch({"sums": pa.array([packed.getvalue()], pa.binary())})

    return add_up


# UUIDs and other things that Spark has not


def restore_uuids(folder: Path) -> None:
    """Write the Parquet files of a folder again, with the text of their ids as UUIDs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in sorted(folder.glob("*.parquet")):
        partial = file.with_suffix(".partial")
        with pq.ParquetFile(file) as opened:
            place = opened.schema_arrow.get_field_index("id")
            schema = opened.schema_arrow.set(place, pa.field("id", pa.uuid()))
            with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
                for batch in opened.iter_batches():
                    table = pa.Table.from_batches([batch])
                    uuids = as_uuids(table["id"].combine_chunks())
                    writer.write_table(table.set_column(place, "id", uuids).cast(schema))
        os.replace(partial, file)


def _without_uuids(schema: Any, uuids: list[str]) -> Any:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    for name in uuids:
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.binary()))
    return from_arrow_schema(schema)


def _types(rows: Any) -> Types:
    from pyspark.sql.pandas.types import to_arrow_schema

    from gnncal.files.tables import plain_type

    return {field.name: plain_type(field.type) for field in to_arrow_schema(rows.schema)}


def _spark_type(kind: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind)


@contextmanager
def _readable(given: str) -> Iterator[None]:
    """Say in one sentence which table Spark cannot read."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # Spark wraps Java's exceptions in its own
        raise InputError(f"{given} cannot be read as Parquet ({first_line(error)}).") from error


@contextmanager
def _own_handler() -> Iterator[None]:
    """Put back what Ctrl-C did before: Spark's handler talks to Java amid another conversation."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _escaped(name: str) -> str:
    """Return a name that Spark does not take for a pattern."""
    return "".join(f"\\{sign}" if sign in "{}[]*?\\" else sign for sign in name)
