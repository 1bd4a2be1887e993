"""DuckDB in this process: it reads and joins, and NumPy computes from files in the work folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from gnncal.data.arrays import IntArray
from gnncal.data.errors import InputError, require, short_repr
from gnncal.files.tables import Group, Table, is_uuid
from gnncal.graph.compiled import n_threads
from gnncal.graph.graph import Side
from gnncal.scale.batches import Judge, Reach, Work, column_of, values_to_average
from gnncal.scale.engines import (
    SAMPLE,
    Engine,
    EngineName,
    TableFiles,
    plain_errors,
    size_of,
)
from gnncal.scale.measures import Degrees, Sums
from gnncal.scale.passes import EdgeFile, Neighbourhoods, RowFile, joined, parallel, ways
from gnncal.scale.tables import (
    DUPLICATE,
    EDGE_COLUMNS,
    LIST_COLUMN,
    N_EXAMPLES,
    NO_NODE,
    NULL_END,
    TEST,
    TRAIN,
    VAL,
    BadRowCount,
    Layout,
    NodeRows,
    Types,
    as_uuids,
    read_rows,
)

ROWS_PER_FILE = 1 << 24  # of the output
SHARE_OF_TABLES = 0.4  # of the memory limit, for DuckDB
SMALLEST_WORK = 64 << 20  # bytes in which anything can be computed
VALUES_AT_ONCE, FEWEST_ROWS = 1 << 22, 1024  # of a batch: nodes x classes, and nodes
EDGES_AT_ONCE = 1 << 20  # that DuckDB hands over
BLOCK = 2**17  # bytes at least in one request to storage
DENSE = 4  # ids as whole numbers are looked up in a table of at most so many times their number


class DuckDB(Engine):
    """DuckDB inside this process reads and joins; NumPy computes from files in the work folder."""

    name: EngineName = "duckdb"
    labels: IntArray
    splits: IntArray
    predictions: IntArray
    found: Neighbourhoods

    def __init__(self, work: Path, memory_limit: str | None, threads: int | None) -> None:
        duckdb = require("duckdb", extra="scale", purpose="calibrating with DuckDB")
        self.work, self.threads = work, threads or n_threads()
        settings: dict[str, Any] = {"temp_directory": str(work), "threads": self.threads}
        # Order costs memory and means nothing here: rows have ids.
        settings["preserve_insertion_order"] = False
        self.connection = duckdb.connect(config=settings)
        ((limit,),) = self._fetch("SELECT current_setting('memory_limit')")
        self.memory = size_of(limit if memory_limit is None else memory_limit)
        if self.memory < SMALLEST_WORK:
            raise InputError(
                f"DuckDB needs more than the memory limit {short_repr(memory_limit)}; raise "
                "--memory-limit, at least to 64MiB."
            )
        self.connection.execute(f"SET memory_limit = '{int(SHARE_OF_TABLES * self.memory)}B'")
        self.done: tuple[Callable[[], float], float, float] = (lambda: 0.0, 0.0, 1.0)
        self.dropped: IntArray = np.empty(0, dtype=np.int64)  # positions whose id is not unique

    def _fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return the few rows of a query."""
        with plain_errors():
            return self.connection.execute(query).fetchall()

    # Reading

    def open(self, nodes: TableFiles, edges: TableFiles) -> tuple[Types, Types]:
        """Return the types that were found with the files."""
        assert isinstance(nodes, Table)
        assert isinstance(edges, Table)
        self.nodes, self.edges = nodes, edges
        return nodes.types, edges.types

    def list_lengths(self) -> dict[int | None, int]:
        """Count the lists by their length."""
        lengths: dict[int | None, int] = {}
        for group in self.nodes.groups:
            source = self._source(self.nodes, group)
            rows = self._fetch(f"SELECT len({LIST_COLUMN}), count(*) FROM {source} GROUP BY 1")
            for size, count in rows:
                lengths[size] = lengths.get(size, 0) + count
        return lengths

    def _source(self, table: Table, group: Group) -> str:
        """Return what a query reads from: files by their names, remote ones through fsspec."""
        names = [_escaped(file) for file in group.files]
        if table.is_remote:  # by a protocol of our own, for which no extension is downloaded
            protocol = f"gnncal-{uuid4().hex}"
            self.connection.register_filesystem(_under(table.storage, protocol))
            names = [f"{protocol}://{file}" for file in group.files]
        return f"read_parquet([{', '.join(map(_quoted, names))}], hive_partitioning=false)"

    def _columns(self, table: Table, group: Group) -> str:
        """Return the columns of use, those in the names of folders among them."""
        columns = []
        for name, kind in table.types.items():
            if name in group.folders:
                value = group.folders[name]
                text = "NULL" if value is None else _quoted(str(value))
                kind_name = "BIGINT" if str(kind) == "int64" else "VARCHAR"
                columns.append(f'CAST({text} AS {kind_name}) AS "{name}"')
            else:
                columns.append(f'"{name}"')
        return ", ".join(columns)

    def _stream(self, query: str, n_rows: int) -> Iterator[Any]:
        """Stream the rows of a query through a connection of its own, which nothing else ends."""
        with plain_errors(), self.connection.cursor() as reader:
            rows = reader.sql(query)
            # DuckDB 2.0 has a new name for it.
            stream = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
            yield from stream(n_rows)

    def _n_rows(self, table: Table) -> int:
        count = 0
        for group in table.groups:
            ((rows,),) = self._fetch(f"SELECT count(*) FROM {self._source(table, group)}")
            count += rows
        return count

    # The nodes

    def load(self, layout: Layout, reach: Reach, bad: BadRowCount, *, fits: bool) -> None:
        """Check the rows batch by batch and write the good ones into the work folder."""
        import pyarrow as pa

        self.layout, self.reach = layout, reach
        n_rows = max(FEWEST_ROWS, VALUES_AT_ONCE // layout.n_classes)
        self.logits = RowFile(self.work / "logits", layout.n_classes, layout.dtype)
        self.values = RowFile(self.work / "values", layout.n_classes + 2, layout.dtype)
        total, read = self._n_rows(self.nodes), 0
        self.done = (lambda: read / max(total, 1), 0.0, 1.0)
        parts: list[tuple[IntArray, IntArray, IntArray]] = []
        self.unusable: list[Any] = []  # ids

        def described(batch: Any) -> tuple[NodeRows, NodeRows, Any]:
            rows = read_rows(batch, layout, fits=fits)
            good = rows.good()
            return rows, good, values_to_average(good.logits) if reach.hops else None

        writer = None
        with plain_errors():
            for rows, good, values in parallel(described, self._batches(n_rows), self.threads):
                read += len(rows.reasons)
                if len(rows.reasons) > len(good.reasons):
                    bad.add_nodes(rows)
                    self.unusable.append(rows.ids.filter(pa.array(rows.reasons >= 0)))
                if writer is None:
                    schema = pa.schema([("id", rows.ids.type)])
                    writer = pa.ipc.new_file(str(self.work / "ids"), schema)
                writer.write_batch(pa.record_batch([good.ids], names=["id"]))
                self.logits.append(good.logits)
                if values is not None:
                    self.values.append(values[1])
                none = np.empty(0, dtype=np.int32)
                parts.append((good.labels, good.splits, none if values is None else values[0]))
        if writer is not None:
            writer.close()
        for file in (self.logits, self.values):
            file.finish()
        if not read:
            return
        self.labels, self.splits, self.predictions = (
            np.concatenate(each) for each in zip(*parts, strict=True)
        )
        self.n_nodes = len(self.labels)
        self._find_ids(bad)
        self.has_test = bool((self.splits == TEST).any())

    def _batches(self, n_rows: int) -> Iterator[Any]:
        """Give the rows of the nodes' table, whose types are the same in all files."""
        import pyarrow as pa

        types = self.nodes.types
        for group in self.nodes.groups:
            source = self._source(self.nodes, group)
            query = f"SELECT {self._columns(self.nodes, group)} FROM {source}"
            for batch in self._stream(query, n_rows):
                columns = [
                    batch[name].cast(types[name]) if name in self.nodes.mixed else batch[name]
                    for name in types
                ]
                yield pa.record_batch(columns, names=list(types))

    def _find_ids(self, bad: BadRowCount) -> None:
        """Prepare how the ends of edges are looked up; ids that are not unique are left out."""
        import pyarrow as pa

        self.first, self.positions = 0, None  # a table of positions by id, where ids are dense
        all_types = [self.nodes.types["id"], *(self.edges.types[end] for end in EDGE_COLUMNS)]
        is_whole = all(pa.types.is_integer(kind) and str(kind) != "uint64" for kind in all_types)
        if is_whole and self.n_nodes and not self.unusable:
            ids = np.concatenate([each.to_numpy() for each in self._ids()]).astype(np.int64)
            low, high = int(ids.min()), int(ids.max())
            if high - low < DENSE * self.n_nodes:
                positions = np.full(high - low + 1, -1, dtype=np.int32)
                positions[ids - low] = np.arange(self.n_nodes, dtype=np.int32)
                if (positions[ids - low] == np.arange(self.n_nodes)).all():
                    self.first, self.positions = low, positions
                    return
        self._make_id_table(bad)

    def _ids(self) -> Iterator[Any]:
        """Give the ids of the nodes in the order of their positions."""
        import pyarrow as pa

        with pa.ipc.open_file(str(self.work / "ids")) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)["id"]

    def _make_id_table(self, bad: BadRowCount) -> None:
        """Let DuckDB know the positions of ids, and find those that occur more than once."""
        import pyarrow as pa

        start, verb = 0, "CREATE TABLE ids AS"
        for usable, batches in ((True, self._ids()), (False, iter(self.unusable))):
            for ids in batches:
                places = np.arange(start, start + len(ids)) if usable else np.full(len(ids), -1)
                start += len(ids)
                batch = pa.table({"id": ids, "position": pa.array(places, pa.int32())})
                with plain_errors():
                    self.connection.register("batch", batch)
                    self.connection.execute(f"{verb} FROM batch WHERE id IS NOT NULL")
                    self.connection.unregister("batch")
                verb = "INSERT INTO ids"
        twice = "WHERE id IN (SELECT id FROM ids GROUP BY id HAVING count(*) > 1)"
        rows = self._fetch(f"FROM ids {twice} ORDER BY id, position")
        if rows:
            bad.add("nodes", DUPLICATE, len(rows), list(dict.fromkeys(id for id, _ in rows)))
            self.dropped = np.array([p for _, p in rows if p >= 0], dtype=np.int64)
            self.splits[self.dropped] = self.labels[self.dropped] = -2  # neither test nor val
            self.n_nodes -= len(self.dropped)
        self._fetch(f"DELETE FROM ids {twice}")
        self._fetch("DELETE FROM ids WHERE position < 0")

    # The edges

    def join(self, bad: BadRowCount) -> None:
        """Pass over the edges: once from their files, and further times from the work folder."""
        n_rows, hops = len(self.labels), self.reach.hops
        side, dtype = self.reach.side, self.layout.dtype
        found = self.found = Neighbourhoods(n_rows, self.memory, self.work, self.threads)
        total, n_passes = self._n_rows(self.edges), 1 if hops < 2 else 4
        block, n_blocks = found.plan((self.layout.n_classes + 2) * dtype.itemsize, sums=hops == 2)
        edges = EdgeFile(self.work / "edges", block, n_blocks, found.chunk)
        # One hop of one block needs nothing but the stream.
        at_once = hops == 1 and n_blocks == 1
        read = 0
        self.done = (lambda: read / max(total, 1), 0.0, 1 / n_passes)

        def between_nodes() -> Iterator[tuple[IntArray, IntArray]]:
            nonlocal read
            for senders, receivers in self._pairs(found.chunk, bad):
                read += len(senders)
                yield found.count(senders, receivers)

        if at_once:
            values, sums = self.values.read(0, n_rows), np.zeros(n_rows)
            pairs = (way for pair in between_nodes() for way in ways(pair, side))
            found.class_sums(pairs, values, 0, self.predictions, sums)
            with np.errstate(invalid="ignore"):
                found.class_mean = sums / found.counts(side)
        else:
            for pair in between_nodes():
                if hops:
                    edges.append(*pair)
            edges.finish()
        self.n_edges = found.n_edges
        if hops == 1 and not at_once:
            found.class_mean = found.find_class_mean(edges, self.values, self.predictions, side)
        elif hops == 2:
            self._two_hops(edges)
        if hops == 1 and side == "in":
            found.support = found.class_mean

    def _two_hops(self, edges: EdgeFile) -> None:
        found, predictions = self.found, self.predictions
        self.is_undirected = found.is_undirected(edges)
        side: Side = "in" if self.is_undirected else self.reach.side
        self.done = (lambda: found.done, 0.25, 0.75)
        found.means = found.find_means(edges, self.values, side)
        found.done = 0.0
        self.done = (lambda: found.done, 0.75, 1.0)
        found.class_mean = found.find_class_mean(edges, found.means, predictions, side)
        wanted = np.zeros(len(predictions), dtype=np.bool_)
        wanted[self._sampled()] = wanted[self.splits == VAL] = True
        found.support = found.find_class_mean(edges, self.values, predictions, "in", only=wanted)

    def _pairs(self, chunk: int, bad: BadRowCount) -> Iterator[tuple[IntArray, IntArray]]:
        """Give the positions of senders and receivers, many edges at a time."""
        waiting: list[tuple[IntArray, IntArray]] = []
        size = 0
        for group in self.edges.groups:
            source, columns = self._source(self.edges, group), self._columns(self.edges, group)
            found = self._dense(source, columns, bad) if self.positions is not None else None
            for pair in found or self._joined(source, columns, bad):
                waiting.append(pair)
                size += len(pair[0])
                if size >= chunk:
                    yield joined(waiting)
                    waiting, size = [], 0
        if waiting:
            yield joined(waiting)

    def _dense(
        self, source: str, columns: str, bad: BadRowCount
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Look ids that are whole numbers up in the table of positions."""
        for batch in self._stream(f"SELECT {columns} FROM {source}", EDGES_AT_ONCE):
            ends = [self._position(batch[name]) for name in EDGE_COLUMNS]
            known = (ends[0] >= 0) & (ends[1] >= 0)
            if not known.all():
                nulls = np.any([batch[e].is_null().to_numpy(False) for e in EDGE_COLUMNS], axis=0)
                for reason, rows in ((NULL_END, nulls), (NO_NODE, ~known & ~nulls)):
                    places = np.flatnonzero(rows)
                    few = batch.take(places[:N_EXAMPLES]).to_pylist()
                    if places.size:
                        examples = [(row["src"], row["dst"]) for row in few]
                        bad.add("edges", reason, places.size, examples)
                ends = [end[known] for end in ends]
            yield ends[0], ends[1]

    def _position(self, ids: Any) -> IntArray:
        assert self.positions is not None
        if ids.null_count:
            found = np.full(len(ids), -1, dtype=np.int32)
            found[ids.is_valid().to_numpy(False)] = self._position(ids.drop_null())
            return found
        places = ids.to_numpy()
        if self.first:
            places = places.astype(np.int64) - self.first
        is_within = (places >= 0) & (places < len(self.positions))
        if is_within.all():
            return self.positions[places]
        return np.where(is_within, self.positions[np.where(is_within, places, 0)], -1)

    def _joined(
        self, source: str, columns: str, bad: BadRowCount
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Let DuckDB join the ids of any kind with their positions."""
        import pyarrow.compute as pc

        edges = f"(SELECT {columns} FROM {source}) e"
        joins = "LEFT JOIN ids a ON a.id = e.src LEFT JOIN ids b ON b.id = e.dst"
        query = f"SELECT a.position AS s, b.position AS d FROM {edges} {joins}"
        n_bad = 0
        for batch in self._stream(query, EDGES_AT_ONCE):
            if batch["s"].null_count or batch["d"].null_count:
                n_rows = len(batch)
                batch = batch.filter(pc.and_(batch["s"].is_valid(), batch["d"].is_valid()))
                n_bad += n_rows - len(batch)
            yield batch["s"].to_numpy(), batch["d"].to_numpy()
        if n_bad:
            is_null = "(src IS NULL OR dst IS NULL)"
            lost = f"NOT {is_null} AND (a.id IS NULL OR b.id IS NULL)"
            for reason, rule in ((NULL_END, is_null), (NO_NODE, lost)):
                rows = f"FROM {edges} {joins} WHERE {rule}"
                ((count,),) = self._fetch(f"SELECT count(*) {rows}")
                few = self._fetch(f"SELECT src, dst {rows} LIMIT {N_EXAMPLES}")
                if count:
                    bad.add("edges", reason, count, few)

    # Batches

    def calibration_rows(self) -> Any:
        """Return the nodes of the split val."""
        return self._batch(np.flatnonzero(self.splits == VAL))

    def sample(self) -> Any:
        """Return every so many nodes outside training."""
        return self._batch(self._sampled())

    def _sampled(self) -> IntArray:
        among = np.flatnonzero((self.splits != TRAIN) & (self.splits > -2))
        return among[:: max(1, -(-len(among) // SAMPLE))]

    def degrees(self, judge: Judge) -> Degrees:
        """Count the in-degrees of the test nodes."""
        chosen = judge.of(self.labels, self.splits)
        return Degrees(*np.unique(self.found.in_degree[chosen], return_counts=True))

    def _batch(self, rows: IntArray | slice, ids: Any = None) -> Any:
        """Return some nodes; the ids of rows from anywhere are looked for."""
        import pyarrow as pa

        found = self.found

        def of(file: RowFile) -> Any:
            if isinstance(rows, slice):
                return column_of(file.read(rows.start, rows.stop))
            return column_of(file.take(rows))

        if ids is None:
            ids = pa.chunked_array(list(self._ids())).take(pa.array(rows)).combine_chunks()
        columns = {
            "id": ids,
            "label": self.labels[rows],
            "split": self.splits[rows],
            "logits": of(self.logits),
            "in_degree": found.in_degree[rows],
            "out_degree": found.out_degree[rows],
            "self_loops": found.self_loops[rows],
        }
        for name in ("class_mean", "support"):
            values = getattr(found, name)
            if values is not None:
                columns[name] = values[rows]
        if found.means is not None:
            columns["means"] = of(found.means)
        return pa.record_batch(columns)

    def run(self, work: Work, degrees: Degrees, folder: Path) -> Sums:
        """Calibrate batch by batch, on every core."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True)
        sums, start = Sums(degrees), 0
        self.done = (lambda: start / max(len(self.labels), 1), 0.0, 1.0)

        def batches() -> Iterator[Any]:
            place = 0
            for ids in self._ids():
                batch = self._batch(slice(place, place + len(ids)), ids)
                place += len(ids)
                if self.dropped.size:
                    batch = batch.filter(pa.array(batch["split"].to_numpy() > -2))
                if len(batch):
                    yield batch

        writer, written, number = None, 0, 0
        try:
            for done in parallel(work, batches(), self.threads):
                if is_uuid(self.nodes.types["id"]):  # DuckDB hands them over as text
                    done.columns["id"] = as_uuids(done.columns["id"])
                table = pa.table(done.columns)
                if writer is None or written >= ROWS_PER_FILE:
                    if writer is not None:
                        writer.close()
                    path = folder / f"part-{number}.parquet"
                    writer = pq.ParquetWriter(path, table.schema, compression="zstd")
                    written, number = 0, number + 1
                writer.write_table(table)
                sums.add(done.terms)
                written += len(table)
                start += len(table)
        finally:
            if writer is not None:
                writer.close()
        return sums

    def progress(self) -> float | None:
        """Return how much of the stage is done."""
        share, first, last = self.done
        return first + (last - first) * min(share(), 1.0)

    def close(self) -> None:
        """Close the database; its files are removed with the work folder."""
        self.connection.close()


def _under(storage: Any, protocol: str) -> Any:
    """Return an fsspec filesystem that DuckDB knows by another protocol."""
    import fsspec

    class Renamed(fsspec.AbstractFileSystem):  # type: ignore[misc]
        cachable = False

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]  # the files are known, and a name is a name

        def info(self, path: str, **_: Any) -> Any:
            return storage.info(self._strip_protocol(path))

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)  # one run reads one version

        def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return storage.open(self._strip_protocol(path), mode, block_size=BLOCK)

    Renamed.protocol = protocol
    return Renamed()


def _escaped(name: str) -> str:
    """Return a name that DuckDB does not take for a pattern."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
