"""One thread for small fits: on a busy machine the threads of BLAS and torch wait for each other.

On two busy cores, with 1,200 to 60,000 nodes, one thread was as fast as two or up to 13 times as
fast, and more where the threads started. Idle machines were not measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from gnncal.data.nodes import Nodes

SMALL = 1 << 21  # numbers in logits and features

_in_use = Lock()


@contextmanager
def one_thread_if_small(nodes: Nodes) -> Iterator[None]:
    """Let BLAS and torch use one thread during a small fit; the numbers before come back."""
    if _size(nodes) > SMALL:
        yield
        return
    with _blas(), _torch():
        yield


def _size(nodes: Nodes) -> int:
    features = getattr(nodes.graph, "features", None)
    n_features = 0 if features is None else getattr(features, "nnz", features.size)
    return int(nodes.n_nodes * nodes.n_classes + n_features)


@contextmanager
def _blas() -> Iterator[None]:
    """Limit BLAS for the process; of fits that overlap or nest, the first sets and resets it."""
    if not _in_use.acquire(blocking=False):
        yield
        return
    try:
        with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
            yield
    finally:
        _in_use.release()


@contextmanager
def _torch() -> Iterator[None]:
    """Limit torch if it is loaded; its number belongs to the calling thread."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "set_num_threads"):  # or another thread still imports it
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """Find the BLAS libraries, which takes milliseconds, again only after imports."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
