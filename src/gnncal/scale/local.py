"""In this process: DuckDB joins ids, and NumPy computes from files in the work folder."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import IntArray
from gnncal.data.errors import InputError, require, short_repr
from gnncal.files import parquet, tables
from gnncal.files.parquet import ENDS, TEST, TRAIN, VAL, BadRows, Layout, NodeRows
from gnncal.files.tables import Table, first_line
from gnncal.graph.compiled import n_threads
from gnncal.graph.graph import Side
from gnncal.scale.batches import SAMPLE, Reach, Work, column_of, parallel, values_to_average
from gnncal.scale.limits import PER_THREAD, available_memory
from gnncal.scale.passes import EdgeFile, EdgeStream, Neighbourhoods, Pairs, RowFile, in_chunks
from gnncal.scale.summary import Degrees, Sums

SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
SMALLEST_MEMORY = 64 << 20  # bytes in which anything can be computed
SHARE_OF_TABLES = 0.4  # of the memory limit, for DuckDB
VALUES_AT_ONCE, FEWEST_ROWS = 1 << 22, 1024  # of a batch: nodes x classes, and nodes
EDGES_AT_ONCE = 1 << 20  # that are read
DENSE = 4  # ids as whole numbers are looked up in a table of at most so many times their number
TWICE = "WHERE id IN (SELECT id FROM ids GROUP BY id HAVING count(*) > 1)"
JOIN = """
SELECT a.position AS s, b.position AS d, if(s IS NULL OR d IS NULL, src, NULL) AS src,
    if(s IS NULL OR d IS NULL, dst, NULL) AS dst
FROM rows LEFT JOIN ids a ON a.id = rows.src LEFT JOIN ids b ON b.id = rows.dst
"""


class DuckDB:
    """The engine in this process."""

    name = "duckdb"
    n_nodes = n_edges = 0
    is_undirected: bool | None = None

    def __init__(
        self,
        nodes: Table,
        edges: Table,
        work: Path,
        memory: int | None,
        threads: int | None,
        spare: int | None = None,  # bytes of address space beside what libraries need
    ) -> None:
        duckdb = require("duckdb", extra="scale", purpose="calibrating with DuckDB")
        self.node_table, self.edge_table = nodes, edges
        self.work, self.threads = work, threads or n_threads()
        if spare is not None:
            self.threads = max(1, min(self.threads, 1 + spare // PER_THREAD))
            spare -= (self.threads - 1) * PER_THREAD
        settings = {"temp_directory": str(work), "threads": self.threads}
        # Order costs memory and means nothing here: rows have ids.
        settings |= {"preserve_insertion_order": False}
        try:  # threads for files take address space too; older versions have none
            few = {} if spare is None else {"async_threads": 1}
            self.connection = duckdb.connect(config=settings | few)
        except duckdb.Error:
            self.connection = duckdb.connect(config=settings)
        if memory is None:
            ((limit,),) = self._fetch("SELECT current_setting('memory_limit')")
            memory = min(size_of(limit), available_memory() or size_of(limit))
        self.memory = memory if spare is None else max(SMALLEST_MEMORY, min(memory, spare))
        self._fetch(f"SET memory_limit = '{int(SHARE_OF_TABLES * self.memory)}B'")
        # A stream has no length that is known: ids, not edges, are what is kept in memory.
        self._fetch("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        self.share: Callable[[], float] = lambda: 0.0

    def _fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return the few rows of a query."""
        with plain_errors():
            return self.connection.execute(query).fetchall()

    def progress(self) -> float:
        """Return how much of the stage is done."""
        return min(self.share(), 1.0)

    def close(self) -> None:
        """Close the database; its files are removed with the work folder."""
        self.connection.close()

    # The nodes

    def load(self, layout: Layout, reach: Reach, bad: BadRows, *, fits: bool) -> None:
        """Check the rows batch by batch and write the good ones into the work folder."""
        import pyarrow as pa

        self.reach, n_classes = reach, layout.n_classes
        self.logits = RowFile(self.work / "logits", n_classes, layout.dtype)
        self.values = RowFile(self.work / "values", n_classes + 2, layout.dtype)
        pieces, read = tables.pieces_of(self.node_table), 0
        total = sum(piece.n_rows for piece in pieces)
        self.share = lambda: read / max(total, 1)

        def described(batch: Any) -> tuple[NodeRows, NodeRows, Any]:
            rows = good = parquet.read_rows(batch, layout, fits=fits)
            if (rows.reasons >= 0).any():
                kept = np.flatnonzero(rows.reasons < 0)
                others: Any = (values.take(kept, axis=0) for values in rows[1:])
                good = NodeRows(rows.ids.take(kept), *others)
            return rows, good, values_to_average(good.logits) if reach.hops else None

        parts: list[tuple[IntArray, ...]] = []
        unusable: list[Any] = []  # ids
        schema = pa.schema([("id", self.node_table.types["id"])])
        n_rows = max(FEWEST_ROWS, VALUES_AT_ONCE // n_classes)
        batches = tables.read_batches(self.node_table, pieces, n_rows)
        with pa.ipc.new_file(str(self.work / "ids"), schema) as writer:
            for rows, good, values in parallel(described, batches, self.threads):
                read += len(rows.reasons)
                if good is not rows:
                    bad.add_nodes(rows)
                    unusable.append(rows.ids.take(np.flatnonzero(rows.reasons >= 0)))
                writer.write_batch(pa.record_batch([good.ids], schema=schema))
                self.logits.append(good.logits)
                if values is not None:
                    self.values.append(values[1])
                parts.append((good.labels, good.splits, *(() if values is None else values[:1])))
        self.logits.finish()
        self.values.finish()
        if parts:
            self.labels, self.splits, *rest = map(np.concatenate, zip(*parts, strict=True))
            self.predictions = rest[0] if rest else self.labels[:0]
            self.n_nodes = len(self.labels)
            self._find_ids(bad, unusable)

    def _ids(self) -> Iterator[Any]:
        """Give the ids of the nodes in the order of their positions."""
        import pyarrow as pa

        with pa.ipc.open_file(str(self.work / "ids")) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)["id"]

    def _find_ids(self, bad: BadRows, unusable: list[Any]) -> None:
        """Prepare how the ends of edges are looked up; ids that are not unique are left out."""
        import pyarrow as pa

        self.first, self.positions = 0, None  # a table of positions by id, where ids are dense
        types = [self.node_table.types["id"], *(self.edge_table.types[end] for end in ENDS)]
        is_whole = all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in types)
        if is_whole and self.n_nodes and not unusable:
            ids = np.concatenate([each.to_numpy() for each in self._ids()])
            low, high = int(ids.min()), int(ids.max())
            if high - low < DENSE * self.n_nodes:
                ids = ids.astype(np.int64) - low
                positions = np.full(high - low + 1, -1, dtype=np.int32)
                positions[ids] = np.arange(self.n_nodes, dtype=np.int32)
                if (positions[ids] == np.arange(self.n_nodes)).all():
                    self.first, self.positions = low, positions
                    return

        def rows() -> Iterator[Any]:
            start = 0
            for ids in self._ids():
                yield pa.record_batch({"id": ids, "position": np.arange(start, start + len(ids))})
                start += len(ids)
            for ids in unusable:
                yield pa.record_batch({"id": ids, "position": np.full(len(ids), -1)})

        with plain_errors():
            self.connection.register("rows", _reader(rows()))
            select = "SELECT id, position::INTEGER AS position FROM rows WHERE id IS NOT NULL"
            self.connection.execute(f"CREATE TABLE ids AS {select}")
        twice = self._fetch(f"FROM ids {TWICE} ORDER BY id, position")
        if twice:
            bad.add("nodes", parquet.DUPLICATE, len(twice), dict.fromkeys(id for id, _ in twice))
            dropped = np.array([p for _, p in twice if p >= 0], dtype=np.int64)
            self.splits[dropped] = self.labels[dropped] = -2  # neither test nor val
            self.n_nodes -= len(dropped)
        self._fetch(f"DELETE FROM ids {TWICE}")
        self._fetch("DELETE FROM ids WHERE position < 0")

    # The edges

    def join(self, bad: BadRows) -> None:
        """Pass over the edges: once from their files, and further times from the work folder."""
        n_rows, hops, side = len(self.labels), self.reach.hops, self.reach.side
        found = self.found = Neighbourhoods(n_rows, self.memory, self.work, self.threads)
        block, n_blocks = found.plan(self.values.width * self.values.dtype.itemsize, sums=hops == 2)
        is_kept = hops == 2 or (hops == 1 and n_blocks > 1)  # else the stream is enough
        pieces, read = tables.pieces_of(self.edge_table), 0
        total, n_passes = sum(piece.n_rows for piece in pieces), 2 * hops if is_kept else 1
        self.share = lambda: read / max(total, 1) / n_passes

        def between_nodes() -> Pairs:
            nonlocal read
            for pair in in_chunks(self._pairs(pieces, bad), found.chunk):
                read += len(pair[0])
                yield found.count(*pair)

        edges = EdgeFile(self.work / "edges", block, n_blocks, found.chunk)
        if is_kept:
            edges.fill(between_nodes())
        elif hops == 0:
            deque(between_nodes(), maxlen=0)
        else:
            edges = EdgeStream(between_nodes(), n_rows)
        if hops == 2:
            self._two_hops(edges)
        elif hops == 1:
            if is_kept:
                self.share = lambda: 0.5 + 0.5 * found.done
            found.class_mean = found.find_class_mean(edges, self.values, self.predictions, side)
            found.support = found.class_mean if side == "in" else None
        self.n_edges, read = found.n_edges, total

    def _two_hops(self, edges: EdgeFile) -> None:
        found, predictions = self.found, self.predictions
        self.is_undirected = found.is_undirected(edges)
        side: Side = "in" if self.is_undirected else self.reach.side
        self.share = lambda: 0.25 + 0.5 * found.done
        found.means = found.find_means(edges, self.values, side)
        self.share = lambda: 0.75 + 0.25 * found.done
        found.class_mean = found.find_class_mean(edges, found.means, predictions, side)
        wanted = self.splits == VAL
        wanted[self._sampled()] = True
        found.support = found.find_class_mean(edges, self.values, predictions, "in", only=wanted)

    def _pairs(self, pieces: list[tables.Piece], bad: BadRows) -> Pairs:
        """Give the positions of senders and receivers; other edges are counted."""
        batches = tables.read_batches(self.edge_table, pieces, EDGES_AT_ONCE)
        look_up = self._joined if self.positions is None else self._dense
        for batch, *ends in look_up(batches):
            known = (ends[0] >= 0) & (ends[1] >= 0)
            if known.all():
                yield ends[0], ends[1]
                continue
            bad.add_edges(batch, known)
            yield ends[0][known], ends[1][known]

    def _dense(self, batches: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
        """Look ids that are whole numbers up in the table of positions."""
        positions = self.positions
        assert positions is not None

        def position(ids: Any) -> IntArray:
            if ids.null_count:
                found = np.full(len(ids), -1, dtype=np.int32)
                found[ids.is_valid().to_numpy(False)] = position(ids.drop_null())
                return found
            places = ids.to_numpy()
            if self.first:
                places = places.astype(np.int64) - self.first
            is_within = (places >= 0) & (places < len(positions))
            if is_within.all():
                return positions[places]
            return np.where(is_within, positions[np.where(is_within, places, 0)], -1)

        def looked_up(batch: Any) -> tuple[Any, ...]:
            return batch, *(position(batch[end]) for end in ENDS)

        return parallel(looked_up, batches, self.threads)

    def _joined(self, batches: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
        """Let DuckDB join the ids of any kind with their positions."""
        with plain_errors(), self.connection.cursor() as reader:
            reader.register("rows", _reader(batches))
            rows = reader.sql(JOIN)
            # DuckDB 2.0 has a new name for it.
            stream = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
            for batch in stream(EDGES_AT_ONCE):
                yield batch, *(batch[name].fill_null(-1).to_numpy() for name in "sd")

    # Batches

    @property
    def test_split(self) -> int:
        """The split of the nodes on which the result is judged; without any, that of no split."""
        return TEST if (self.splits == TEST).any() else -1

    def calibration_rows(self) -> Any:
        """Return the nodes of the split val."""
        return self._batch(np.flatnonzero(self.splits == VAL))

    def sample(self) -> Any:
        """Return every so many nodes outside training."""
        return self._batch(self._sampled())

    def _sampled(self) -> IntArray:
        among = np.flatnonzero((self.splits != TRAIN) & (self.splits > -2))
        return among[:: max(1, -(-len(among) // SAMPLE))]

    def degrees(self) -> Degrees:
        """Count the in-degrees of the test nodes."""
        chosen = (self.labels >= 0) & (self.splits == self.test_split)
        return Degrees(*np.unique(self.found.in_degree[chosen], return_counts=True))

    def _batch(self, rows: IntArray, ids: Any = None) -> Any:
        """Return some nodes; those with ids follow each other, and others may be anywhere."""
        import pyarrow as pa

        found, start = self.found, rows[0] if len(rows) else 0
        columns = {"id": ids, "label": self.labels[rows], "split": self.splits[rows]}
        if ids is None:
            every = pa.chunked_array(list(self._ids()))
            columns["id"] = every.take(pa.array(rows)).combine_chunks()
        for name in ("in_degree", "out_degree", "self_loops", "class_mean", "support"):
            if (values := getattr(found, name)) is not None:
                columns[name] = values[rows]
        for name, file in (("logits", self.logits), ("means", found.means)):
            if file is not None:
                some = file.take(rows) if ids is None else file.read(start, start + len(rows))
                columns[name] = column_of(some)
        return pa.record_batch(columns)

    def run(self, work: Work, folder: Path) -> Sums:
        """Calibrate batch by batch, on every core."""
        import pyarrow as pa

        start = 0
        self.share = lambda: start / max(len(self.labels), 1)

        def batches() -> Iterator[Any]:
            nonlocal start
            for ids in self._ids():
                rows = np.arange(start, start + len(ids))
                batch, kept = self._batch(rows, ids), self.splits[rows] > -2
                start += len(ids)
                if kept.any():
                    yield batch if kept.all() else batch.filter(pa.array(kept))

        return work.write(batches(), folder, "part", self.threads)[0]


def size_of(text: str) -> int:
    """Return the number of bytes of a size such as 4GiB, 500MB or 2g."""
    match = SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(
            f"the memory limit is {short_repr(text)}; expected a size such as 4GiB or 500MB."
        )
    number, unit, binary = match.groups()
    base = 1000 if text.strip()[-1:] in "bB" and not binary else 1024
    return int(float(number) * base ** ("kmgt".index(unit.lower()) + 1))


def _reader(batches: Iterator[Any]) -> Any:
    """Return batches as DuckDB reads them."""
    import pyarrow as pa

    first = next(batches, pa.record_batch({end: pa.array([], pa.int64()) for end in ENDS}))
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one sentence why DuckDB stopped."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise InputError(
            f"DuckDB stopped: {first_line(error)}; raise --memory-limit, or make room on the disk "
            "of --out."
        ) from error
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from error  # which it was; DuckDB makes a RuntimeError of it
