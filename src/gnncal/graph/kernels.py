"""Loops over the edges of a graph, compiled by numba (the extra ``fast``).

This module is imported when a large graph is met, and each loop is compiled when it is first
called. What is compiled is kept on disk for the next process: next to this file, or in the user's
folder for such things, or nowhere if both are read-only.

Every sum runs over the neighbours of a node in one order, so results do not depend on the number of
threads, and differ from those of SciPy's products by rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop that is compiled when it is first called, and kept on disk if possible."""
    try:
        return cast(Callable[..., Any], numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # there is no folder to keep it in
        return cast(Callable[..., Any], numba.njit(nogil=True)(function))


@kernel
def count_buckets(receivers, shift, first, last, counts):  # type: ignore[no-untyped-def]
    """Count the edges first..last of each bucket: receivers that share all but some low bits."""
    for edge in range(first, last):
        counts[receivers[edge] >> shift] += 1


@kernel
def fill_buckets(  # type: ignore[no-untyped-def]
    senders, receivers, shift, bits, first, last, places, keys
):
    """Write receiver and sender of the edges first..last as one key into the receiver's bucket."""
    for edge in range(first, last):
        receiver = np.int64(receivers[edge])
        place = places[receiver >> shift]
        places[receiver >> shift] = place + 1
        keys[place] = (receiver << bits) | np.int64(senders[edge])


@kernel
def sort_buckets(  # type: ignore[no-untyped-def]
    keys, starts, low_bits, digit, bits, first, last, indices, in_degree, self_loops
):
    """Sort the keys of the buckets first..last, and read senders, degrees and loops off them."""
    size = 0
    for bucket in range(first, last):
        size = max(size, starts[bucket + 1] - starts[bucket])
    spare = np.empty(size, dtype=np.int64)
    places = np.empty(1 << digit, dtype=np.int64)
    mask = (1 << digit) - 1
    for bucket in range(first, last):
        start, end = starts[bucket], starts[bucket + 1]
        for low in range(0, low_bits, digit):
            places[:] = 0
            for k in range(start, end):
                places[(keys[k] >> low) & mask] += 1
            before = start
            for value in range(mask + 1):
                here = places[value]
                places[value] = before
                before += here
            spare[: end - start] = keys[start:end]
            for k in range(end - start):
                value = (spare[k] >> low) & mask
                keys[places[value]] = spare[k]
                places[value] += 1
        for k in range(start, end):
            receiver = keys[k] >> bits
            sender = keys[k] & ((1 << bits) - 1)
            indices[k] = sender
            in_degree[receiver] += 1
            if receiver == sender:
                self_loops[receiver] += 1


@kernel
def add_of_class(others, nodes, first, width, flat, classes, sums):  # type: ignore[no-untyped-def]
    """Add to each node's sum what its other's row gives to its class; rows begin at ``first``."""
    for edge in range(len(nodes)):
        node = nodes[edge]
        sums[node] += flat[(np.int64(others[edge]) - first) * width + classes[node]]


@kernel
def add_rows(indptr, indices, values, first, last, sums):  # type: ignore[no-untyped-def]
    """Add to the rows first..last of ``sums`` the rows of ``values`` of their neighbours."""
    # Four rows are added in their own precision, and these sums in float64, so that a hub keeps its
    # digits.
    n_columns = values.shape[1]
    total = np.empty(n_columns, dtype=np.float64)
    for node in range(first, last):
        edge, end = indptr[node], indptr[node + 1]
        if edge == end:
            continue
        total[:] = 0
        while edge + 4 <= end:  # four at once: their reads wait for memory together
            a, b, c, d = indices[edge], indices[edge + 1], indices[edge + 2], indices[edge + 3]
            for k in range(n_columns):
                total[k] += (values[a, k] + values[b, k]) + (values[c, k] + values[d, k])
            edge += 4
        while edge < end:
            a = indices[edge]
            for k in range(n_columns):
                total[k] += values[a, k]
            edge += 1
        for k in range(n_columns):
            sums[node, k] += total[k]
