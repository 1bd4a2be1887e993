"""Where results go: folders and single files that never take the place of what is not ours.

A folder of results is new, or empty, or has the marker ``.gnncal.json``: which command made it, and
the SHA-256 of each file. Only files that the marker lists, under names that a result can have, are
replaced or removed. While files move into their places the marker says so, and whoever reads one of
them is told.

A single file is replaced only if its content proves that this program wrote it: saved objects by
their header, pages and the states of watches by a checksum of their own (:func:`seal`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

from gnncal.data.errors import InputError, short_repr, warn

MARKER = ".gnncal.json"
WORK = ".gnncal-"  # how the names of files and folders on their way begin
DISK = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)  # errors that come without the name of a file
WEIGHTS = b'{"__metadata__":{"gnncal":'  # how the header of our safetensors files begins
TABLES = "probabilities.npz probabilities.parquet"
DECIDED = "decisions.npz decisions.parquet summary.json calibrator.safetensors"
RESULTS = {  # what a verb may write, so that a user's file of that name is refused before any work
    "apply": f"{TABLES} decisions.npz decisions.parquet policy.safetensors summary.json",
    "calibrate": f"{TABLES} calibrator.safetensors summary.json",
    "demo": f"{TABLES} calibrator.safetensors policy.safetensors summary.json"
    " bundle.npz report.html results.json",
    "decide": f"{DECIDED} policy.safetensors",
    "scale": "probabilities calibrator.safetensors metrics.json",
    "sets": f"{DECIDED} conformal.safetensors",
    "update": f"{TABLES} calibrator.safetensors summary.json",
}
WORK_FOLDER = re.compile(r"\.gnncal-[a-z0-9_]{8}")  # as TemporaryDirectory names it
NUMBERED = ("policy-[0-9]*.safetensors", "probabilities/part-[0-9]*.parquet")
SEALED = re.compile(rb'gnncal sha256(?: |": ")([0-9a-f]{64})(?: -->\n|"}\n)\Z')


def as_path(path: Any) -> Path:
    """Return the path that a user has passed; raise an InputError if it is not a path."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"path is {short_repr(path)}; pass the name of a file, as text or a Path.")
    return Path(text)


# Single files


def seal(text: str) -> bytes:
    """Return a page or a JSON object with its own checksum at the end."""
    before, within, after = b"<!-- ", b" ", b" -->\n"  # so that the file stays valid
    if text.startswith("{"):
        before, within, after = b', "', b'": "', b'"}\n'
    content = text.removesuffix("}").encode(errors="xmlcharrefreplace") + before
    digest = hashlib.sha256(content).hexdigest().encode()
    return content + b"gnncal sha256" + within + digest + after


def is_sealed(content: bytes) -> bool:
    """Return whether a content ends with its own checksum."""
    found = SEALED.search(content, max(0, len(content) - 128))
    return bool(found and hashlib.sha256(content[: found.start()]).hexdigest() == found[1].decode())


def is_own_file(path: Path) -> bool:
    """Return whether a file is empty, carries the header of our saved objects, or is sealed."""
    with path.open("rb") as file:
        start = file.read(8 + len(WEIGHTS))
        return not start or start[8:] == WEIGHTS or is_sealed(start + file.read())


def check_file(path: Path, *, inputs: Iterable[Path] = (), overwrite: bool = False) -> None:
    """Refuse a place where a file may not be written; to be called before any work."""
    real = _without_links(path)
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{path} is {what}; pass the file to write, with its name.")
    is_foreign = path.is_file() and not is_own_file(path)
    for source in inputs:
        there = Path(os.path.realpath(source))
        is_same = real == there or (path.exists() and there.exists() and path.samefile(there))
        if is_same or (there in real.parents and is_foreign):
            what = "the input itself" if is_same else f"a part of the input {source}"
            raise InputError(f"{path} is {what}; choose another file for the output.")
    if is_foreign and not overwrite:
        raise InputError(
            f"{path} already exists and gnncal does not replace it; choose another name, move it "
            "away, or pass overwrite (--overwrite of the command)."
        )
    if real.parent.exists() and not os.access(real.parent, os.W_OK):
        raise InputError(f"{real.parent} cannot be written to; choose another place for {path}.")


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write next to the target and move into place, so that no half file is ever seen."""
    check_file(path, overwrite=overwrite)
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    temporary = real.with_name(f"{WORK}{token_hex(8)}")
    with _errors_about(path, temporary):
        try:
            temporary.write_bytes(content)
            if real.exists():
                temporary.chmod(stat.S_IMODE(real.stat().st_mode))
            os.replace(temporary, real)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _errors_about(target: Path, on_the_way: Path) -> Iterator[None]:
    """Name the target in errors of the disk and of files that are on their way to it."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK or str(on_the_way) in str(error.filename):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


# Folders


@dataclass(frozen=True)
class Marker:
    """What the file ``.gnncal.json`` of a folder says."""

    command: str
    finished: bool
    files: dict[str, str]  # digests by name

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        state = "finished" if self.finished else "unfinished: the files are of two runs"
        values = {"made_by": "gnncal", "command": self.command, "state": state, "files": self.files}
        return (json.dumps(values, indent=1) + "\n").encode()


def read_marker(folder: Path) -> Marker | None:
    """Return the marker of a folder, None without one; a link or a pipe does not count."""
    path = folder / MARKER
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        if stat.S_ISREG(path.lstat().st_mode):
            values = json.loads(path.read_bytes())
            command, state, files = (values[name] for name in ("command", "state", "files"))
            texts = [command, state, *files.values()]
            if values["made_by"] == "gnncal" and all(isinstance(text, str) for text in texts):
                return Marker(command, state == "finished", files)
    return None


def check_finished(path: Path) -> None:
    """Refuse a file of a folder in which a run was stopped while it replaced the files."""
    marker = read_marker(path.parent)
    if marker is not None and not marker.finished and path.name in marker.files:
        raise InputError(
            f"{path} belongs to a result that is unfinished: a run was stopped while it wrote to "
            f"{path.parent}, and files of two runs lie there; run gnncal {marker.command} again."
        )


@contextmanager
def result_folder(
    target: Path,
    command: str,
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
    adds: bool = False,
    names: Iterable[str] = (),
    earlier: Collection[str] = (),
) -> Iterator[Path]:
    """Give an empty folder whose files become those of ``target`` if the block succeeds.

    ``names`` are further files that the command may write; ``earlier`` has patterns of all names
    that its results can have, which are replaced or removed.
    """
    real = check_folder(target, inputs=inputs)
    known = RESULTS.get(command, "").split()
    check_ours(real, command, [*known, *names], overwrite=overwrite, earlier=earlier)
    place = real if real.is_dir() else real.parent  # renaming cannot cross volumes
    for left in {place, real.parent}:
        _remove_empty(left)
    for left in place.glob(f"{WORK}*/result"):
        warn(f"{left.parent} belongs to a run; if no run is active, remove it.")
    with _work_folder(place) as result, _errors_about(target, result.parent):
        yield result
        new = {name: digest_of(result / name) for name in _listing(result)}
        if not real.exists():
            (result / MARKER).write_bytes(Marker(command, True, new).to_bytes())
            os.rename(result, real)
            return
        # The folder may have changed in the meantime.
        old = check_ours(real, command, new, overwrite=overwrite, earlier=earlier)
        kept = {name: old[name] for name in old if adds and name not in new}
        write_file(real / MARKER, Marker(command, False, old | new).to_bytes(), overwrite=True)
        for name in old.keys() - new.keys() - kept.keys():
            (real / name).unlink()
        for name in new:
            (real / name).parent.mkdir(exist_ok=True)
            os.replace(result / name, real / name)
        with suppress(OSError):  # it is not there, or not empty
            (real / "probabilities").rmdir()
        write_file(real / MARKER, Marker(command, True, kept | new).to_bytes(), overwrite=True)


@contextmanager
def _work_folder(place: Path) -> Iterator[Path]:
    """Give the folder ``result`` in a new work folder, locked as long as this process lives."""
    with ExitStack() as stack:
        while True:
            work = stack.enter_context(TemporaryDirectory(prefix=WORK, dir=place))
            with suppress(FileNotFoundError):  # another run has removed it before the lock
                with suppress(ImportError, OSError):  # no locks here: nobody removes it
                    stack.callback(os.close, _locked(work))
                Path(work, "result").mkdir()
                break
        yield Path(work, "result")


def _locked(folder: str | Path, *, waits: bool = True) -> int:
    """Return a handle with the lock of a folder, which ends with the process even if killed."""
    import fcntl  # of Unix

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove_empty(place: Path) -> None:
    """Remove the work folders that killed runs have left, if they hold no file and no run."""
    for left in place.glob(f"{WORK}*"):
        if not WORK_FOLDER.fullmatch(left.name):
            continue
        with suppress(ImportError, OSError):  # a file or a link, in use, or not ours to remove
            handle = _locked(left, waits=False)
            try:
                inner = sorted(left.rglob("*"), reverse=True)
                if all(each.is_dir() and not each.is_symlink() for each in inner):
                    for each in (*inner, left):
                        each.rmdir()
            finally:
                os.close(handle)


def check_folder(target: Path, *, inputs: Iterable[Path] = ()) -> Path:
    """Refuse a folder that cannot take results, before any work; return it without links."""
    real = _without_links(target)
    if real.exists() and not real.is_dir():
        raise InputError(f"{target} is a file; --out expects a folder.")
    for source in inputs:
        there = Path(os.path.realpath(source))
        if real in (there, *there.parents):
            raise InputError(
                f"{target} {'is' if real == there else 'holds'} the input {source}; results need a "
                f"folder of their own, such as {target / 'gnncal-output'}."
            )
    if not real.parent.is_dir():
        raise InputError(f"folder not found: {real.parent}; create it or choose another --out.")
    if not os.access(real if real.exists() else real.parent, os.W_OK):
        raise InputError(f"{target} cannot be written to; choose another --out.")
    return real


def check_ours(
    where: Path,
    command: str,
    new: Collection[str],
    *,
    overwrite: bool,
    earlier: Collection[str] = (),
) -> dict[str, str]:
    """Return the digests of an earlier result; refuse to replace changed or foreign files."""
    listing, marker = _listing(where), read_marker(where)
    if not listing:
        return {}
    if marker is None:
        raise InputError(
            f"{where} has {_few(listing)} and no {MARKER} of gnncal, so it is not a folder of "
            "results; choose a new or an empty one as --out."
        )
    if marker.command != command and not overwrite:
        raise InputError(
            f"{where} has the result of gnncal {short_repr(marker.command)}; choose another "
            "--out, or replace that result with --overwrite."
        )
    places = {place for name in new for place in (name, name.partition("/")[0])}
    places |= {name for name in listing if "/" in name}  # would be read with the probabilities
    found = {*listing} & (marker.files.keys() | places)
    ours = {
        name: digest_of(where / name)
        for name in found & marker.files.keys()
        if (name in new or _is_of_a_result(name, earlier))  # a marker may be anybody's
        and stat.S_ISREG((where / name).lstat().st_mode)
    }
    if not overwrite and marker.finished:
        ours = {name: each for name, each in ours.items() if each == marker.files[name]}
    if foreign := found - ours.keys():
        raise InputError(
            f"{where} has {_few(sorted(foreign))}, which gnncal did not write or which changed "
            "since, so gnncal does not replace it; move it away or choose another --out."
        )
    return ours


def _is_of_a_result(name: str, earlier: Collection[str]) -> bool:
    """Return whether a file of this name, seen from the folder, can be part of a result."""
    is_known = any(name in names.split() for names in RESULTS.values())
    return is_known or any(fnmatchcase(name, each) for each in (*NUMBERED, *earlier))


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listing(folder: Path) -> list[str]:
    """Return the entries of a folder, and those of its folder of probabilities."""
    paths = {path for path in folder.glob("*") if not path.name.startswith(WORK)}
    inner = folder / "probabilities"
    if inner.is_dir() and not inner.is_symlink():
        paths = (paths - {inner}) | {*inner.iterdir()}
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _few(names: Collection[str], most: int = 3) -> str:
    some = [short_repr(name).strip("'\"") for name in list(names)[:most]]
    more = len(names) - most
    return ", ".join(some) + (f" and {more} more" if more > 0 else "")


def _without_links(path: Path) -> Path:
    """Return a path without links; refuse a tilde, which would become the name of a folder."""
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise InputError(
            f"{path} begins with a tilde, which a shell replaces only without quotes and not after "
            "=; write the path in full."
        )
    return Path(os.path.realpath(path))
