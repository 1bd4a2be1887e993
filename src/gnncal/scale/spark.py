"""Spark: SQL joins and averages on the cluster, and its executors read and calibrate Arrow batches.

Intermediate tables are Parquet in the work folder, which the driver and all executors see.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from gnncal.data.errors import InputError, require
from gnncal.files import parquet, tables
from gnncal.files.parquet import ENDS, N_EXAMPLES, BadRows, Layout
from gnncal.files.tables import Table, first_line
from gnncal.scale.batches import SAMPLE, Reach, Work, column_of, values_to_average
from gnncal.scale.summary import Degrees, Sums

VALUES_AT_ONCE = 1 << 18  # numbers of a batch that an executor hands over
TASKS_PER_CORE = 4
SIDES = {"in": "inward = 1", "out": "inward = 0", "both": "true"}
COUNTS = {  # of the ends of edges at a node
    "in_degree": "sum(inward)",
    "out_degree": "sum(1 - inward)",
    "self_loops": "sum(if(node = other, inward, 0))",
}
OWN = "(SELECT id AS node, prediction FROM {nodes}) USING (node)"
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    # Compressed nodes look small to Spark, which then sends all of them to every worker.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


class Spark:
    """A cluster of Spark, or Spark on this machine."""

    name = "spark"
    n_nodes = n_edges = 0
    is_undirected: bool | None = None

    def __init__(
        self, nodes: Table, edges: Table, work: Path, memory: int | None, master: str | None
    ) -> None:
        pyspark = require("pyspark", extra="spark", purpose="--engine spark")
        self.node_table, self.edge_table, self.work = nodes, edges, work
        builder = pyspark.sql.SparkSession.builder.appName("gnncal scale").config(map=SETTINGS)
        if master is not None:
            builder = builder.master(master)
        if memory is not None:
            builder = builder.config("spark.driver.memory", f"{memory >> 20}m")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the executors, by its path
        self.was_running = pyspark.sql.SparkSession.getActiveSession() is not None
        before = signal.getsignal(signal.SIGINT)
        try:
            self.session = builder.getOrCreate()
        except Exception as error:  # whatever Java, the network or the settings raise
            raise InputError(
                f"Spark did not start ({first_line(error)}); check that Java 17 is installed, "
                "--master, --memory-limit and what Java says above."
            ) from error
        # Spark's own handler of Ctrl-C talks to Java amid another conversation.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)

    def progress(self) -> float | None:
        """Return how many of the tasks that Spark knows of are done."""
        tracker = self.session.sparkContext.statusTracker()
        found = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        stages = [each for each in found if each is not None]
        total = sum(each.numTasks for each in stages)
        return sum(each.numCompletedTasks for each in stages) / total if total else None

    def close(self) -> None:
        """Stop the session, unless it was there before."""
        if not self.was_running:
            self.session.stop()

    def _read(self, table: Table, columns_of: Callable[[Any], Any], schema: str, width: int) -> Any:
        """Let the executors read a table, batch by batch through a function."""
        pieces, n_rows = tables.pieces_of(table), max(1, VALUES_AT_ONCE // width)
        n_tasks = TASKS_PER_CORE * self.session.sparkContext.defaultParallelism

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                some = [pieces[number] for number in batch["id"].to_pylist()]
                yield from map(columns_of, tables.read_batches(table, some, n_rows))

        numbers = self.session.range(0, len(pieces), 1, max(1, min(len(pieces), n_tasks)))
        return numbers.mapInArrow(read, schema)

    def _keep(self, name: str, rows: Any) -> Any:
        """Compute a table now and keep it as a folder of Parquet files."""
        rows.write.mode("overwrite").parquet(str(self.work / name))
        return self.session.read.parquet(str(self.work / name))

    def load(self, layout: Layout, reach: Reach, bad: BadRows, *, fits: bool) -> None:
        """Check the rows on the executors, and keep the good ones."""
        self.layout, self.reach = layout, reach
        number = self.number = "float" if layout.dtype == np.float32 else "double"
        schema = f"id {_sql_type(self.node_table.types['id'])}, label int, split int, reason int"
        schema += f", logits array<{number}>"
        if reach.hops:
            schema += f", prediction int, given array<{number}>"

        def check(batch: Any) -> Any:
            import pyarrow as pa

            rows = parquet.read_rows(batch, layout, fits=fits)
            columns = {
                "id": _ids(rows.ids),
                "label": rows.labels,
                "split": rows.splits.astype(np.int32),
                "reason": rows.reasons.astype(np.int32),
                "logits": column_of(rows.logits),
            }
            if reach.hops:
                usable = np.where(rows.reasons[:, None] < 0, rows.logits, rows.logits.dtype.type(0))
                columns["prediction"], given = values_to_average(usable)
                columns["given"] = column_of(given)
            return pa.record_batch(columns)

        checked = self._read(self.node_table, check, schema, 2 * layout.n_classes)
        checked = self._keep("checked", checked)
        counted = checked.groupBy("reason").count().collect()
        for number, count in sorted(row for row in counted if row["reason"] >= 0):
            few = checked.filter(f"reason = {number}").limit(N_EXAMPLES).collect()
            bad.add("nodes", parquet.REASONS[number], count, [row["id"] for row in few])
        twice = checked.filter("id IS NOT NULL").groupBy("id").count().filter("count > 1")
        ((n_twice,),) = twice.selectExpr("sum(count)").collect()
        self.nodes = checked.filter("reason < 0").drop("reason")
        if n_twice:
            few = twice.orderBy("id").limit(N_EXAMPLES).collect()
            bad.add("nodes", parquet.DUPLICATE, n_twice, [row["id"] for row in few])
            self.nodes = self.nodes.join(twice, "id", "left_anti")
        self.n_nodes = self.nodes.count()
        has_test = not self.nodes.filter(f"split = {parquet.TEST}").isEmpty()
        self.test_split = parquet.TEST if has_test else -1

    def join(self, bad: BadRows) -> None:
        """Join both ends of every edge with their nodes, and average by node."""
        session, hops, side = self.session, self.reach.hops, self.reach.side
        width = self.layout.n_classes + 2  # of what neighbours are averaged over
        schema = ", ".join(f"{end} {_sql_type(self.edge_table.types[end])}" for end in ENDS)
        edges = self._read(self.edge_table, _ends, schema, 2)
        ways = "struct(dst AS node, src AS other, 1 AS inward)"
        ways += "" if side == "in" else ", struct(src AS node, dst AS other, 0 AS inward)"
        ends = session.sql(f"SELECT inline(array({ways})) FROM {{edges}}", edges=edges)
        columns, needs = dict(COUNTS), "id AS other"
        if hops:
            kept, needs = SIDES[side if hops == 1 else "in"], "id AS other, given"
            mean = f"avg(if(node != other AND {kept}, cast(given[prediction] AS double), NULL))"
            columns["class_mean" if hops == 1 else "support"] = mean
        if hops == 2:
            of_class = (f"avg(if(node != other, given[{k}], NULL))" for k in range(width))
            columns["means"] = f"cast(array({', '.join(of_class)}) AS array<{self.number}>)"
        found = session.sql(
            f"SELECT node, {', '.join(f'{value} AS {name}' for name, value in columns.items())} "
            f"FROM {{ends}} JOIN {OWN if hops else OWN.replace(', prediction', '')} "
            f"JOIN (SELECT {needs} FROM {{nodes}}) USING (other) GROUP BY node",
            ends=ends,
            nodes=self.nodes,
        )
        found = self._keep("neighbours", found)
        self.n_edges = found.selectExpr("sum(in_degree)").collect()[0][0] or 0
        if hops == 2:
            second = session.sql(
                f"SELECT node, avg(cast(means[prediction] AS double)) AS class_mean FROM {{ends}} "
                f"JOIN {OWN} JOIN (SELECT node AS other, means FROM {{found}}) USING (other) "
                "WHERE node != other GROUP BY node",
                ends=ends,
                nodes=self.nodes,
                found=found,
            )
            found = found.join(second, "node", "left")
        if self.n_edges < sum(piece.n_rows for piece in tables.pieces_of(self.edge_table)):
            self._find_bad_edges(edges, bad)
        nodes = self.nodes.drop("prediction", "given")
        nodes = nodes.join(found.withColumnRenamed("node", "id"), "id", "left")
        nodes = nodes.fillna(dict.fromkeys(COUNTS, 0))
        if hops == 2:
            zeros = f"cast(array_repeat(0, {width}) AS array<{self.number}>)"
            nodes = nodes.selectExpr(
                *(name for name in nodes.columns if name != "means"),
                f"coalesce(means, {zeros}) AS means",
            )
        self.nodes = self._keep("table", nodes)

    def _find_bad_edges(self, edges: Any, bad: BadRows) -> None:
        """Count edges with an end that is null or not a node."""
        lost = self.session.sql(
            "SELECT src, dst, src IS NULL OR dst IS NULL AS is_null FROM {edges} "
            "LEFT JOIN (SELECT id AS a FROM {nodes}) ON a = src "
            "LEFT JOIN (SELECT id AS b FROM {nodes}) ON b = dst WHERE a IS NULL OR b IS NULL",
            edges=edges,
            nodes=self.nodes,
        )
        for reason, rule in ((parquet.NULL_END, "is_null"), (parquet.NO_NODE, "NOT is_null")):
            rows = lost.filter(rule).select(*ENDS)
            if count := rows.count():
                bad.add("edges", reason, count, map(tuple, rows.limit(N_EXAMPLES).collect()))

    def calibration_rows(self) -> Any:
        """Fetch the nodes of the split val."""
        return self.nodes.filter(f"split = {parquet.VAL}").toArrow().combine_chunks()

    def sample(self) -> Any:
        """Fetch the nodes outside training whose hash is one of a few."""
        among = self.nodes.filter(f"split != {parquet.TRAIN}")
        every = max(1, -(-among.count() // SAMPLE))
        return among.filter(f"pmod(xxhash64(id), {every}) = 0").toArrow().combine_chunks()

    def degrees(self) -> Degrees:
        """Count the in-degrees of the test nodes."""
        chosen = self.nodes.filter(f"label >= 0 AND split = {self.test_split}")
        rows = chosen.groupBy("in_degree").count().orderBy("in_degree").collect()
        return Degrees(*(np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1)))

    def run(self, work: Work, folder: Path) -> Sums:
        """Calibrate on the executors, each of which writes files and adds up the metrics."""
        parts = self.work / "parts"

        def calibrate(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            filled = (batch for batch in batches if len(batch))
            sums, files = work.write(filled, parts, uuid4().hex)  # a task may run twice
            packed = io.BytesIO()
            np.savez_compressed(packed, **sums.totals)  # type: ignore[arg-type]
            names = pa.array([files], pa.list_(pa.string()))
            yield pa.record_batch({"files": names, "sums": pa.array([packed.getvalue()])})

        sums, files = Sums(work.degrees), list[str]()
        rows = self.nodes.mapInArrow(calibrate, "files array<string>, sums binary")
        for row in rows.collect():
            files += row["files"]
            with np.load(io.BytesIO(row["sums"])) as totals:
                sums.merge(totals)
        folder.mkdir()
        for number, name in enumerate(files):
            os.rename(parts / name, folder / f"part-{number}.parquet")
        return sums


def _sql_type(kind: Any) -> str:
    from pyarrow import types

    return "bigint" if types.is_integer(kind) else "string"


def _ids(ids: Any) -> Any:
    """Return ids as Spark has them, whose whole numbers are signed."""
    import pyarrow as pa

    return ids.cast(pa.int64()) if pa.types.is_integer(ids.type) else ids


def _ends(batch: Any) -> Any:
    import pyarrow as pa

    return pa.record_batch({end: _ids(batch[end]) for end in ENDS})
