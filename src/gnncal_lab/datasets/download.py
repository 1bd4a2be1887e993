"""Raw files that are missing, fetched by the library that knows where they are."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from gnncal.data.errors import InputError, require
from gnncal_lab.datasets.graphs import Facts


class _DownloadedError(Exception):
    """Stops a foreign dataset class after its download, before it processes anything."""


def download(name: str, facts: Facts, root: Path) -> None:
    """Let PyTorch Geometric's or OGB's class fetch the raw files, then move them below ``root``."""
    # They go through a temporary folder, so that a broken download leaves nothing behind.
    module, _, class_name = facts.family.source.rpartition(".")
    extra = "datasets" if module.startswith("ogb") else "pyg"
    library = require(module, extra=extra, purpose=f"downloading {name}")
    source = type(class_name, (getattr(library, class_name),), {"_process": _stop})
    folder = root / facts.folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=root, prefix=".download-") as temporary:
            _fetch(source, facts, Path(temporary))
            fetched = [Path(temporary) / facts.folder / file for file in facts.files]
            missing = [path.name for path in fetched if not path.is_file()]
            if missing:
                raise FileNotFoundError(f"{missing[0]} is missing in the download")
            folder.mkdir(parents=True, exist_ok=True)
            for path in fetched:
                os.replace(path, folder / path.name)
    except Exception as error:  # every network and archive has errors of its own
        raise InputError(
            f"the raw files of {name} are not in {folder} and could not be downloaded "
            f"({type(error).__name__}: {error}); put {', '.join(facts.files)} there, or pass the "
            "root that has them."
        ) from error


def _fetch(source: Any, facts: Facts, root: Path) -> None:
    with contextlib.suppress(_DownloadedError):
        if facts.source_name is None:
            source(root=str(root / facts.folder.partition("/")[0]))
        else:
            source(root=str(root), name=facts.source_name)


def _stop(self: Any) -> NoReturn:
    raise _DownloadedError
