"""Compiled loops over the edges, what runs them on every core, and edges grouped by receiver.

The loops of :mod:`gnncal.graph.kernels` need numba (the extra ``fast``). Each works on a range of
rows without holding the interpreter's lock, so ordinary threads run them side by side. No row is
computed by two threads and every sum has one order: results do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gnncal.data.arrays import IntArray

SMALLEST_GRAPH = 1 << 23  # edges; below, loading what is compiled takes as long as it saves
PIECES_PER_THREAD = 8  # so that no thread waits long for the last piece
EDGES_PER_PIECE = 1 << 16  # a smaller piece costs more to hand out than to compute
MOST_BUCKETS = 1024  # more places to write to are no longer in the cache
EDGES_PER_BUCKET = 1 << 15
BITS_PER_DIGIT = 11


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


class GroupedEdges(NamedTuple):
    """Senders grouped by receiver and sorted within, and what was counted on the way."""

    indptr: IntArray  # (n_nodes + 1,)
    indices: IntArray  # (n_edges,)
    in_degree: IntArray  # (n_nodes,)
    out_degree: IntArray
    self_loops: IntArray


def group_by_receiver(
    senders: IntArray, receivers: IntArray, n_nodes: int, *, of_edges: int = 0
) -> GroupedEdges:
    """Group edges between nodes 0..n_nodes-1; numbers are int32 where all of them fit.

    If they are only a part of a graph, ``of_edges`` is the number of all edges.
    """
    fits = max(n_nodes, len(senders)) <= np.iinfo(np.int32).max
    index_type = np.dtype(np.int32 if fits else np.int64)
    kernels = kernels_for(max(len(senders), of_edges))
    if kernels is not None and len(senders):
        return _radix_group(senders, receivers, n_nodes, index_type, kernels)
    ones = np.ones(len(senders), dtype=np.int8)
    ends = (senders.astype(index_type, copy=False), receivers.astype(index_type, copy=False))
    edges = sparse.coo_array((ones, ends), shape=(n_nodes, n_nodes))
    edges.has_canonical_format = True  # so that multi-edges stay apart
    grouped = edges.tocsr(copy=False).T.tocsr()  # by sender, then by receiver: sorted both ways
    counts = (
        np.diff(grouped.indptr),
        np.bincount(senders, minlength=n_nodes),
        np.bincount(senders[senders == receivers], minlength=n_nodes),
    )
    in_degree, out_degree, loops = (each.astype(index_type, copy=False) for each in counts)
    return GroupedEdges(grouped.indptr, grouped.indices, in_degree, out_degree, loops)


def _radix_group(
    senders: IntArray,
    receivers: IntArray,
    n_nodes: int,
    index_type: np.dtype[Any],
    kernels: ModuleType,
) -> GroupedEdges:
    """Do the same on every core: counted into buckets of receivers, then within each."""
    if senders.dtype not in (np.int32, np.int64):
        senders, receivers = senders.astype(np.int64), receivers.astype(np.int64)
    n_edges, bits = len(senders), max(n_nodes - 1, 1).bit_length()
    n_buckets = min(max(n_edges // EDGES_PER_BUCKET, 1), MOST_BUCKETS)
    shift = max(bits - (n_buckets - 1).bit_length(), 0)
    n_buckets = (max(n_nodes - 1, 0) >> shift) + 1

    cuts = np.linspace(0, n_edges, n_threads() + 1).astype(np.int64).tolist()
    parts = list(pairwise(cuts))
    counts = np.zeros((len(parts), n_buckets), dtype=np.int64)
    parallel_for(lambda p, c: kernels.count_buckets(receivers, shift, *p, c), parts, counts)
    starts = np.append(0, np.cumsum(counts.sum(axis=0)))
    places = starts[:-1] + np.cumsum(counts, axis=0) - counts  # each part has its own
    keys = np.empty(n_edges, dtype=np.int64)
    parallel_for(
        lambda p, c: kernels.fill_buckets(senders, receivers, shift, bits, *p, c, keys),
        parts,
        places,
    )
    n_digits = -(-(bits + shift) // BITS_PER_DIGIT)
    digit = -(-(bits + shift) // n_digits)
    indices = np.empty(n_edges, dtype=index_type)
    in_degree, loops = np.zeros((2, n_nodes), dtype=index_type)
    sort = partial(kernels.sort_buckets, keys, starts, bits + shift, digit, bits)
    parallel_for(
        lambda first, last: sort(first, last, indices, in_degree, loops), *row_chunks(starts)
    )
    indptr = np.append(0, np.cumsum(in_degree)).astype(index_type)
    out_degree = np.bincount(senders, minlength=n_nodes).astype(index_type)
    return GroupedEdges(indptr, indices, in_degree, out_degree, loops)
