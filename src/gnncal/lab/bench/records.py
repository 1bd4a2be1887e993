"""Records of cells on disk: JSON lines that are only ever appended to.

A line carries a checksum of itself. A line that is cut off or damaged counts as absent, so its
cell is computed again. Of several lines for one cell the last that did not fail counts. A complete
file may be compressed (``gzip records/*.jsonl``); later records go to a new file beside it.

Records can grow. A reader ignores fields that it does not know, and a metric that a record does
not have is NaN. ``schema`` says what the numbers mean where that changed:

1. (records without a number) test nodes in the shuffled order of the split;
2. test nodes in the order of their ids. Degree-stratified ECE and the homophily split break ties
   by that order.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from gnncal.lab.bench.plan import Cell, Protocol

SCHEMA = 2  # of new records; see above


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
    metrics: dict[str, Any] = field(default_factory=dict)  # on the test nodes
    schema: int = SCHEMA

    @property
    def cell(self) -> Cell:
        """The cell that this is the record of."""
        return Cell(self.dataset, self.backbone, self.seed, self.method, self.protocol)

    def metric(self, name: str) -> float:
        """Return a metric by name; NaN if the record does not have it."""
        value = self.metrics.get(name)
        return float("nan") if value is None else float(value)

    @classmethod
    def from_entry(cls, entry: dict[str, Any]) -> Record | None:
        """Return the record of a line; None if the line is not a record."""
        known = {f.name: f for f in fields(cls)}
        required = {name for name, f in known.items() if _has_no_default(f)}
        if not required <= entry.keys():
            return None
        values = {name: value for name, value in entry.items() if name in known}
        return cls(**{"schema": 1, **values})


def append_lines(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Add entries to a file, in one write, on disk before this returns."""
    payload = "".join(_line(entry) for entry in entries).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if _ends_within_a_line(path):
            payload = b"\n" + payload
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the undamaged entries of a file."""
    if not path.is_file():
        return
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = _unpacked(content)
    for line in content.split(b"\n"):
        entry = _entry(line)
        if entry is not None:
            yield entry


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
        for entry in read_lines(path):
            record = Record.from_entry(entry)
            if record is None:
                continue
            earlier = found.get(record.cell, record)
            if record.error is None or earlier.error is not None:
                found[record.cell] = record
    return found


def record_file(folder: Path, dataset: str, backbone: str) -> Path:
    """Return the file of the records of a dataset and backbone."""
    return folder / "records" / f"{dataset}-{backbone}.jsonl"


def _has_no_default(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _line(entry: dict[str, Any]) -> str:
    body = json.dumps(entry, allow_nan=False, separators=(",", ":"))[:-1]
    return f'{body},"checksum":"{zlib.crc32(body.encode()):08x}"}}\n'


def _entry(line: bytes) -> dict[str, Any] | None:
    body, _, rest = line.rpartition(b',"checksum":"')
    if rest != b'%08x"}' % zlib.crc32(body):
        return None
    return dict(json.loads(body + b"}"))


def _unpacked(content: bytes) -> bytes:
    """Decompress a file up to where it is cut off or damaged."""
    parts = []
    with gzip.open(io.BytesIO(content)) as file, suppress(EOFError, OSError, zlib.error):
        while part := file.read1(1 << 12):
            parts.append(part)
    return b"".join(parts)


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
