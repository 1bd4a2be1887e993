"""Records of cells on disk: JSON lines that are only ever appended to.

A line carries a checksum of itself. A line that is cut off or damaged counts as absent, so its
cell is computed again. So does a line that lacks a field, after a warning. Of several lines for
one cell the last that did not fail counts. A complete file may be compressed
(``gzip records/*.jsonl``); later records go to a new file next to it.

Records can grow. A reader ignores fields that it does not know, and a metric that a record does
not have is NaN.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from gnncal.data.errors import InputError, warn
from gnncal_lab.bench.plan import PROTOCOLS, Cell, Protocol

CHECKSUM = b',"checksum":"'  # how the end of each line begins
LONGEST_START = 1 << 20  # bytes that are looked at to know a file
COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)  # of the selective accuracy in records
AVERAGED = "averaged"  # over orders: ties in degree, in the degree-stratified ECE of a record
T = TypeVar("T")


def is_name(value: str) -> bool:
    """Return whether names of files can be made of it, in a folder and nowhere else."""
    return Path(value).name == value and value not in ("", ".", "..")


class ReliabilitySums(TypedDict):
    """Sums over the nodes of each bin of confidence."""

    count: list[int]
    confidence: list[float]
    correct: list[int]


@dataclass(frozen=True)
class Record:
    """The result of one cell."""

    dataset: str
    backbone: str
    seed: int
    method: str
    protocol: Protocol
    parameters: dict[str, Any]  # of the constructor, defaults included
    run: str  # name of the run in `runs.jsonl` that made it
    fit_cpu_seconds: float  # of the fit alone; a busy machine does not add to it
    cell_seconds: float  # on the clock: fit, prediction and metrics
    error: str | None = None  # why it failed, if it did
    learned: dict[str, Any] = field(default_factory=dict)  # fitted numbers
    metrics: dict[str, Any] = field(default_factory=dict)  # on test nodes

    def __post_init__(self) -> None:
        names = (self.dataset, self.backbone, self.method)
        if not all(map(is_name, names)) or self.protocol not in PROTOCOLS:
            raise ValueError(f"{names} and {self.protocol} are not the names of a cell")

    @property
    def cell(self) -> Cell:
        """The cell that this is the record of."""
        return Cell(self.dataset, self.backbone, self.seed, self.method, self.protocol)

    def metric(self, name: str) -> float:
        """Return a metric by name; NaN if the record does not have it."""
        value = self.metrics.get(name)
        return float("nan") if value is None else float(value)


def append_lines(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Add entries to a file, in one write, on disk before this returns."""
    check_records_file(path)
    payload = "".join(_line(entry) for entry in entries).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if _ends_within_a_line(path):
            payload = b"\n" + payload
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())


def check_records_file(path: Path) -> None:
    """Refuse to add lines to a file that does not look as if this program had written it."""
    if not path.exists():
        return
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(LONGEST_START)
        cut_off = start.startswith(b"{") and b"\n" not in start  # by the end of a killed run
        if not start or cut_off or CHECKSUM in start:
            return
    raise InputError(
        f"{path} is there already and has no record of gnncal, so nothing is added to it; choose "
        "another folder, or move it away."
    )


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the undamaged entries of a file, one at a time."""
    return (entry for _, entry in _numbered_entries(path))


def read_entries(path: Path, kind: type[T]) -> list[T]:
    """Return the entries of a file as records of a kind; warn of those that are none."""
    names, required = _fields_of(kind)
    found: list[T] = []
    wrong: list[int] = []
    for line, entry in _numbered_entries(path):
        try:
            if not required <= entry.keys():
                raise KeyError(required - entry.keys())
            found.append(kind(**{name: entry[name] for name in names if name in entry}))
        except (KeyError, TypeError, ValueError):
            wrong.append(line)
    if wrong:
        lines = ("line " if len(wrong) == 1 else "lines ") + ", ".join(map(str, wrong[:5]))
        warn(f"{path} has records that no run of gnncal writes; passed over ({lines}).")
    return found


def _fields_of(kind: Any) -> tuple[list[str], set[str]]:
    """Return the fields of a dataclass or TypedDict, and those that an entry must have."""
    if not is_dataclass(kind):
        return list(kind.__annotations__), set(kind.__required_keys__)
    needed = {f.name for f in fields(kind) if f.default is f.default_factory is MISSING}
    return [f.name for f in fields(kind)], needed


def append_records(folder: Path, records: Iterable[Record]) -> None:
    """Add records to the files of their datasets and backbones."""
    by_file: dict[Path, list[dict[str, Any]]] = {}
    for record in records:
        path = record_file(folder, record.dataset, record.backbone)
        by_file.setdefault(path, []).append(asdict(record))
    for path, entries in by_file.items():
        append_lines(path, entries)


def read_records(folder: Path) -> dict[Cell, Record]:
    """Return the last undamaged record of every cell; a failure never replaces a success."""
    found: dict[Cell, Record] = {}
    places = folder / "records"
    for path in (*sorted(places.glob("*.jsonl.gz")), *sorted(places.glob("*.jsonl"))):
        for record in read_entries(path, Record):
            earlier = found.get(record.cell, record)
            if record.error is None or earlier.error is not None:
                found[record.cell] = record
    return found


def record_file(folder: Path, dataset: str, backbone: str) -> Path:
    """Return the file of the records of a dataset and backbone."""
    return folder / "records" / f"{dataset}-{backbone}.jsonl"


def _line(entry: dict[str, Any]) -> str:
    body = json.dumps(entry, allow_nan=False, separators=(",", ":"))[:-1]
    return f'{body},"checksum":"{zlib.crc32(body.encode()):08x}"}}\n'


def _numbered_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the undamaged entries of a file with the numbers of their lines."""
    if not path.is_file():
        return
    for number_of_line, line in enumerate(_lines(path), 1):
        entry = _entry(line)
        if entry is not None:
            yield number_of_line, entry


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, up to where a compressed one is cut off or damaged."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file, suppress(EOFError, zlib.error, gzip.BadGzipFile):
        yield from file


def _entry(line: bytes) -> dict[str, Any] | None:
    body, _, rest = line.rstrip(b"\n").rpartition(CHECKSUM)
    if rest != b'%08x"}' % zlib.crc32(body):
        return None
    try:
        entry = json.loads(body + b"}")
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
