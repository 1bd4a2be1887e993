"""A result in object storage, which has no folders to rename: ``metrics.json`` comes last.

Everything is computed in a local folder and uploaded under names that begin with a dot, which
nobody takes for data. Only then are the objects of an earlier result removed and the new ones put
in their place, by copies within the storage. Without ``metrics.json`` a result is not complete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from gnncal.core.errors import InputError
from gnncal.files.markers import MARKER, Made, describe, foreign_names, marker_text, read_marker
from gnncal.files.places import Storage, is_remote, split_address
from gnncal.scale.summary import FILE

UPLOADS = ".gnncal-"  # how the names of objects begin that are not in their place yet


@contextmanager
def bucket_result(address: str, *, sources: Collection[str] = ()) -> Iterator[Path]:
    """A local work folder; what the block puts into ``result`` becomes the objects below a prefix.

    ``sources`` are the tables of the input: the result may not lie in one of them.
    """
    protocol, prefix = split_address(address)
    storage = Storage(protocol, remembers=False)  # others may write there in the meantime
    if not prefix.partition("/")[2]:
        raise InputError(
            f"{address} is a whole bucket; results need a prefix of their own, such as "
            f"{storage.address(prefix)}/calibrated."
        )
    for source in sources:
        if is_remote(source) and f"{storage.address(prefix)}/".startswith(source.rstrip("/") + "/"):
            raise InputError(
                f"{address} lies in the input {source}, where the next run would read it as "
                "data; choose another --out."
            )
    target = _Target(storage, prefix)
    target.claim()
    with TemporaryDirectory(prefix="gnncal-") as work:
        try:
            yield Path(work)
            target.publish(Path(work) / "result")
        except BaseException:
            target.give_up()
            raise


class _Target:
    """The objects below one prefix."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self.storage, self.prefix, self.files = storage, prefix, storage.files
        self.earlier: frozenset[Made] = frozenset()
        self.uploads = f"{UPLOADS}{uuid4().hex}/"

    def claim(self) -> None:
        """Refuse a prefix with objects of others; find out now whether it can be written to."""
        with self.storage.reached(self.prefix):
            self.earlier = self._checked()
            self._mark(self.earlier)

    def publish(self, result: Path) -> None:
        """Upload everything, then exchange the earlier result for it."""
        new = describe(result)
        staged = {Made(self.uploads + each.name, each.size, each.digest) for each in new}
        with self.storage.reached(self.prefix):
            self._checked()
            self._mark(self.earlier | new | staged)
            for each in new:
                self.files.put_file(str(result / each.name), self._path(self.uploads + each.name))
            self._checked(self.earlier | new | staged)
            # From here on the earlier result is not complete any more: metrics.json goes first.
            self._remove([FILE, *sorted(self._listing().keys() - {FILE, MARKER} - _names(staged))])
            for name in sorted(_names(new), key=lambda name: (name == FILE, name)):
                self.files.copy(self._path(self.uploads + name), self._path(name))
            self._remove(_names(staged))
            self._mark(new)

    def give_up(self) -> None:
        """Remove what this run uploaded, as far as the storage can be reached."""
        try:
            listing = self._listing()
            self._remove(name for name in listing if name.startswith(self.uploads))
            if listing.keys() <= {MARKER}:
                self._remove([MARKER])
        except Exception:
            pass  # the error that ended the run is the one to show

    def _checked(self, known: frozenset[Made] | None = None) -> frozenset[Made]:
        """Return what the marker lists; everything below the prefix must be in that list."""
        listing = self._listing()
        made = known
        if made is None and MARKER in listing:
            made = read_marker(self.files.cat_file(self._path(MARKER)))
        foreign = foreign_names(made, listing)
        if foreign:
            raise InputError(
                f"{self.storage.address(self.prefix)} holds other objects than a result of gnncal "
                f"({foreign[0]}), so it is not replaced; choose another --out."
            )
        return made or frozenset()

    def _listing(self) -> dict[str, int]:
        listing: dict[str, Any] = self.files.find(self.prefix, detail=True)
        return {
            path.removeprefix(f"{self.prefix}/"): int(facts["size"])
            for path, facts in listing.items()
        }

    def _mark(self, made: Collection[Made]) -> None:
        self.files.pipe_file(self._path(MARKER), marker_text(made).encode())

    def _remove(self, names: Any) -> None:
        for path in map(self._path, names):
            if self.files.exists(path):
                self.files.rm_file(path)

    def _path(self, name: str) -> str:
        return f"{self.prefix}/{name}"


def _names(made: Collection[Made]) -> set[str]:
    return {each.name for each in made}
