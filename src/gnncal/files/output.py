"""Where results go: folders and single files that never take the place of what is not ours.

A folder of results is new, or empty, or has the marker ``.gnncal.json``: which command made it, and
the SHA-256 of each file. A file in it is replaced or removed only if its name is one of a fixed
list and its content is in the marker. While files move into their places the marker says so, and
whoever reads one of them is told.

A single file is replaced only if its content proves that this program wrote it (:func:`seal`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

from gnncal.data.errors import InputError, short_repr

MARKER = ".gnncal.json"
LARGEST_MARKER = 64 << 20  # bytes; a million files fit
RESULTS = (  # what the commands write; of no other name is anything replaced or removed
    *("probabilities.npz", "probabilities.parquet", "probabilities/*"),
    *("decisions.npz", "decisions.parquet", "calibrator.safetensors"),
    *("selective.safetensors", "conformal.safetensors", "policy.safetensors"),
    *("summary.json", "metrics.json"),
)
ON_THE_WAY = (  # what engines leave in a work folder
    *(
        "lock",
        MARKER,
        "work.duckdb*",
        "duckdb_temp*",
        "part-*",
        ".part-*",
        "_SUCCESS",
        "._SUCCESS*",
    ),
)
MOST_SHOWN = 3  # names in a message
DISK = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)  # errors that come without the name of a file
WEIGHTS = b'{"__metadata__":{"gnncal":'  # how the header of our safetensors files begins
SEAL = b"gnncal sha256"
AROUND = {  # what stands before, within and after a seal, so that the file stays valid
    "html": (b"<!-- ", b" ", b" -->\n"),
    "json": (b', "', b'": "', b'"}\n'),
    "zip": (b"", b" ", b""),
    "image": (b"\n%", b" ", b"\n"),
    "onnx": (b"\x72\x51\x0a\x0d", b"\x12\x40", b""),  # an entry of metadata_props
}
LOCKS: dict[str, Callable[[Any, IO[bytes]], None]] = {  # of Unix and of Windows
    "fcntl": lambda fcntl, lock: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "msvcrt": lambda msvcrt, lock: msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1),
}
SEALED = re.compile(SEAL + rb'(?: |": "|\x12\x40)([0-9a-f]{64})(?: -->\n|"}\n|\n)?\Z')
Form = Literal["html", "json", "zip", "image", "onnx"]


def as_path(path: Any) -> Path:
    """Return a path that a user has passed, or say that it is none."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {short_repr(path)}; pass the name of a file, as text or a Path.")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(
            f"path is {short_repr(text)}, which names no file; pass the name of a file."
        )
    return Path(text)


# Single files


def seal(content: bytes, form: Form) -> bytes:
    """Return the content with its own checksum at the end, in a way that the format allows."""
    before, within, after = AROUND[form]
    if form == "zip":  # the seal is the archive's comment, whose length stands before it
        content = content[:-2] + len(SEAL + within + b"0" * 64).to_bytes(2, "little")
    elif form == "json":
        content = content.rstrip().removesuffix(b"}")
    content += before
    return content + SEAL + within + hashlib.sha256(content).hexdigest().encode() + after


def is_sealed(content: bytes) -> bool:
    """Return whether a content ends with its own checksum."""
    found = SEALED.search(content, max(0, len(content) - 128))
    return bool(found and hashlib.sha256(content[: found.start()]).hexdigest() == found[1].decode())


def is_own_file(path: Path) -> bool:
    """Return whether a file is empty, carries the header of our saved objects, or is sealed."""
    with path.open("rb") as file:
        start = file.read(8 + len(WEIGHTS))
        if not start or start[8:] == WEIGHTS:
            return True
        file.seek(-min(128, os.fstat(file.fileno()).st_size), os.SEEK_END)
        return SEALED.search(file.read()) is not None and is_sealed(path.read_bytes())


def check_file(path: Path, *, inputs: Iterable[Path] = (), overwrite: bool = False) -> None:
    """Refuse a place where a file may not be written; to be called before any work."""
    _check_tilde(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the file to write, with its name.")
    real = Path(os.path.realpath(path))
    for source in inputs:
        there = Path(os.path.realpath(source))
        is_same = real == there or (path.exists() and there.exists() and path.samefile(there))
        if is_same or (there in real.parents and path.is_file() and not is_own_file(path)):
            what = "the input itself" if is_same else f"a part of the input {source}"
            raise InputError(f"{path} is {what}; choose another file for the output.")
    if path.is_file():
        if not overwrite and not is_own_file(path):
            raise InputError(
                f"{path} is there already and is no file of gnncal, so it is not replaced; choose "
                "another name, move it away, or say --overwrite in the command."
            )
        if not os.access(path, os.W_OK):
            raise InputError(
                f"{path} is write-protected; choose another name, or allow writing to it."
            )
    if real.parent.is_dir() and not is_special(path) and not os.access(real.parent, os.W_OK):
        raise InputError(f"{real.parent} cannot be written to; choose another place for {path}.")


def write_page(path: Path, html: str, *, overwrite: bool = False) -> None:
    """Write a page, sealed."""
    content = seal(html.encode(errors="xmlcharrefreplace"), "html")
    write_file(path, content, overwrite=overwrite)


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write next to the target and move into place, so that no half file is ever seen."""
    if is_special(path):
        path.write_bytes(content)
        return
    check_file(path, overwrite=overwrite)
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    # A name that the next run uses again: a killed one leaves nothing for ever.
    temporary = real.with_name(f".gnncal-{_short(real.name)}.tmp")
    try:
        temporary.write_bytes(content)
        if real.exists():
            temporary.chmod(stat.S_IMODE(real.stat().st_mode))
        os.replace(temporary, real)
    except OSError as error:
        raise _named(error, temporary.name, path) from error
    finally:
        temporary.unlink(missing_ok=True)


def is_special(path: Path) -> bool:
    """Return whether a path is a pipe, a socket or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


# Folders


@dataclass(frozen=True)
class Marker:
    """What the file ``.gnncal.json`` of a folder says."""

    command: str
    finished: bool
    files: dict[str, list[str]]  # digests by name: one, or two while a file is being replaced

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        state = "finished" if self.finished else "unfinished: the files are of two runs"
        values = {"made_by": "gnncal", "command": self.command, "state": state, "files": self.files}
        return (json.dumps(values, indent=1) + "\n").encode()

    @classmethod
    def of_bytes(cls, content: bytes) -> Marker | None:
        """Return what a file says; None if it is not a marker."""
        try:
            values = json.loads(content)
            command, state, files = (values[name] for name in ("command", "state", "files"))
            if values["made_by"] != "gnncal" or not isinstance(files, dict):
                return None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        texts = [command, state, *(each for some in files.values() for each in _listed(some))]
        if not all(isinstance(text, str) for text in texts):
            return None
        return cls(command, state == "finished", {n: _listed(some) for n, some in files.items()})


def read_marker(folder: Path) -> Marker | None:
    """Return the marker of a folder, None if it has none; a link or a pipe is none."""
    path = folder / MARKER
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_MARKER:
            return None
        return Marker.of_bytes(path.read_bytes())
    except OSError:
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
    names: Collection[str] = (),
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
    adds: bool = False,
) -> Iterator[Path]:
    """Give an empty folder whose files become those of ``target`` if the block succeeds."""
    names = {*RESULTS, *names}
    real = check_folder(target, inputs=inputs)

    def earlier(new: Collection[str] = ()) -> dict[str, list[str]]:
        def digest(name: str) -> str | None:
            if not stat.S_ISREG((real / name).lstat().st_mode):
                return None
            return digest_of(real / name)

        listing, marker, known = _listing(real, names), read_marker(real), {*names, *new}
        return check_ours(target, listing, marker, command, known, digest, overwrite=overwrite)

    earlier()
    with _work_folder(real, names) as work:
        result = work / "result"
        result.mkdir()
        yield result
        new = {name: [digest_of(result / name)] for name in _listing(result, names)}
        if not real.exists():
            (result / MARKER).write_bytes(Marker(command, True, new).to_bytes())
            os.rename(result, real)
            return
        old = earlier(new)  # the folder may have changed in the meantime
        kept = {name: old[name] for name in old if adds and name not in new}
        both = {name: [*old.get(name, []), *new.get(name, [])] for name in {**old, **new}}
        _write_marker(real, work, Marker(command, False, both))
        for name in old.keys() - new.keys() - kept.keys():
            (real / name).unlink()
        for name in new:
            (real / name).parent.mkdir(exist_ok=True)
            os.replace(result / name, real / name)
        for folder in {name.partition("/")[0] for name in old if "/" in name}:
            with suppress(OSError):  # it is not empty
                (real / folder).rmdir()
        _write_marker(real, work, Marker(command, True, kept | new))


def check_folder(target: Path, *, inputs: Iterable[Path] = ()) -> Path:
    """Refuse a place where no result belongs, before any work; return it without links."""
    _check_tilde(target)
    real = Path(os.path.realpath(target))
    if real.exists() and not real.is_dir():
        raise InputError(f"{target} is a file; --out expects a folder.")
    if real == real.parent:
        raise InputError(f"{target} is the root of the file system; choose a folder below it.")
    places = [("current folder", Path.cwd()), *((f"input {source}", source) for source in inputs)]
    with suppress(RuntimeError):  # a user without a home
        places.append(("home folder", Path.home()))
    for what, place in places:
        there = Path(os.path.realpath(place))
        if real in (there, *there.parents):
            raise InputError(
                f"{target} {'is' if real == there else 'holds'} the {what}; results need a folder "
                f"of their own, such as {target / 'gnncal-output'}."
            )
    if not real.parent.is_dir():
        raise InputError(f"there is no folder {real.parent}; create it or choose another --out.")
    if not os.access(real if real.exists() else real.parent, os.W_OK):
        raise InputError(f"{target} cannot be written to; choose another --out.")
    return real


def check_ours(
    where: object,
    listing: Collection[str],
    marker: Marker | None,
    command: str,
    names: Collection[str],
    digest: Callable[[str], str | None],
    *,
    overwrite: bool = False,
) -> dict[str, list[str]]:
    """Return the files of the earlier result with their digests; refuse what is not ours."""
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
    found = {name: digest(name) for name in listing if name != MARKER and matches(name, names)}
    foreign = [name for name, each in found.items() if each not in marker.files.get(name, [])]
    if foreign:
        raise InputError(
            f"{where} has {_few(foreign)}, which gnncal did not write or which changed since, and "
            "it is not replaced; move it away or choose another --out."
        )
    return {name: [each] for name, each in found.items() if each is not None}


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether the name of a file, relative to its folder, is one of the fixed list."""
    return any(
        fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in patterns
    )


@contextmanager
def _work_folder(target: Path, names: Collection[str]) -> Iterator[Path]:
    """A folder in the target, or next to a new one; what a killed run left there is removed."""
    # In the target, which may be a mounted volume: renaming cannot cross those.
    name = f".gnncal-{_short(target.name)}"
    for place in (target / name, target.with_name(name)):
        if os.path.lexists(place):
            _clear(place, names, target)
    work = target / name if target.is_dir() else target.with_name(name)
    try:
        work.mkdir()
        with (work / "lock").open("wb") as lock:
            _is_locked(lock)
            yield work
    except OSError as error:
        raise _named(error, work.name, target) from error
    finally:
        with suppress(OSError):
            _remove(work, names)


def _clear(work: Path, names: Collection[str], target: Path) -> None:
    """Remove what a killed run left, unless the run goes on."""
    if work.is_symlink() or not (work / "lock").is_file():
        raise InputError(f"{work} is in the way of the work on {target}; move it away.")
    with (work / "lock").open("rb+") as lock:
        if not _is_locked(lock):
            raise InputError(
                f"another run is writing to {target}; wait for it or choose another --out (if "
                f"there is none, remove {work})."
            )
    _remove(work, names)


def _is_locked(lock: IO[bytes]) -> bool:
    """Take a lock that ends with the process; return whether it is free."""
    for name, take in LOCKS.items():
        with suppress(ImportError):  # each system has one of them
            system = import_module(name)
            try:
                take(system, lock)
            except OSError:
                return False
    return True


def _remove(work: Path, names: Collection[str]) -> None:
    """Remove a work folder: files of known names one by one, then folders that are empty."""
    known = [name for name in (*names, *ON_THE_WAY) if "/" not in name]
    for folder, _, files in os.walk(work, topdown=False):
        for file in files:
            is_ours = Path(folder).name == "temp" or matches(file, known)
            if is_ours and Path(folder, file) != work / "lock":
                os.unlink(Path(folder, file))
        if Path(folder) != work:
            with suppress(OSError):
                os.rmdir(folder)
    (work / "lock").unlink(missing_ok=True)  # last: it tells what a kill would leave
    work.rmdir()


def _listing(folder: Path, names: Collection[str]) -> list[str]:
    """Return the entries of a folder, and of those below it that the names speak of."""
    if not folder.is_dir():
        return []
    inner = {name.partition("/")[0] for name in names if "/" in name}
    found = []
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.name == f".gnncal-{_short(folder.name)}":
            continue
        if entry.name in inner and entry.is_dir(follow_symlinks=False):
            found += [f"{entry.name}/{name}" for name in sorted(os.listdir(entry))]
        else:
            # What takes the place of such a folder is as foreign as anything in it.
            found.append(f"{entry.name}/" if entry.name in inner else entry.name)
    return found


def _write_marker(folder: Path, work: Path, marker: Marker) -> None:
    (work / MARKER).write_bytes(marker.to_bytes())
    os.replace(work / MARKER, folder / MARKER)


def _named(error: OSError, on_the_way: str, target: Path) -> OSError:
    """Return the error of a file on its way, with the name that means something to a user."""
    if error.errno in DISK and error.filename is None:
        return OSError(error.errno, error.strerror, str(target))
    parts = Path(str(error.filename or "")).parts
    if on_the_way not in parts:
        return error
    inside = [part for part in parts[parts.index(on_the_way) + 1 :] if part != "result"]
    return OSError(error.errno, error.strerror, str(target.joinpath(*inside)))


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _short(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]


def _few(names: Collection[str]) -> str:
    some = [short_repr(name).strip("'\"") for name in list(names)[:MOST_SHOWN]]
    more = len(names) - MOST_SHOWN
    return ", ".join(some) + (f" and {more} more" if more > 0 else "")


def _check_tilde(path: Path) -> None:
    """Refuse a tilde that no shell has replaced: it would become the name of a folder."""
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise InputError(
            f"{path} begins with a tilde, which only a shell replaces, and not in quotes nor "
            "after =; write the path in full."
        )
