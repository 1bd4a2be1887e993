"""A result folder of a run at scale, which appears under its name only when it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnncal.core.errors import InputError
from gnncal.files.folders import check_folder, replaced_folder

WILDCARDS = "*?["


@contextmanager
def staged_result(target: Path, *, sources: tuple[str, ...] = ()) -> Iterator[Path]:
    """A work folder beside ``target``; what the block puts into ``result`` becomes the target.

    ``sources`` are the tables of the input: the target may neither hold one nor lie in one.
    """
    local = [source for source in sources if "://" not in source]
    real = check_folder(target, inputs=map(_folder_or_file, local))
    for source in local:
        folder = _folder_or_file(source)
        searched = "**" in source or Path(source).is_dir()
        if searched and folder.resolve() in real.parents:
            raise InputError(
                f"{target} lies in the input {folder}, where the next run would read it as data; "
                "choose another --out."
            )
    with replaced_folder(real) as work:
        yield work


def _folder_or_file(source: str) -> Path:
    """Return a path itself, and of a glob the folder that all of its files are below."""
    path = Path(source)
    if path.exists():
        return path
    for part in (*reversed(path.parents), path):
        # A leading folder that exists is no pattern, whatever signs its name has.
        if any(sign in part.name for sign in WILDCARDS) and not part.exists():
            return part.parent
    return path
