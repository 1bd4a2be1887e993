"""A result folder that appears under its name only when it is complete."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnncal.core.errors import InputError

COMPLETE = "metrics.json"  # every result has it, so a folder with it may be replaced


@contextmanager
def staged_result(target: Path) -> Iterator[Path]:
    """A work folder beside ``target``; what the block puts into ``result`` becomes the target.

    The work folder is ``.NAME.partial``. A lock in it tells a run that is going on from what a
    killed run left behind, which the next run removes. An earlier result is replaced only at the
    very end, and is put back if a run was killed just then.
    """
    target = Path(os.path.abspath(target))
    work = target.with_name(f".{target.name}.partial")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}; create it or choose another --out.")
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another run is writing to {target}; wait for it or choose another --out."
            ) from None
        _recover(target, work)
        try:
            _check_target(target)
            yield work
            _publish(target, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _check_target(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; --out expects a folder.")
    if target.is_dir() and any(target.iterdir()) and not (target / COMPLETE).is_file():
        raise InputError(
            f"{target} holds other files than a result of gnncal scale; choose another --out."
        )


def _recover(target: Path, work: Path) -> None:
    """Put back the earlier result of a run that was killed while replacing it; remove the rest."""
    earlier = work / "earlier"
    if earlier.is_dir() and not target.exists():
        os.rename(earlier, target)
    for left in work.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != "lock":
            left.unlink()


def _publish(target: Path, work: Path) -> None:
    """Two renames; at any moment either the old or the new result is whole on disk."""
    if target.exists():
        os.rename(target, work / "earlier")
    os.rename(work / "result", target)
