"""Where the expressions run: DuckDB in this process, or a Spark cluster."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from gnncal.data.errors import InputError, MissingExtraError, require, shown
from gnncal.files.tables import Table, first_line, is_uuid
from gnncal.scale.uuids import as_text, restore_uuids, spark_schema, uuid_columns

EngineName = Literal["duckdb", "spark"]
TableFiles = Table | str  # text is an address in object storage, which Spark finds by itself
MIB_PER_FILE = 256  # of the output, about
SHARE_OF_MEMORY = 0.8  # of the limit for DuckDB's tables; Python and its own code need the rest,
OTHER_MEMORY = 512 << 20  # at least so many bytes,
LEAST_SHARE = 0.5  # unless that is more than half of the limit
SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
SMALLEST_LIMIT, LARGEST_LIMIT = 10**6, 1 << 50  # bytes; no query runs in less, no machine has more
VALUES_AT_ONCE = 1 << 21  # of rows that NumPy computes with
BLOCK = 2**17  # bytes at least in one request to storage
BATCH = "gnncal_batch"  # what DuckDB calls such rows
MOST_THREADS = 1024  # each takes memory before it does anything


class Engine(ABC):
    """Reads Parquet, computes tables and keeps them, writes Parquet."""

    name: EngineName
    uuid_type: str = "uuid"
    connection: Any  # the Ibis backend

    def read(self, table: TableFiles) -> Any:
        """Return the table in some files; where its types differ between them, they become one."""
        import ibis

        if isinstance(table, str):
            return self._read_address(table)
        types = {
            name: ibis.dtype(self.uuid_type if is_uuid(kind) else kind)
            for name, kind in table.types.items()
        }
        parts = []
        for group in table.groups:
            try:
                part = self._read_files(table, group.files)
            except MemoryError:
                raise
            except Exception as error:  # Spark wraps Java's exceptions in its own
                raise InputError(
                    f"{table.given} cannot be read as Parquet ({first_line(error)})."
                ) from error
            casts = {name: part[name].cast(types[name]) for name in table.mixed}
            said = {
                name: ibis.literal(value if value is None else str(value)).cast(types[name])
                for name, value in group.folders.items()
            }
            parts.append(part.mutate(**casts, **said).select(*table.types))
        return ibis.union(*parts)

    @abstractmethod
    def _read_files(self, table: Table, files: list[str]) -> Any:
        """Read some files whose types are the same."""

    def _read_address(self, address: str) -> Any:
        """Read from object storage that only the engine can reach."""
        raise NotImplementedError

    @abstractmethod
    def keep(self, name: str, expression: Any) -> Any:
        """Compute a table now and keep it until the engine closes."""

    def keep_computed(
        self,
        name: str,
        expression: Any,
        compute: Callable[[dict[str, Any]], dict[str, Any]],
        results: list[str],
    ) -> Any:
        """Keep id and what a NumPy function makes of the columns, a few rows at a time."""
        import ibis
        import pyarrow as pa

        n_rows = max(1, VALUES_AT_ONCE // len(expression.columns))
        kinds = dict.fromkeys(results, ibis.dtype("float64"))
        schema = ibis.schema({"id": expression.schema()["id"], **kinds})

        def computed() -> Iterator[pa.Table]:
            for batch in self._batches(name, expression, n_rows):
                columns = {
                    column: batch[column].to_numpy(zero_copy_only=False)
                    for column in batch.schema.names
                    if column != "id"
                }
                computed = compute(columns)
                yield pa.table({"id": batch["id"], **{r: computed[r] for r in results}})

        return self._keep_batches(name, schema, computed())

    @abstractmethod
    def _batches(self, name: str, expression: Any, n_rows: int) -> Iterator[Any]:
        """Compute a table and hand it out as pyarrow batches of at most so many rows."""

    @abstractmethod
    def _keep_batches(self, name: str, schema: Any, tables: Iterator[Any]) -> Any:
        """Keep the rows of pyarrow tables as one table."""

    @abstractmethod
    def write(self, expression: Any, folder: Path) -> None:
        """Write a table as a folder of Parquet files."""

    @abstractmethod
    def close(self) -> None:
        """Give back memory, and disk that only this run used."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Give back the disk of a kept table."""

    @property
    def memory(self) -> int | None:
        """Bytes that tables may take in memory; None if the engine divides its work by itself."""
        return None

    def fetch(self, expression: Any) -> Any:
        """Return a small table as pyarrow."""
        return self.connection.to_pyarrow(expression)

    def progress(self) -> float | None:
        """Return how much of the running query is done, in percent, if the engine can tell."""
        return None


class DuckDB(Engine):
    """DuckDB inside this process; what exceeds the memory limit goes to the work folder."""

    name: EngineName = "duckdb"

    def __init__(self, work: Path, memory_limit: str | None, threads: int | None) -> None:
        require("duckdb", extra="scale", purpose="calibrating with DuckDB")
        ibis = require("ibis", extra="scale", purpose="calibrating with DuckDB")
        import duckdb

        settings: dict[str, Any] = {"temp_directory": str(work / "temp")}
        # Order costs memory and means nothing here: rows have ids.
        settings["preserve_insertion_order"] = False
        if memory_limit is not None:
            settings["memory_limit"] = f"{_memory_of_tables(size_of(memory_limit))}B"
        if threads is not None:
            settings["threads"] = threads
        self.connection = ibis.duckdb.connect(work / "work.duckdb", **settings)
        with suppress(duckdb.Error):  # it draws onto the terminal otherwise
            self.connection.raw_sql("SET enable_progress_bar_print = false")
            self.connection.raw_sql("SET enable_progress_bar = true")

    def _read_files(self, table: Table, files: list[str]) -> Any:
        """Read the files by their names; those of object storage through fsspec."""
        names = [_escaped(file) for file in files]
        if table.is_remote:  # by a protocol of our own, for which no extension is downloaded
            protocol = f"gnncal-{uuid4().hex}"
            self.connection.con.register_filesystem(_under(table.storage, protocol))
            names = [f"{protocol}://{file}" for file in files]
        return self.connection.read_parquet(names, hive_partitioning=False)

    def keep(self, name: str, expression: Any) -> Any:
        """Keep a table in the database in the work folder."""
        with plain_errors():
            return self.connection.create_table(name, expression)

    def _batches(self, name: str, expression: Any, n_rows: int) -> Iterator[Any]:
        """Stream the rows through a connection of its own: another query would end the stream."""
        import ibis

        with plain_errors(), self.connection.con.cursor() as reader:
            rows = reader.sql(str(ibis.to_sql(expression, dialect="duckdb")))
            # DuckDB 2.0 has a new name for it.
            stream = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
            yield from stream(n_rows)

    def _keep_batches(self, name: str, schema: Any, tables: Iterator[Any]) -> Any:
        """Insert the rows into a table of the database."""
        kept = self.connection.create_table(name, schema=schema)
        for table in tables:
            with plain_errors():
                self.connection.con.register(BATCH, table)
                self.connection.raw_sql(f'INSERT INTO "{name}" SELECT * FROM "{BATCH}"')
                self.connection.con.unregister(BATCH)
        return kept

    def drop(self, name: str) -> None:
        """Drop a table; its blocks of the file are used again."""
        self.connection.raw_sql(f'DROP TABLE "{name}"')

    @property
    def memory(self) -> int:
        """Bytes of the memory limit, which is part of the machine's memory if none was given."""
        limit = self.connection.raw_sql("SELECT current_setting('memory_limit')").fetchall()[0][0]
        return size_of(limit)

    def fetch(self, expression: Any) -> Any:
        """Return a small table as pyarrow."""
        with plain_errors():
            return super().fetch(expression)

    def write(self, expression: Any, folder: Path) -> None:
        """Write files of about 256 MiB."""
        folder.mkdir(parents=True)
        with plain_errors():
            self.connection.to_parquet(
                expression,
                folder,
                compression="zstd",
                file_size_bytes=f"{MIB_PER_FILE}MB",
                filename_pattern="part-{i}",
            )

    def progress(self) -> float | None:
        """Return the progress that DuckDB estimates."""
        percent = float(self.connection.con.query_progress())
        return percent if percent >= 0 else None

    def close(self) -> None:
        """Close the database; its file is removed with the work folder."""
        self.connection.disconnect()


class Spark(Engine):
    """Spark through Ibis; intermediate tables are Parquet in the work folder, which all see."""

    name: EngineName = "spark"
    uuid_type = "string"  # Spark has no UUIDs

    def __init__(self, work: Path, master: str | None, memory_limit: str | None) -> None:
        pyspark = require("pyspark", extra="spark", purpose="--engine spark")
        ibis = require("ibis", extra="spark", purpose="--engine spark")
        check_java()
        self.work, self.has_uuids = work, False
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
        self.was_running = pyspark.sql.SparkSession.getActiveSession() is not None
        try:
            with _own_handler():
                self.session = builder.getOrCreate()
        except Exception as error:  # whatever Java, the network or the settings raise
            raise InputError(
                f"Spark did not start ({first_line(error)}); check --master, --memory-limit and "
                "what Java says above."
            ) from error
        self.connection = ibis.pyspark.connect(self.session)

    def _read_files(self, table: Table, files: list[str]) -> Any:
        """Read the files by their names."""
        import pyarrow.parquet as pq

        schema = pq.read_schema(files[0])
        uuids, reader = uuid_columns(schema), self.session.read
        if uuids:
            self.has_uuids |= "id" in uuids
            reader = reader.schema(spark_schema(schema))
        rows = reader.parquet(*(_escaped_for_spark(file) for file in files))
        return self._as_table(as_text(rows, uuids))

    def _read_address(self, address: str) -> Any:
        """Hand an address to Spark, which has its own connectors."""
        try:
            return self._as_table(self.session.read.parquet(address))
        except Exception as error:  # Spark wraps Java's exceptions in its own
            raise InputError(
                f"{address} cannot be read as Parquet ({first_line(error)})."
            ) from error

    def _as_table(self, rows: Any) -> Any:
        name = f"gnncal_{uuid4().hex}"
        rows.createOrReplaceTempView(name)
        return self.connection.table(name)

    def keep(self, name: str, expression: Any) -> Any:
        """Keep a table as a folder of Parquet files."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        self.connection.to_parquet_dir(expression, str(folder))
        return self.connection.read_parquet(str(folder), table_name=f"gnncal_{name}")

    def _batches(self, name: str, expression: Any, n_rows: int) -> Iterator[Any]:
        """Let Spark write the rows, and read them from there."""
        import pyarrow.dataset as ds

        self.keep(f"{name}_rows", expression)
        yield from ds.dataset(self.work / f"{name}_rows", format="parquet").to_batches(
            batch_size=n_rows, batch_readahead=0, fragment_readahead=1
        )
        self.drop(f"{name}_rows")

    def _keep_batches(self, name: str, schema: Any, tables: Iterator[Any]) -> Any:
        """Write the rows as a file where intermediate tables are."""
        import pyarrow.parquet as pq

        folder, wanted = self.work / name, schema.to_pyarrow()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with pq.ParquetWriter(folder / "part-0.parquet", wanted) as writer:
            for table in tables:
                writer.write_table(table.cast(wanted))
        return self.connection.read_parquet(str(folder), table_name=f"gnncal_{name}")

    def drop(self, name: str) -> None:
        """Remove the folder of a table."""
        shutil.rmtree(self.work / name, ignore_errors=True)

    def write(self, expression: Any, folder: Path) -> None:
        """Write one file for each of Spark's partitions."""
        self.connection.to_parquet_dir(expression, str(folder))
        for stray in [*folder.glob(".*"), *folder.glob("_*")]:
            stray.unlink()  # checksums and markers of Spark's own
        if self.has_uuids:
            restore_uuids(folder, "id")

    def close(self) -> None:
        """Stop the session, unless it was there before."""
        if not self.was_running:
            self.session.stop()


@contextmanager
def _own_handler() -> Iterator[None]:
    """Put back what Ctrl-C did before: Spark's handler talks to Java amid another conversation."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one sentence why DuckDB stopped."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"DuckDB needs more than the memory limit ({first_line(error)}); raise "
            "--memory-limit, or make room on the disk of --out."
        ) from error
    except duckdb.Error as error:
        raise InputError(f"DuckDB stopped: {first_line(error)}") from error
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from error  # which it was; DuckDB makes a RuntimeError of it


def open_engine(
    name: str,
    work: Path,
    *,
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
) -> Engine:
    """Return the engine of that name, which uses ``work`` for what does not fit in memory."""
    engines: dict[str, Callable[[], Engine]] = {
        "duckdb": lambda: DuckDB(work, memory_limit, threads),
        "spark": lambda: Spark(work, master, memory_limit),
    }
    if name not in engines:
        raise InputError(f"engine is {name!r}; expected one of {', '.join(engines)}.")
    if name != "spark" and master is not None:
        raise InputError("--master is the address of a Spark cluster; add --engine spark.")
    _check_settings(memory_limit, threads)
    return engines[name]()


def check_java() -> None:
    """Raise an InputError if Spark has no Java; Spark itself would print a stack trace."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").is_file()):
        raise MissingExtraError(
            "--engine spark needs Java 17, and there is no java on the PATH nor in JAVA_HOME; "
            "install it (for example openjdk-17-jre-headless), or use --engine duckdb."
        )


def _check_settings(memory_limit: str | None, threads: int | None) -> None:
    """Look at sizes before an engine does: DuckDB would try to start any number of threads."""
    if memory_limit is not None:
        size = size_of(memory_limit)
        if not SMALLEST_LIMIT <= size <= LARGEST_LIMIT:
            less = "less than 1MB" if size < SMALLEST_LIMIT else "more than 1024TiB"
            raise InputError(
                f"the memory limit is {shown(memory_limit)}, {less}; expected the memory that may "
                "be used, such as 4GiB."
            )
    if threads is None:
        return
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise InputError(f"threads is {shown(threads)}; expected a whole number.")
    if not 1 <= threads <= MOST_THREADS:
        raise InputError(
            f"the number of threads is {shown(threads)}; expected 1 to {MOST_THREADS:,} (this "
            f"machine has {os.cpu_count()} cores)."
        )


def size_of(text: str) -> int:
    """Return the number of bytes of a size such as 4GiB, 500MB or 2g."""
    match = SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(
            f"the memory limit is {shown(text)}; expected a size such as 4GiB or 500MB."
        )
    number, unit, binary = match.groups()
    base = 1000 if text.strip()[-1:] in "bB" and not binary else 1024
    return int(float(number) * base ** ("kmgt".index(unit.lower()) + 1))


def _memory_of_tables(limit: int) -> int:
    """Return the bytes that DuckDB may use of the memory of the process."""
    most = min(SHARE_OF_MEMORY * limit, limit - OTHER_MEMORY)
    return int(max(LEAST_SHARE * limit, most))


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


def _escaped_for_spark(name: str) -> str:
    """Return a name that Spark does not take for a pattern."""
    return "".join(f"\\{sign}" if sign in "{}[]*?\\" else sign for sign in name)
