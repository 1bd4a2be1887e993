"""What made the records of a folder: command, date, versions and source code of each run."""

from __future__ import annotations

import platform
import secrets
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gnncal.calibrators.plugins import plugin_versions
from gnncal.lab.bench.records import append_lines
from gnncal.lab.bench.source import package_source

FILE = "runs.jsonl"
PACKAGES = ("gnncal", "numpy", "scipy", "scikit-learn", "torch")


def note_run(folder: Path, command: str) -> str:
    """Add a line about a run that begins, and return the short name that its records carry."""
    name = secrets.token_hex(4)
    about = {
        "run": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "source": package_source(),
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": f"{platform.system()} {platform.machine()}",
    }
    append_lines(folder / FILE, [about])
    return name


def _versions() -> dict[str, str | None]:
    """Return the versions of the packages that results depend on, those with plugins included."""
    found: dict[str, str | None] = {**plugin_versions()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
