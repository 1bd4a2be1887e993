"""Spark: SQL joins and averages on the cluster, and its executors read and calibrate Arrow batches.

Intermediate tables are Parquet in the work folder, which the driver and all executors see.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from gnncal.data.errors import InputError, MissingExtraError, require
from gnncal.files.tables import Table, first_line, is_uuid
from gnncal.scale.batches import SAMPLE, Reach, Work, column_of, values_to_average
from gnncal.scale.measures import Degrees, Sums
from gnncal.scale.tables import (
    DUPLICATE,
    ENDS,
    N_EXAMPLES,
    NO_NODE,
    NULL_END,
    REASONS,
    TEST,
    TRAIN,
    VAL,
    BadRows,
    Layout,
    pieces_of,
    read_batches,
    read_rows,
)

PRIME = (1 << 31) - 1
VALUES_AT_ONCE = 1 << 18  # numbers of a batch that an executor hands over
TASKS_PER_CORE = 4
COUNTS = ("in_degree", "out_degree", "self_loops")


class Spark:
    """A cluster of Spark, or Spark on this machine."""

    name = "spark"
    n_nodes = n_edges = 0
    is_undirected: bool | None = None

    def __init__(
        self, nodes: Table, edges: Table, work: Path, memory: int | None, master: str | None
    ) -> None:
        pyspark = require("pyspark", extra="spark", purpose="--engine spark")
        check_java()
        self.node_table, self.edge_table, self.work = nodes, edges, work
        builder = (
            pyspark.sql.SparkSession.builder.appName("gnncal scale")
            .config("spark.sql.ansi.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.showConsoleProgress", "false")
        )
        if master is not None:
            builder = builder.master(master)
        if memory is not None:
            builder = builder.config("spark.driver.memory", f"{memory >> 20}m")
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

    def _read(self, table: Table, columns_of: Callable[[Any], Any], schema: str, width: int) -> Any:
        """Let the executors read a table, batch by batch through a function."""
        pieces, n_rows = pieces_of(table), max(1, VALUES_AT_ONCE // width)
        n_tasks = TASKS_PER_CORE * self.session.sparkContext.defaultParallelism

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                some = [pieces[number] for number in batch["id"].to_pylist()]
                yield from map(columns_of, read_batches(table, some, n_rows))

        numbers = self.session.range(0, len(pieces), 1, max(1, min(len(pieces), n_tasks)))
        return numbers.mapInArrow(read, schema)

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

    def load(self, layout: Layout, reach: Reach, bad: BadRows, *, fits: bool) -> None:
        """Check the rows on the executors, and keep the good ones."""
        from pyspark.sql import functions as F

        self.layout, self.reach = layout, reach
        number = "float" if layout.dtype == np.float32 else "double"
        schema = f"id {_sql_type(self.node_table.types['id'])}, label int, split int, reason int"
        schema += f", logits array<{number}>"
        if reach.hops:
            schema += f", prediction int, values array<{number}>"

        def check(batch: Any) -> Any:
            import pyarrow as pa

            rows = read_rows(batch, layout, fits=fits)
            columns = {
                "id": _to_spark(rows.ids),
                "label": rows.labels,
                "split": rows.splits.astype(np.int32),
                "reason": rows.reasons.astype(np.int32),
                "logits": column_of(rows.logits),
            }
            if reach.hops:
                usable = np.where(rows.reasons[:, None] < 0, rows.logits, rows.logits.dtype.type(0))
                columns["prediction"], values = values_to_average(usable)
                columns["values"] = column_of(values)
            return pa.record_batch(columns)

        checked = self._read(self.node_table, check, schema, 2 * layout.n_classes)
        checked = self._keep("checked", checked)
        counts = {
            (row["reason"], row["split"]): row["count"]
            for row in checked.groupBy("reason", "split").count().collect()
        }
        for i, reason in enumerate(REASONS):
            count = sum(n for (each, _), n in counts.items() if each == i)
            if count:
                few = checked.filter(F.col("reason") == i).limit(N_EXAMPLES).collect()
                bad.add("nodes", reason, count, [row["id"] for row in few])
        named = checked.filter(F.col("id").isNotNull()).groupBy("id").count()
        twice = named.filter(F.col("count") > 1)
        ((n_twice,),) = twice.agg(F.sum("count")).collect()
        if n_twice:
            few = [row["id"] for row in twice.orderBy("id").limit(N_EXAMPLES).collect()]
            bad.add("nodes", DUPLICATE, n_twice, few)
        good = checked.filter(F.col("reason") < 0).drop("reason")
        self.table = good.join(twice, "id", "left_anti") if n_twice else good
        self.n_nodes = self.table.count()
        self.test_split = TEST if (-1, TEST) in counts else -1

    # The edges

    def join(self, bad: BadRows) -> None:
        """Join both ends of every edge with their nodes, and average by node."""
        import pyarrow as pa
        from pyspark.sql import functions as F

        schema = ", ".join(f"{end} {_sql_type(self.edge_table.types[end])}" for end in ENDS)
        nodes, edges = (
            self.table,
            self._read(
                self.edge_table,
                lambda batch: pa.record_batch({end: _to_spark(batch[end]) for end in ENDS}),
                schema,
                2,
            ),
        )
        both = [_end("dst", "src", 1)] + [_end("src", "dst", 0)] * (self.reach.side != "in")
        ends = edges.select(F.explode(F.array(*both))).select("col.*")
        rows = ends
        for end, needed in (("node", "prediction"), ("other", "values")):
            columns = [F.col("id").alias(end), *([needed] if self.reach.hops else [])]
            rows = rows.join(nodes.select(*columns), end)
        found = self._keep("neighbours", rows.groupBy("node").agg(*self._sums()))
        (total,) = found.agg(
            *(F.sum(name).alias(name) for name in ("in_degree", "turned"))
        ).collect()
        self.n_edges = int(total["in_degree"] or 0)
        if self.reach.hops == 2:
            self.is_undirected = not total["turned"]
            found = self._with_second_hop(ends, found)
        self._find_bad_edges(edges, bad)
        joined = nodes.drop("prediction", "values").join(
            found.drop("turned").withColumnRenamed("node", "id"), "id", "left"
        )
        joined = joined.fillna(dict.fromkeys(COUNTS, 0))
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

    def _find_bad_edges(self, edges: Any, bad: BadRows) -> None:
        """Count edges with an end that is null or not a node, if some edges are missing."""
        from pyspark.sql import functions as F

        n_bad = sum(piece.n_rows for piece in pieces_of(self.edge_table)) - self.n_edges
        if not n_bad:
            return
        is_null = F.col("src").isNull() | F.col("dst").isNull()
        ids, lost = self.table.select("id"), edges.filter(~is_null)
        lost = [lost.join(ids, lost[end] == ids["id"], "left_anti") for end in ENDS]
        n_null = edges.filter(is_null).count()
        for reason, count, rows in (
            (NULL_END, n_null, edges.filter(is_null)),
            (NO_NODE, n_bad - n_null, lost[0].union(lost[1])),
        ):
            if count:
                bad.add("edges", reason, count, map(tuple, rows.limit(N_EXAMPLES).collect()))

    # Batches

    def calibration_rows(self) -> Any:
        """Fetch the nodes of the split val."""
        return self.table.filter(f"split = {VAL}").toArrow().combine_chunks()

    def sample(self) -> Any:
        """Fetch the nodes outside training whose hash is one of a few."""
        among = self.table.filter(f"split != {TRAIN}")
        every = max(1, -(-among.count() // SAMPLE))
        return among.filter(f"pmod(xxhash64(id), {every}) = 0").toArrow().combine_chunks()

    def degrees(self) -> Degrees:
        """Count the in-degrees of the test nodes."""
        chosen = self.table.filter(f"label >= 0 AND split = {self.test_split}")
        rows = chosen.groupBy("in_degree").count().orderBy("in_degree").collect()
        return Degrees(*(np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1)))

    def run(self, work: Work, folder: Path) -> Sums:
        """Calibrate on the executors, each of which writes files and adds up the metrics."""
        parts, id_type = self.work / "parts", self.node_table.types["id"]

        def calibrate(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            batches = (
                b.set_column(0, "id", _from_spark(b["id"], id_type)) for b in batches if len(b)
            )
            sums, files = work.write(batches, parts, uuid4().hex)  # a task may run twice
            packed = io.BytesIO()
            np.savez_compressed(packed, **sums.totals)  # type: ignore[arg-type]
            names = pa.array([files], pa.list_(pa.string()))
            yield pa.record_batch({"files": names, "sums": pa.array([packed.getvalue()])})

        sums, files = Sums(work.degrees), list[str]()
        rows = self.table.mapInArrow(calibrate, "files array<string>, sums binary")
        for row in rows.collect():
            files += row["files"]
            with np.load(io.BytesIO(row["sums"])) as totals:
                sums.merge(totals)
        folder.mkdir()
        for number, name in enumerate(files):
            os.rename(parts / name, folder / f"part-{number}.parquet")
        return sums


def check_java() -> None:
    """Raise an InputError if Spark has no Java; Spark itself would print a stack trace."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").is_file()):
        raise MissingExtraError(
            "--engine spark needs Java 17, and there is no java on the PATH nor in JAVA_HOME; "
            "install it (for example openjdk-17-jre-headless), or use --engine duckdb."
        )


def _end(node: str, other: str, inward: int) -> Any:
    from pyspark.sql import functions as F

    named = F.col(node).alias("node"), F.col(other).alias("other"), F.lit(inward).alias("inward")
    return F.struct(*named)


# Ids: Spark has neither UUIDs nor unsigned numbers


def _type_in_spark(kind: Any) -> Any:
    import pyarrow as pa

    if is_uuid(kind):
        return pa.binary()
    if pa.types.is_integer(kind):
        return pa.decimal128(20, 0) if kind == pa.uint64() else pa.int64()
    return kind


def _sql_type(kind: Any) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    return str(from_arrow_type(_type_in_spark(kind)).simpleString())


def _to_spark(ids: Any) -> Any:
    return (ids.storage if is_uuid(ids.type) else ids).cast(_type_in_spark(ids.type))


def _from_spark(ids: Any, kind: Any) -> Any:
    import pyarrow as pa

    if is_uuid(kind):
        return pa.ExtensionArray.from_storage(kind, ids.cast(pa.binary(16)))
    return ids.cast(kind)


@contextmanager
def _own_handler() -> Iterator[None]:
    """Put back what Ctrl-C did before: Spark's handler talks to Java amid another conversation."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
