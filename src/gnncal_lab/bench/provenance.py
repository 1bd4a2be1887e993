"""What made the records of a folder: command, date, versions and source code of each run."""

from __future__ import annotations

import platform
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from gnncal_lab.bench.records import append_lines, read_entries
from gnncal_lab.bench.source import package_source

FILE = "runs.jsonl"
PACKAGES = ("gnncal", "numpy", "scipy", "scikit-learn", "torch")


@dataclass(frozen=True)
class RunNote:
    """A line about one run; older ones do not have all of it."""

    run: str  # the short name that its records carry
    date: str = ""
    command: str = ""
    source: Any = None  # version and digest of the source code, by name
    versions: dict[str, str | None] | None = None
    machine: str = ""


def note_run(folder: Path, command: str) -> str:
    """Add a line about a run that begins, and return the short name that its records carry."""
    name = secrets.token_hex(4)
    about = RunNote(
        name,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        source=package_source(),
        versions={"python": platform.python_version(), **_versions()},
        machine=f"{platform.system()} {platform.machine()}",
    )
    append_lines(folder / FILE, [asdict(about)])
    return name


def read_runs(folder: Path) -> dict[str, RunNote]:
    """Return what is noted of the runs of a folder, by name."""
    return {about.run: about for about in read_entries(folder / FILE, RunNote)}


def _versions() -> dict[str, str | None]:
    """Return the versions of the packages that results depend on, those with plugins included."""
    declaring = [each.dist for each in entry_points(group="gnncal.calibrators")]
    found: dict[str, str | None] = {
        each.name: each.version for each in declaring if each is not None and each.name != "gnncal"
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
