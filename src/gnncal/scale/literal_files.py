"""Object storage as DuckDB sees it: an fsspec filesystem in which a name is a name.

DuckDB takes ``[`` and ``*`` in names for patterns, and looks each name up before it opens it. Here
the files are known already, so no look-up is sent, and no extension of DuckDB is downloaded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gnncal.core.errors import require
from gnncal.files.places import Storage

BLOCK = 2**17  # bytes at least in one request; DuckDB itself asks for columns at a time


def literal_files(storage: Storage, protocol: str) -> Any:
    """Return a filesystem that reads from a storage under another protocol."""
    fsspec = require("fsspec", extra="s3", purpose="reading object storage")
    files = storage.files

    class LiteralFiles(fsspec.AbstractFileSystem):  # type: ignore[misc,name-defined]
        cachable = False

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

        def info(self, path: str, **_: Any) -> Any:
            return files.info(self._strip_protocol(path))

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)  # one run reads one version

        def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return files.open(self._strip_protocol(path), mode, block_size=BLOCK)

    LiteralFiles.protocol = protocol
    return LiteralFiles()
