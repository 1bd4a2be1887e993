"""Where a result at scale goes: a folder, or a prefix in object storage.

Storage has nothing to rename: everything is computed in a folder for temporary files and uploaded
under names that begin with a dot. Then the marker says "unfinished" until the objects of an earlier
result are exchanged for the new ones by copies within the storage.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from gnncal.data.errors import InputError
from gnncal.files import output
from gnncal.files.output import MARKER, RESULTS, Marker
from gnncal.files.tables import Table, is_remote, open_storage, reached

COMMAND = "scale"
UPLOADS = ".gnncal-uploads/"  # where objects lie that are not in their place yet


@contextmanager
def scale_result(out: str, tables: Sequence[Table], *, overwrite: bool = False) -> Iterator[Path]:
    """Give an empty folder for the result of some tables, in which it must not lie."""
    for table in tables:
        if table.is_searched and table.is_remote == is_remote(out):
            place = open_storage(out)[1] if is_remote(out) else output.check_folder(Path(out))
            root = table.root if table.is_remote else os.path.realpath(table.root)
            if f"{place}/".startswith(f"{root}/"):
                raise InputError(
                    f"{out} lies in the input {table.given}, where the next run would read it as "
                    "data; choose another --out."
                )
    inputs = [Path(table.root) for table in tables if not table.is_remote]
    folder = (
        _bucket_result(out, overwrite=overwrite)
        if is_remote(out)
        else output.result_folder(Path(out), COMMAND, inputs=inputs, overwrite=overwrite)
    )
    with folder as result:
        yield result


@contextmanager
def _bucket_result(address: str, *, overwrite: bool) -> Iterator[Path]:
    storage, prefix = open_storage(address)
    if not prefix.partition("/")[2]:
        raise InputError(
            f"{address} is a whole bucket; results need a prefix of their own, such as "
            f"{address.rstrip('/')}/calibrated."
        )

    def listing() -> list[str]:
        storage.invalidate_cache()  # others may write there in the meantime
        return [path.removeprefix(f"{prefix}/") for path in storage.find(prefix)]

    def digest(name: str) -> str:
        with storage.open(f"{prefix}/{name}", "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    def earlier() -> dict[str, str]:
        found = [name for name in listing() if not name.startswith(UPLOADS)]
        marker = storage.cat_file(f"{prefix}/{MARKER}") if MARKER in found else b""
        ours = Marker.of_bytes(marker)
        return output.check_ours(address, found, ours, COMMAND, RESULTS, digest, overwrite)

    def mark(finished: bool, files: dict[str, str]) -> None:
        storage.pipe_file(f"{prefix}/{MARKER}", Marker(COMMAND, finished, files).to_bytes())

    def tidy() -> None:
        for name in listing():
            if name.startswith(UPLOADS) and output.matches(name.removeprefix(UPLOADS), RESULTS):
                storage.rm_file(f"{prefix}/{name}")

    with reached(address):
        earlier()
        tidy()  # what a killed run left
        # What cannot be written to fails now rather than at the end.
        storage.pipe_file(f"{prefix}/{UPLOADS}metrics.json", b"")
    with TemporaryDirectory(prefix="gnncal-") as work:
        result = Path(work, "result")
        result.mkdir()
        try:
            yield result
            with reached(address):
                paths = [path for path in result.rglob("*") if path.is_file()]
                new = {
                    path.relative_to(result).as_posix(): output.digest_of(path) for path in paths
                }
                for name in new:
                    storage.put_file(str(result / name), f"{prefix}/{UPLOADS}{name}")
                old = earlier()
                mark(False, old | new)
                for name in new:
                    storage.copy(f"{prefix}/{UPLOADS}{name}", f"{prefix}/{name}")
                for name in old.keys() - new.keys():
                    storage.rm_file(f"{prefix}/{name}")
                mark(True, new)
        finally:
            with suppress(Exception):  # an error that ended the run is the one to show
                tidy()
