"""Where tables are read and nodes are calibrated: DuckDB in this process, or a Spark cluster."""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from gnncal.data.errors import InputError, MissingExtraError, short_repr
from gnncal.files.tables import Table, first_line
from gnncal.scale.batches import Judge, Reach, Work
from gnncal.scale.measures import Degrees, Sums
from gnncal.scale.tables import BadRowCount, Layout, Types

EngineName = Literal["duckdb", "spark"]
TableFiles = Table | str  # text is an address in object storage, which Spark finds by itself
SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
SMALLEST_LIMIT, LARGEST_LIMIT = 10**6, 1 << 50  # bytes; no query runs in less, no machine has more
MOST_THREADS = 1024  # each takes memory before it does anything
SAMPLE = 20_000  # nodes by which `check` knows the graph of a fit


class Engine(ABC):
    """Reads both tables, passes over the edges, and calibrates batches of nodes.

    The stages follow each other: ``open``, ``load``, ``join``, then ``calibration_rows``,
    ``sample`` and ``degrees`` in any order, and ``run``.
    """

    name: EngineName
    n_nodes = 0
    n_edges = 0
    is_undirected: bool | None = None
    has_test = False

    @abstractmethod
    def open(self, nodes: TableFiles, edges: TableFiles) -> tuple[Types, Types]:
        """Return the types of the columns of both tables."""

    @abstractmethod
    def list_lengths(self) -> dict[int | None, int]:
        """Count the lists of logits by their length."""

    @abstractmethod
    def load(self, layout: Layout, reach: Reach, bad: BadRowCount, *, fits: bool) -> None:
        """Read the nodes, count rows that cannot be used, and keep the others."""

    @abstractmethod
    def join(self, bad: BadRowCount) -> None:
        """Pass over the edges as often as the method asks for."""

    @abstractmethod
    def calibration_rows(self) -> Any:
        """Return the nodes of the split val as a batch."""

    @abstractmethod
    def sample(self) -> Any:
        """Return a batch of about 20,000 nodes outside training."""

    @abstractmethod
    def degrees(self, judge: Judge) -> Degrees:
        """Return the degrees of the test nodes."""

    @abstractmethod
    def run(self, work: Work, degrees: Degrees, folder: Path) -> Sums:
        """Calibrate every node, write the columns of the result, and add up the metrics."""

    @abstractmethod
    def close(self) -> None:
        """Give back memory, and disk that only this run used."""

    def progress(self) -> float | None:
        """Return how much of the stage is done, between 0 and 1, if the engine can tell."""
        return None


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
    if name not in ("duckdb", "spark"):
        raise InputError(f"engine is {name!r}; expected one of duckdb, spark.")
    if name != "spark" and master is not None:
        raise InputError("--master is the address of a Spark cluster; add --engine spark.")
    _check_settings(memory_limit, threads)
    if name == "duckdb":
        from gnncal.scale.local import DuckDB

        return DuckDB(work, memory_limit, threads)
    from gnncal.scale.spark import Spark

    return Spark(work, master, memory_limit)


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
                f"the memory limit is {short_repr(memory_limit)}, {less}; expected the memory "
                "that may be used, such as 4GiB."
            )
    if threads is None:
        return
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise InputError(f"threads is {short_repr(threads)}; expected a whole number.")
    if not 1 <= threads <= MOST_THREADS:
        raise InputError(
            f"the number of threads is {short_repr(threads)}; expected 1 to {MOST_THREADS:,} (this "
            f"machine has {os.cpu_count()} cores)."
        )


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
