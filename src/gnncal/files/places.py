"""Where files lie: on a disk of this machine, or in object storage such as ``s3://bucket/key``."""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gnncal.core.errors import InputError, MissingExtraError, require

SIGNS = "*?["  # a name with one of these may be a pattern


class Place(ABC):
    """Finds and opens files. Paths are absolute, have / between their parts and no address."""

    n_readers: int  # files that are worth opening at the same time

    @abstractmethod
    def is_file(self, path: str) -> bool:
        """Return whether there is a file of exactly this name."""

    @abstractmethod
    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder of exactly this name."""

    @abstractmethod
    def files_below(self, folder: str) -> list[str]:
        """Return all files in a folder and in the folders below it."""

    @abstractmethod
    def matches(self, folder: str, pattern: str) -> list[str]:
        """Return the files below a folder that fit a glob, and those of folders that fit it."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """Open a file to read bytes from it."""

    def address(self, path: str) -> str:
        """Return the path as a user would type it."""
        return path


class Disk(Place):
    """Files of this machine."""

    n_readers = min(8, 2 * (os.cpu_count() or 1))

    def is_file(self, path: str) -> bool:
        """Return whether there is a file of exactly this name."""
        return os.path.isfile(path)

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder of exactly this name."""
        return os.path.isdir(path)

    def files_below(self, folder: str) -> list[str]:
        """Return all files; links to other folders are not followed, since they may be circles."""
        paths = (os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names)
        return [path for path in paths if os.path.isfile(path)]

    def matches(self, folder: str, pattern: str) -> list[str]:
        """Return what fits the pattern, as a shell finds it; ``**`` stands for any folders."""
        files: list[str] = []
        for name in glob.iglob(pattern, root_dir=folder, recursive=True):
            path = os.path.join(folder, name).rstrip("/")
            files += self.files_below(path) if os.path.isdir(path) else [path]
        return files

    def open(self, path: str) -> Any:
        """Open a file to read bytes from it."""
        return open(path, "rb")


class Storage(Place):
    """Object storage through fsspec, with the credentials of its ordinary environment variables.

    One that ``remembers`` lists a folder once, and then asks for no object before reading it. It
    is made for each source anew, so it never tells of an earlier run.
    """

    n_readers = 32

    def __init__(self, protocol: str, *, remembers: bool = True) -> None:
        self.protocol = protocol
        extra, purpose = "s3", f"reading and writing {protocol}://"
        fsspec = require("fsspec", extra=extra, purpose=purpose)
        try:
            self.files = fsspec.filesystem(
                protocol, skip_instance_cache=True, use_listings_cache=remembers
            )
        except ImportError as error:
            if protocol in ("s3", "s3a"):
                require("s3fs", extra=extra, purpose=purpose)
            raise MissingExtraError(f"{protocol}:// needs another package: {error}.") from error
        except ValueError as error:
            raise InputError(
                f"{protocol}:// is not known ({error}); use s3:// or a local path."
            ) from error

    def is_file(self, path: str) -> bool:
        """Return whether there is an object of exactly this name."""
        with self.reached(path):
            return bool(self.files.isfile(path))

    def is_folder(self, path: str) -> bool:
        """Return whether there are objects whose names go on after this one and a slash."""
        with self.reached(path):
            return bool(self.files.isdir(path))

    def files_below(self, folder: str) -> list[str]:
        """Return all objects whose names begin with the folder's and a slash."""
        with self.reached(folder):
            return list(self.files.find(folder))

    def matches(self, folder: str, pattern: str) -> list[str]:
        """Return what fits the pattern; the folder is taken as it is."""
        with self.reached(folder):
            entries = self.files.glob(f"{glob.escape(folder)}/{pattern}", detail=True)
        files = [path for path, facts in entries.items() if facts["type"] == "file"]
        for path in entries.keys() - set(files):
            files += self.files_below(path)
        return files

    def open(self, path: str) -> Any:
        """Open an object to read bytes from it; the end of a Parquet file is one request."""
        return self.files.open(path, "rb", block_size=2**16)

    def address(self, path: str) -> str:
        """Return the path with its protocol."""
        return f"{self.protocol}://{path}"

    @contextmanager
    def reached(self, path: str) -> Iterator[None]:
        """Say in one sentence why object storage does not answer."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # each kind of storage has its own errors
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise InputError(
                f"{self.address(path)} cannot be reached ({lines[0]}); check the address, the "
                "endpoint and the credentials."
            ) from error


def is_remote(source: str) -> bool:
    """Return whether a source is the address of object storage."""
    return "://" in source


def place_of(source: str) -> tuple[Place, str]:
    """Return where a source lies, and its path there."""
    if not is_remote(source):
        return Disk(), os.path.abspath(source)
    protocol, path = split_address(source)
    return Storage(protocol), path


def split_address(address: str) -> tuple[str, str]:
    """Return the protocol and the path of an address."""
    protocol, _, path = address.partition("://")
    return protocol.lower(), path.rstrip("/")
