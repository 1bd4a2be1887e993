"""Records of cells on disk: JSON lines that are only ever appended to.

A line carries a checksum of itself. A line that is cut off or damaged counts as absent, so its
cell is computed again. So does a line with a right checksum and values that no run writes, after
a warning. Of several lines for one cell the last that did not fail counts. A complete
file may be compressed (``gzip records/*.jsonl``); later records go to a new file next to it.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

from gnncal.data.constraints import Constraint, integer, number
from gnncal.data.errors import InputError, warn
from gnncal.files.archives import ExpansionError
from gnncal.metrics.table import METRICS
from gnncal_lab.bench.plan import Cell, Protocol
from gnncal_lab.bench.typed import Amount, Count, Entries, Share, parse_json, read_as

CHECKSUM = b',"checksum":"'  # how the end of each line begins
LONGEST_START = 1 << 20  # bytes that are looked at to know a file
COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)  # of the selective accuracy in records
LONGEST_NAME = 200  # characters
LONGEST_LINE = 1 << 22  # bytes; that of a diagnosis, the longest, has 20 thousand
LARGEST_EXPANSION = 100  # times a file's own size; records shrink to a sixth
ALWAYS_UNPACKED = 1 << 26  # bytes that any compressed file may unpack to
T = TypeVar("T")


def _is_name(value: str) -> bool:
    """Return whether names of files can be made of it, in a folder and nowhere else."""
    is_part = Path(value).name == value and value not in ("", ".", "..")
    return is_part and len(value) <= LONGEST_NAME and min(value) >= " "


def has_length(length: int) -> Constraint:
    """Return the constraint that a list has so many entries."""
    return Constraint(f"a list of {length}", lambda value: len(value) == length)


ONE_LENGTH = Constraint(
    "lists of one length, at least 1",
    lambda lists: len(lengths := set(map(len, lists.values()))) == 1 and min(lengths) > 0,
)
Name = Annotated[str, Constraint("a name that a file can have", _is_name)]
Seed = Annotated[int, integer(at_least=0)]
Value = Annotated[float, number()]  # of a metric


class ReliabilitySums(TypedDict):
    """Sums over the nodes of each bin of confidence."""

    count: list[Count]
    confidence: list[Amount]
    correct: list[Count]


METRIC_ENTRIES = Entries(
    {
        **dict.fromkeys(METRICS, Value | None),
        **{name: Value | None for metric in METRICS.values() if (name := metric.floor_name)},
        "n_nodes": Annotated[int, integer(at_least=1)],
        "prediction_changes": Count,
        "selective_accuracy": Annotated[list[Share], has_length(len(COVERAGES))],
        "reliability": Annotated[ReliabilitySums, ONE_LENGTH],
    }
)


@dataclass(frozen=True)
class Record:
    """The result of one cell."""

    dataset: Name
    backbone: Name
    seed: Seed
    method: Name
    protocol: Protocol
    parameters: dict[str, Any]  # of the constructor, defaults included
    run: str  # name of the run in `runs.jsonl` that made it
    fit_cpu_seconds: Amount  # of the fit alone; a busy machine does not add to it
    cell_seconds: Amount  # on the clock: fit, prediction and metrics
    error: str | None = None  # why it failed, if it did
    learned: dict[str, Any] = field(default_factory=dict)  # fitted numbers
    metrics: Annotated[dict[str, Any], METRIC_ENTRIES] = field(
        default_factory=dict
    )  # on test nodes

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
    found: list[T] = []
    wrong: list[str] = []
    for line, entry in _numbered_entries(path):
        try:
            found.append(read_as(kind, entry))
        except InputError as error:
            wrong.append(f"line {line}: {error}")
    if wrong:
        count = "1 line" if len(wrong) == 1 else f"{len(wrong)} lines"
        warn(f"{path} has {count} that no run of gnncal writes; passed over ({wrong[0]})")
    return found


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
    """Yield the lines of a file; one that is longer than any run writes it is empty."""
    pieces: list[bytes] = []
    size = 0
    for part in _unpacked(path) if path.suffix == ".gz" else _parts(path):
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end]) if size <= LONGEST_LINE else b""
            pieces, size = [], 0
        size += len(rest)
        pieces = [*pieces, rest] if size <= LONGEST_LINE else []
    yield b"".join(pieces)


def _entry(line: bytes) -> dict[str, Any] | None:
    body, _, rest = line.rpartition(CHECKSUM)
    if rest != b'%08x"}' % zlib.crc32(body):
        return None
    try:
        entry = parse_json(body + b"}")
    except InputError:
        return None
    return entry if isinstance(entry, dict) else None


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(1 << 16):
            yield part


def _unpacked(path: Path) -> Iterator[bytes]:
    """Decompress a file up to where it is cut off or damaged, and never to an absurd size."""
    limit = max(ALWAYS_UNPACKED, LARGEST_EXPANSION * path.stat().st_size)
    size = 0
    with gzip.open(path) as file, suppress(EOFError, OSError, zlib.error):
        while part := file.read1(1 << 12):
            size += len(part)
            if size > limit:
                raise ExpansionError(
                    f"{path} unpacks to more than {limit:,} bytes, far more than records of its "
                    "size; if they are yours, unpack them with gunzip, else remove the file."
                )
            yield part


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
