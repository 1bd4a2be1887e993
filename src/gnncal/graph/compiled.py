"""Compiled loops over the edges: when they are used, and how they use every core.

The loops of :mod:`gnncal.graph.kernels` need numba (the extra ``fast``). Each works on a range of
rows without holding the interpreter's lock, so ordinary threads run them side by side. No row is
computed by two threads and every sum has one order: results do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from gnncal.data.arrays import IntArray

SMALLEST_GRAPH = 1 << 23  # edges; below, loading what is compiled takes as long as it saves
PIECES_PER_THREAD = 8  # so that no thread waits long for the last piece
EDGES_PER_PIECE = 1 << 16  # a smaller piece costs more to hand out than to compute


def kernels_for(n_edges: int) -> ModuleType | None:
    """Return the compiled loops if they are installed and a graph of that size is worth them."""
    if n_edges == 0 or n_edges < SMALLEST_GRAPH or not _is_installed():
        return None
    from gnncal.graph import kernels  # it needs numba

    return kernels


@cache
def _is_installed() -> bool:
    """Whether numba is there and may compile; ``NUMBA_DISABLE_JIT=1`` switches it off."""
    if find_spec("numba") is None:
        return False
    return not import_module("numba").config.DISABLE_JIT


def n_threads() -> int:
    """Number of threads: the cores that this process may use, or ``OMP_NUM_THREADS`` if fewer."""
    from joblib import cpu_count  # it knows the limits of containers

    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    limit = int(wanted) if wanted.isdigit() and int(wanted) > 0 else cpu_count()
    return int(min(limit, cpu_count()))


def parallel_for(work: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    """Call a function once for each set of arguments, on every core."""
    calls = list(zip(*arguments, strict=True))
    workers = min(n_threads(), len(calls)) if len(calls) > 1 else 1
    if workers <= 1:
        for each in calls:
            work(*each)
        return
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work, *each) for each in calls]:
            done.result()


def row_chunks(ends: IntArray) -> tuple[list[int], list[int]]:
    """Cut rows into pieces with about equally many edges: first rows, and the rows after the
    last."""
    n_edges = int(ends[-1])
    n_pieces = max(1, min(PIECES_PER_THREAD * n_threads(), n_edges // EDGES_PER_PIECE))
    cuts = np.searchsorted(ends, np.linspace(0, n_edges, n_pieces + 1)[1:-1])
    bounds = np.unique(np.concatenate([[0], cuts, [len(ends) - 1]])).tolist()
    return bounds[:-1], bounds[1:]
