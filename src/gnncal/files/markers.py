"""Which files of a folder this program made.

A folder of results carries ``.gnncal.json``: the name of this program, the files that it wrote
there with their sizes, and a checksum of that list. A file that is not in the list, or is not as
it was written, belongs to the user and is neither removed nor replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MARKER = ".gnncal.json"
PROGRAM = "gnncal"
ABOUT = "gnncal replaces and removes only the files of this list, and only as they were written."
LARGEST_DIGESTED = 16 << 20  # bytes; of larger files, which nobody edits by hand, the size tells
LARGEST_MARKER = 64 << 20
NOT_A_FILE = -1  # the size of links, pipes and empty folders, which are never written


class Made(NamedTuple):
    """A file as it was written."""

    name: str  # within the folder, with slashes
    size: int
    digest: str | None  # SHA-256; None for large files


def marker_text(made: Iterable[Made]) -> str:
    """Return the content of a marker that lists these files."""
    files = [list(each) for each in sorted(made, key=_order)]
    content = {
        "made_by": PROGRAM,
        "about": ABOUT,
        "files": files,
        "checksum": _checksum(files),
    }
    return json.dumps(content, indent=1) + "\n"


def read_marker(content: bytes) -> frozenset[Made] | None:
    """Return the files that a marker lists; None if it is no marker, or was changed."""
    try:
        marker = json.loads(content)
        files = marker["files"]
        if marker["made_by"] != PROGRAM or marker["checksum"] != _checksum(files):
            return None
        return frozenset(Made(str(name), int(size), digest) for name, size, digest in files)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def foreign_names(made: Collection[Made] | None, listing: Mapping[str, int]) -> list[str]:
    """Return the names that this program did not write, of a listing with sizes.

    ``listing`` has every file below the folder, the marker too. If the answer is empty, the folder
    is ours and may be replaced. Files that were deleted since do not matter. Contents are not
    looked at; :func:`foreign_files` does that too.
    """
    known = {(each.name, each.size) for each in made or ()}
    own_marker = made is not None
    return [
        name
        for name, size in sorted(listing.items())
        if (name, size) not in known and not (own_marker and name == MARKER)
    ]


def foreign_files(folder: Path, names: Collection[str] | None = None) -> list[str]:
    """Return which files of a folder, or of these names in it, this program did not write."""
    made = marked(folder)
    listing = _listing(folder, names)
    foreign = foreign_names(made, listing)
    return sorted(
        {*foreign, *(n for n in listing if n not in foreign and _changed(folder, n, made))}
    )


def marked(folder: Path) -> frozenset[Made] | None:
    """Return what the marker of a folder lists; None if it has no marker."""
    path = folder / MARKER
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_MARKER:
        return None
    return read_marker(path.read_bytes())


def describe(folder: Path) -> frozenset[Made]:
    """Return every file below a folder as a marker lists it."""
    return frozenset(
        Made(name, size, _digest(folder / name, size))
        for name, size in _listing(folder).items()
        if name != MARKER and size != NOT_A_FILE
    )


def _changed(folder: Path, name: str, made: Collection[Made] | None) -> bool:
    if name == MARKER:
        return False
    path = folder / name
    size = path.stat().st_size
    return Made(name, size, _digest(path, size)) not in (made or ())


def _listing(folder: Path, names: Collection[str] | None = None) -> dict[str, int]:
    """Return the sizes of everything below a folder, or below these names in it."""
    paths = [folder / name for name in (os.listdir(folder) if names is None else names)]
    entries = (each for path in paths if os.path.lexists(path) for each in _walk(path))
    return {path.relative_to(folder).as_posix(): size for path, size in entries}


def _walk(path: Path) -> Iterator[tuple[Path, int]]:
    """A file itself, or what is in a folder and below; links are not followed."""
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        yield path, facts.st_size if stat.S_ISREG(facts.st_mode) else NOT_A_FILE
        return
    inside = [each for name in os.listdir(path) for each in _walk(path / name)]
    yield from inside or [(path, NOT_A_FILE)]


def _digest(path: Path, size: int) -> str | None:
    if size > LARGEST_DIGESTED:
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checksum(files: Any) -> str:
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _order(each: Made) -> tuple[str, int, str]:
    return each.name, each.size, each.digest or ""
