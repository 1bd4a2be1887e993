"""Parsed graphs, kept so that the next load takes a moment.

There is one ``.npz`` of plain arrays for each graph. It names its raw files by size and time of
change. A cached file of other raw data, or one that cannot be read, counts as missing.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gnncal.data.arrays import IntArray
from gnncal.files.archives import csr_from_parts, read_npz
from gnncal.files.output import write_file
from gnncal.graph.graph import Graph
from gnncal_lab.datasets.formats import CSR_PARTS

MEMBERS = ("labels", "senders", "in_degree", "features", *CSR_PARTS)
FORMAT = 1  # raised when parsing or preprocessing changes


def user_cache() -> Path:
    """Return the folder of a user's caches, by the XDG convention."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnncal"


def identity(paths: list[Path]) -> str:
    """Return a key that tells sets of raw files apart without reading them."""
    files = ((path.name, path.stat()) for path in paths)
    return repr([FORMAT, *((name, s.st_size, s.st_mtime_ns) for name, s in files)])


def read(path: Path, key: str) -> tuple[Graph, IntArray] | None:
    """Return the graph and labels stored under this key, or nothing."""
    try:
        arrays, _ = read_npz(path, ("key",))
        if str(arrays["key"]) != key:
            return None
        arrays, _ = read_npz(path, MEMBERS)
        return Graph(_edges(arrays), features=_features(arrays)), arrays["labels"]
    except Exception:  # absent, broken, or its arrays do not belong together
        return None


def write(path: Path, key: str, graph: Graph, labels: IntArray) -> None:
    """Store a graph, if the cache folder can be written to."""
    arrays: dict[str, Any] = {"key": np.array(key), "labels": labels}
    arrays |= {"senders": graph.indices, "in_degree": graph.in_degree}
    features: Any = graph.features
    if sparse.issparse(features):
        arrays |= {"data": features.data, "indices": features.indices, "indptr": features.indptr}
        arrays["shape"] = np.array(features.shape)
    else:
        arrays["features"] = features
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    with contextlib.suppress(OSError):
        write_file(path, buffer.getvalue(), overwrite=True)


def _edges(arrays: dict[str, Any]) -> IntArray:
    senders, in_degree = arrays["senders"], arrays["in_degree"]
    receivers = np.repeat(np.arange(len(in_degree), dtype=senders.dtype), in_degree)
    return np.stack([senders, receivers])


def _features(arrays: dict[str, Any]) -> Any:
    if "features" in arrays:
        return arrays["features"]
    return csr_from_parts(*(arrays[name] for name in CSR_PARTS))
