"""Folders of results: made beside their place, and put there without removing what is not ours."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gnncal.core.errors import InputError, warn
from gnncal.files.atomic import check_tilde
from gnncal.files.markers import MARKER, Made, describe, foreign_files, marked, marker_text

WORK = ".gnncal-"  # how the names of work folders begin; the rest is random
LOCK = "lock"
MOST_SHOWN = 3  # names in a message


def check_folder(target: Path, *, inputs: Iterable[Path] = ()) -> Path:
    """Refuse a place where no result belongs, before any work; return it without links."""
    check_tilde(target)
    real = Path(os.path.realpath(target))
    if real.exists() and not real.is_dir():
        raise InputError(f"{target} is a file; --out expects a folder.")
    if real == real.parent:
        raise InputError(f"{target} is the root of the file system; choose a folder below it.")
    for place, what in ((Path.cwd(), "current folder"), (_home(), "home folder")):
        if place is not None and real in (place, *place.parents):
            verb = "is" if real == place else "holds"
            raise InputError(
                f"{target} {verb} the {what}; results need a folder of their own, such as "
                f"{target / 'gnncal-output'}."
            )
    for source in inputs:
        there = Path(os.path.realpath(source))
        if real in (there, *there.parents):
            raise InputError(
                f"{target} {'is' if real == there else 'holds'} the input {source}; results need "
                f"a folder of their own, such as {target / 'gnncal-output'}."
            )
    if not real.parent.is_dir():
        raise InputError(f"there is no folder {real.parent}; create it or choose another --out.")
    return real


def check_replaceable(target: Path) -> None:
    """Refuse a folder that has anything which this program did not write."""
    if not target.exists():
        return
    if os.path.ismount(target):
        raise InputError(
            f"{target} is where a volume is mounted, which cannot be replaced as a whole; choose "
            "a folder in it."
        )
    foreign = foreign_files(target)
    if not foreign:
        return
    if (target / MARKER).exists():
        raise InputError(
            f"{target} holds other files than a result of gnncal, or changed ones "
            f"({_shown(foreign)}), so it is not replaced; move them away or choose another --out."
        )
    raise InputError(
        f"{target} holds other files than a result of gnncal ({_shown(foreign)}), or was written "
        f"by a version that left no {MARKER}, so it is not replaced; move it away or choose "
        "another --out."
    )


def check_names(target: Path, names: Collection[str]) -> None:
    """Refuse a folder where files of these names are the user's own."""
    if not target.exists():
        return
    taken = foreign_files(target, {*names, MARKER})
    if taken:
        raise InputError(
            f"{target} has {_shown(taken)}, which gnncal did not write (or which changed since, or "
            f"is of a version that left no {MARKER}), and it is not replaced; move it away or "
            "choose another --out."
        )


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A work folder beside ``target``; what the block puts into ``result`` becomes the target.

    An earlier result is replaced only at the very end, by two renames, and is put back by the
    next run if this one is killed just then. Two runs do not write to one folder.
    """
    with _work_folder(target.parent, target, alone=True) as work:
        check_replaceable(target)
        yield work
        result, earlier = work / "result", work / "earlier"
        (result / MARKER).write_text(marker_text(describe(result)))
        if target.exists():
            result.chmod(stat.S_IMODE(target.stat().st_mode))
            os.rename(target, earlier)
        os.rename(result, target)
        _keep_foreign(earlier, target)


@contextmanager
def extended_folder(
    target: Path, *, writes: Collection[str] = (), removes: Collection[str] = ()
) -> Iterator[Path]:
    """Give an empty folder whose files move to ``target`` only if the block succeeds.

    Everything else in ``target`` stays. ``writes`` are names that will be written, ``removes``
    those of an earlier result that must not stay. If one of them is taken by a file of the user's
    own, that is said before the block begins.
    """
    check_names(target, {*writes, *removes})
    # Inside a folder that exists: it may be a mounted volume, and renaming cannot cross those.
    with _work_folder(target if target.is_dir() else target.parent, target) as work:
        result = work / "result"
        result.mkdir()
        yield result
        _extend(target, result, removes)


def _extend(target: Path, result: Path, removes: Collection[str]) -> None:
    new = describe(result)
    if not target.exists():
        (result / MARKER).write_text(marker_text(new))
        os.rename(result, target)
        return
    files = sorted(file.name for file in result.iterdir())
    gone = {*removes, *files}
    with _locked(target):
        check_names(target, gone)
        earlier = marked(target) or frozenset()
        # Both lists while files move, so that a killed run leaves nothing that looks foreign.
        _write_marker(target, result, earlier | new)
        for name in gone.difference(files):
            (target / name).unlink(missing_ok=True)
        for name in files:
            os.replace(result / name, target / name)
        _write_marker(target, result, {made for made in earlier if made.name not in gone} | new)


def _write_marker(target: Path, result: Path, made: Iterable[Made]) -> None:
    (result / MARKER).write_text(marker_text(made))
    os.replace(result / MARKER, target / MARKER)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for others that put files into this folder at the same moment."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _work_folder(place: Path, target: Path, *, alone: bool = False) -> Iterator[Path]:
    """A folder with a random name and a lock, which tells a run that goes on from a killed one.

    What killed runs for this target left behind is removed, and what they moved is put back.
    """
    work = place / f"{WORK}{secrets.token_hex(8)}"
    try:
        work.mkdir()
        with _own_lock(work, target.name):
            for other, runs in _others(work, target.name):
                if not runs:
                    _clear(other, target)
                elif alone:
                    raise InputError(
                        f"another run is writing to {target}; wait for it or choose another --out "
                        f"(if there is none, remove {other})."
                    )
            yield work
    except OSError as error:
        if error.filename is None or work.name not in str(error.filename):
            raise
        # The work folder means nothing to a user.
        parts = Path(error.filename).parts
        inside = [part for part in parts[parts.index(work.name) + 1 :] if part != "result"]
        raise OSError(error.errno, error.strerror, str(target.joinpath(*inside))) from error
    finally:
        _remove(work)


@contextmanager
def _own_lock(work: Path, name: str) -> Iterator[None]:
    """Hold a lock that has its name only once it is held."""
    with (work / f"{LOCK}.new").open("wb") as lock:
        with suppress(OSError):  # where there are no locks, nobody can take this one either
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(_lock_text(name))
        lock.flush()
        os.rename(work / f"{LOCK}.new", work / LOCK)
        yield


def _others(own: Path, name: str) -> Iterator[tuple[Path, bool]]:
    """Other work folders for the same target, and whether their runs go on."""
    for folder in sorted(own.parent.glob(f"{WORK}*")):
        if folder == own or folder.is_symlink():
            continue
        with suppress(OSError), (folder / LOCK).open("rb+") as lock:
            if lock.read(1 << 12) != _lock_text(name):
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield folder, True
            else:
                yield folder, False


def _lock_text(name: str) -> bytes:
    return os.fsencode(f"gnncal is working here, for the folder {name}\n")


def _clear(work: Path, target: Path) -> None:
    earlier = work / "earlier"
    if earlier.is_dir() and not target.exists():
        os.rename(earlier, target)
    _keep_foreign(earlier, target)
    _remove(work)


def _remove(work: Path) -> None:
    """Remove a work folder, its lock last: without it, nobody would know what a kill leaves."""
    with suppress(OSError):
        for entry in work.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != LOCK:
                entry.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)


def _keep_foreign(earlier: Path, target: Path) -> None:
    """Save a folder that was replaced from removal, if files of the user came into it meanwhile."""
    if not earlier.is_dir():
        return
    foreign = foreign_files(earlier)
    if foreign:
        kept = target.with_name(f"{target.name}.earlier-{secrets.token_hex(4)}")
        os.rename(earlier, kept)
        message = f"{_shown(foreign)} came into {target} during the run; it is now in {kept}"
        warn(message)


def _home() -> Path | None:
    try:
        return Path(os.path.realpath(Path.home()))
    except RuntimeError:  # a user without one
        return None


def _shown(names: list[str]) -> str:
    more = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
