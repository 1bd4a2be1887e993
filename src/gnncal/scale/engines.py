"""Where the expressions run: DuckDB in this process, or a Spark cluster."""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from gnncal.core.errors import InputError, MissingExtraError, require
from gnncal.scale.columns import is_remote

EngineName = Literal["duckdb", "spark"]
MIB_PER_FILE = 256  # of the output, about
SHARE_OF_MEMORY = 0.8  # of the limit for DuckDB's tables; Python and its own code need the rest
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)


class Engine(ABC):
    """Reads Parquet, computes tables and keeps them, writes Parquet."""

    name: EngineName
    connection: Any  # the Ibis backend

    @abstractmethod
    def read(self, source: str) -> Any:
        """Return the table in a Parquet file, a folder of them (Hive partitions too) or a glob."""

    @abstractmethod
    def keep(self, name: str, expression: Any) -> Any:
        """Compute a table now and keep it until the engine closes."""

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
            settings["memory_limit"] = f"{int(SHARE_OF_MEMORY * size_of(memory_limit))}B"
        if threads is not None:
            settings["threads"] = threads
        self.connection = ibis.duckdb.connect(work / "work.duckdb", **settings)
        with suppress(duckdb.Error):  # it draws onto the terminal otherwise
            self.connection.raw_sql("SET enable_progress_bar_print = false")
            self.connection.raw_sql("SET enable_progress_bar = true")

    def read(self, source: str) -> Any:
        """Read Parquet files; local folders may be Hive partitions."""
        import duckdb

        path = source
        if not is_remote(source) and Path(source).is_dir():
            path = f"{source}/**/*.parquet"
        try:
            return self.connection.read_parquet(path, hive_partitioning=True)
        except duckdb.Error as error:
            raise InputError(
                f"{source} cannot be read as Parquet ({_first_line(error)})."
            ) from error

    def keep(self, name: str, expression: Any) -> Any:
        """Keep a table in the database in the work folder."""
        with _plain_errors():
            return self.connection.create_table(name, expression)

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
        with _plain_errors():
            return super().fetch(expression)

    def write(self, expression: Any, folder: Path) -> None:
        """Write files of about 256 MiB."""
        folder.mkdir(parents=True)
        with _plain_errors():
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

    def __init__(self, work: Path, master: str | None, memory_limit: str | None) -> None:
        pyspark = require("pyspark", extra="spark", purpose="--engine spark")
        ibis = require("ibis", extra="spark", purpose="--engine spark")
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
        self.was_running = pyspark.sql.SparkSession.getActiveSession() is not None
        self.session = builder.getOrCreate()
        self.connection = ibis.pyspark.connect(self.session)

    def read(self, source: str) -> Any:
        """Read a folder with its partitions, or a glob, as Spark does."""
        try:
            return self.connection.read_parquet(source)
        except Exception as error:  # Spark wraps Java's exceptions in its own
            raise InputError(
                f"{source} cannot be read as Parquet ({_first_line(error)})."
            ) from error

    def keep(self, name: str, expression: Any) -> Any:
        """Keep a table as a folder of Parquet files."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        self.connection.to_parquet_dir(expression, str(folder))
        return self.connection.read_parquet(str(folder), table_name=f"gnncal_{name}")

    def drop(self, name: str) -> None:
        """Remove the folder of a table."""
        shutil.rmtree(self.work / name, ignore_errors=True)

    def write(self, expression: Any, folder: Path) -> None:
        """Write one file for each of Spark's partitions."""
        self.connection.to_parquet_dir(expression, str(folder))
        for stray in [*folder.glob(".*"), *folder.glob("_*")]:
            stray.unlink()  # checksums and markers of Spark's own

    def close(self) -> None:
        """Stop the session, unless it was there before."""
        if not self.was_running:
            self.session.stop()


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Say in one sentence why DuckDB stopped."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"DuckDB needs more than the memory limit ({_first_line(error)}); raise "
            "--memory-limit, or make room on the disk of --out."
        ) from error
    except duckdb.Error as error:
        raise InputError(f"DuckDB stopped: {_first_line(error)}") from error


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
    return engines[name]()


def check_java() -> None:
    """Raise an InputError if Spark has no Java; Spark itself would print a stack trace."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").is_file()):
        raise MissingExtraError(
            "--engine spark needs Java 17, and there is no java on the PATH nor in JAVA_HOME; "
            "install it (for example openjdk-17-jre-headless), or use --engine duckdb."
        )


def size_of(text: str) -> int:
    """Return the number of bytes of a size such as 4GiB, 500MB or 2g."""
    found = SIZE.fullmatch(text)
    if found is None:
        raise InputError(f"the memory limit is {text!r}; expected a size such as 4GiB or 500MB.")
    number, unit, binary = found.groups()
    base = 1000 if text.strip()[-1:] in "bB" and not binary else 1024
    return int(float(number) * base ** ("kmgt".index(unit.lower()) + 1))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
