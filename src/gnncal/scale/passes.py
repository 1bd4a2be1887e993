"""Passes over the edges in this process: pairs of nodes stream by, NumPy adds up.

Nodes have positions 0..n-1. What has a number for each node and class is a file of rows, of which a
block fits in memory. Edges are kept in cells, one for each pair of blocks: a pass over a cell needs
the rows of one block and adds to those of another, however many nodes and classes there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.graph.compiled import group_by_receiver, kernels_for, parallel_for, row_chunks
from gnncal.graph.graph import Side
from gnncal.graph.neighbours import edge_sums, row_slices
from gnncal.scale.batches import parallel

Pairs = Iterable[tuple[IntArray, IntArray]]
SHARE_OF_BLOCKS = 0.5  # of the memory, for the rows that are read and those that are added to
SHARE_OF_EDGES = 0.1  # for a chunk of edges, which are sorted there
BYTES_PER_EDGE = 40  # of a chunk, with what sorting them takes
MOST_EDGES, FEWEST_EDGES = 1 << 24, 1 << 16  # in a chunk
BYTES_PER_NODE = 45  # of labels, degrees and means; each thread has 8 more for sums of its own


class RowFile:
    """A matrix on disk, written from its first row to its last and read in blocks."""

    def __init__(self, path: Path, width: int, dtype: Any) -> None:
        self.path, self.width, self.dtype, self.n_rows = path, width, np.dtype(dtype), 0
        self._file = path.open("wb", buffering=0)  # a buffer left over fails as the program ends

    def append(self, rows: FloatArray) -> None:
        """Write more rows at the end."""
        left = np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1).view(np.uint8)
        while left.size:  # near a limit the system writes a part
            left = left[self._file.write(left.data) :]
        self.n_rows += len(rows)

    def finish(self) -> None:
        """Close the file; only then it can be read."""
        self._file.close()

    def read(self, start: int, stop: int) -> FloatArray:
        """Return some rows that follow each other."""
        count = max(min(stop, self.n_rows) - start, 0) * self.width
        offset = start * self.width * self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, count, offset=offset).reshape(-1, self.width)

    def take(self, rows: IntArray) -> FloatArray:
        """Return a few rows from anywhere."""
        found = np.empty((len(rows), self.width), dtype=self.dtype)
        with self.path.open("rb", buffering=0) as file:  # a map of it would count as memory
            for place, row in zip(rows.tolist(), found, strict=True):
                file.seek(place * row.nbytes)
                file.readinto(row.data)
        return found


class EdgeFile:
    """Edges on disk, in cells of (block of the receiver, block of the sender)."""

    def __init__(self, path: Path, block: int, n_blocks: int, chunk: int) -> None:
        self.path, self.block, self.n_blocks, self.chunk = path, block, n_blocks, chunk
        self._pieces: dict[int, list[tuple[int, int]]] = {}  # by cell: where, and how many edges

    def fill(self, chunks: Pairs) -> None:
        """Write edges into their cells."""
        end = 0
        with self.path.open("wb") as file:
            for senders, receivers in chunks:
                counts = np.array([len(senders)])
                if self.n_blocks > 1:
                    cells = (receivers // self.block) * self.n_blocks + senders // self.block
                    counts = np.bincount(cells)
                    narrow = np.uint16 if self.n_blocks <= 256 else np.uint32
                    order = cells.astype(narrow).argsort(kind="stable")  # 16 bits: a radix sort
                    senders, receivers = senders[order], receivers[order]
                stops = np.cumsum(counts).tolist()
                for cell, (stop, count) in enumerate(zip(stops, counts.tolist(), strict=True)):
                    for ends in (senders, receivers):
                        part = ends[stop - count : stop]
                        file.write(np.ascontiguousarray(part, dtype=np.int32).data)
                    if count:
                        self._pieces.setdefault(cell, []).append((end, count))
                    end += count

    def pairs(self, of_nodes: int, of_others: int, side: Side) -> Pairs:
        """Give pairs (others, nodes) of neighbours with both ends in some blocks."""
        is_one_cell = of_nodes == of_others
        if side != "out" or is_one_cell:
            for senders, receivers in self._read(of_nodes, of_others):
                if side != "out":
                    yield senders, receivers
                if side != "in" and is_one_cell:
                    yield receivers, senders
        if side != "in" and not is_one_cell:
            yield from (pair[::-1] for pair in self._read(of_others, of_nodes))

    def _read(self, receiver_block: int, sender_block: int) -> Pairs:
        pieces = self._pieces.get(receiver_block * self.n_blocks + sender_block, [])
        found = (
            np.fromfile(self.path, np.int32, 2 * count, offset=8 * place).reshape(2, -1)
            for place, count in pieces
        )
        return in_chunks(((ends[0], ends[1]) for ends in found), self.chunk)


class EdgeStream(EdgeFile):
    """Edges that are seen once; all nodes are one block."""

    def __init__(self, chunks: Pairs, n_nodes: int) -> None:
        self.block, self.n_blocks, self._chunks = n_nodes, 1, chunks

    def _read(self, receiver_block: int, sender_block: int) -> Pairs:
        return self._chunks


def in_chunks(pairs: Pairs, chunk: int) -> Pairs:
    """Give the same pairs, at least ``chunk`` at a time."""
    waiting: list[tuple[IntArray, IntArray]] = []
    for pair in chain(pairs, [None]):
        waiting += [] if pair is None else [pair]
        if waiting and (pair is None or sum(len(each[0]) for each in waiting) >= chunk):
            senders, receivers = zip(*waiting, strict=True)
            is_one = len(waiting) == 1
            yield waiting[0] if is_one else (np.concatenate(senders), np.concatenate(receivers))
            waiting = []


class Neighbourhoods:
    """What is known of the neighbours of every node, pass by pass."""

    def __init__(self, n_nodes: int, memory: int, work: Path, threads: int) -> None:
        self.n_nodes, self.memory, self.work, self.threads = n_nodes, memory, work, threads
        self.in_degree, self.out_degree, self.self_loops = np.zeros((3, n_nodes), dtype=np.int32)
        edges = int(SHARE_OF_EDGES * memory / BYTES_PER_EDGE)
        self.chunk = min(max(edges, FEWEST_EDGES), MOST_EDGES)
        self.class_mean: FloatArray | None = None
        self.support: FloatArray | None = None
        self.means: RowFile | None = None
        self.n_edges = 0
        self.done = 0.0  # of a pass, for progress

    def plan(self, row_bytes: int, *, sums: bool) -> tuple[int, int]:
        """Return how many nodes a block has, and how many blocks there are."""
        by_node = self.n_nodes * (BYTES_PER_NODE + 8 * (self.threads + 2))
        if by_node >= self.memory:
            raise InputError(
                f"{self.n_nodes:,} nodes on {self.threads} threads need {by_node / 2**30:.1f} GiB "
                "for degrees and means alone; raise --memory-limit above it."
            )
        room = SHARE_OF_BLOCKS * (self.memory - by_node) / (row_bytes * self.n_nodes)
        if room >= (3 if sums else 1):
            return self.n_nodes, 1
        n_blocks = int(np.ceil((2 if sums else 1) / room))
        block = -(-self.n_nodes // min(n_blocks, self.n_nodes))  # rounding adds less than a row
        return block, -(-self.n_nodes // block)

    def count(self, senders: IntArray, receivers: IntArray) -> tuple[IntArray, IntArray]:
        """Count degrees and self-loops, and return the edges between two nodes."""
        self.n_edges += len(senders)
        for ends, degree in ((receivers, self.in_degree), (senders, self.out_degree)):
            degree += np.bincount(ends, minlength=self.n_nodes).astype(np.int32)
        is_loop = senders == receivers
        if is_loop.any():
            np.add.at(self.self_loops, receivers[is_loop], 1)
            return senders[~is_loop], receivers[~is_loop]
        return senders, receivers

    def counts(self, side: Side) -> IntArray:
        """Return how many neighbours each node has."""
        counts = {"in": self.in_degree, "out": self.out_degree}.get(side)
        if counts is None:
            return self.in_degree + self.out_degree - 2 * self.self_loops
        return counts - self.self_loops

    def is_undirected(self, edges: EdgeFile) -> bool:
        """Whether every edge is listed in both directions, equally often."""
        if not np.array_equal(self.in_degree, self.out_degree):
            return False
        numbers = np.random.default_rng(0).integers(1 << 63, size=self.n_nodes, dtype=np.uint64)

        def asymmetry(chunk: tuple[IntArray, IntArray]) -> int:
            one, other = (numbers[ends] for ends in chunk)
            # A fingerprint of each edge less that of the edge turned around, modulo 2^64.
            return int((one * (other * other) - other * (one * one)).sum(dtype=np.uint64))

        blocks = range(edges.n_blocks)
        chunks = (pair for r, s in product(blocks, blocks) for pair in edges.pairs(r, s, "in"))
        return sum(parallel(asymmetry, chunks, self.threads)) % (1 << 64) == 0

    def find_class_mean(
        self,
        edges: EdgeFile,
        values: RowFile,
        predictions: IntArray,
        side: Side,
        *,
        only: BoolArray | None = None,
    ) -> FloatArray:
        """Return the mean over neighbours of their value of a node's predicted class; NaN if none.

        ``only`` says which nodes it is wanted for.
        """
        sums = np.zeros((self.threads, self.n_nodes))  # each thread has its own
        blocks = range(edges.n_blocks)
        for of_others in blocks:
            first = of_others * edges.block
            flat = values.read(first, first + edges.block).reshape(-1)
            given = flat, values.width, first, predictions
            for of_nodes, pair in ((b, p) for b in blocks for p in edges.pairs(b, of_others, side)):
                others, nodes = pair if only is None else (ends[only[pair[1]]] for ends in pair)
                parts = (np.array_split(ends, self.threads) for ends in (others, nodes))
                parallel_for(partial(_add_of_class, self.n_edges, given), *parts, sums)
                self.done = (of_others + (of_nodes + 1) / len(blocks)) / len(blocks)
            del flat, given  # before the next block is read
        with np.errstate(invalid="ignore"):
            return sums.sum(axis=0) / self.counts(side)

    def find_means(self, edges: EdgeFile, values: RowFile, side: Side) -> RowFile:
        """Return the mean over neighbours of their rows; zero for nodes without any."""
        means = RowFile(self.work / "means", values.width, values.dtype)
        counts = self.counts(side)
        for of_nodes in range(edges.n_blocks):
            start = of_nodes * edges.block
            stop = min(start + edges.block, self.n_nodes)
            # One block has room for it; others are added to a few times only.
            precise = np.float64 if edges.n_blocks == 1 else values.dtype
            sums = np.zeros((stop - start, values.width), dtype=precise)
            for of_others in range(edges.n_blocks):
                first = of_others * edges.block
                rows = values.read(first, first + edges.block)
                for others, nodes in edges.pairs(of_nodes, of_others, side):
                    add_rows(rows, others - first, nodes - start, sums, self.n_edges)
                del rows  # before the next block is read
                self.done = (of_nodes + (of_others + 1) / edges.n_blocks) / edges.n_blocks
            sums /= np.maximum(counts[start:stop], 1)[:, None].astype(precise)
            means.append(sums)
        means.finish()
        return means


def _add_of_class(
    of_edges: int, given: Any, others: IntArray, nodes: IntArray, sums: FloatArray
) -> None:
    """Add to the sum of each node what the row of its other gives to its predicted class."""
    flat, width, first, predictions = given
    kernels = kernels_for(of_edges)
    if kernels is not None:
        kernels.add_of_class(others, nodes, first, width, flat, predictions, sums)
    else:
        places = (others - first).astype(np.int64) * width + predictions[nodes]
        sums += np.bincount(nodes, flat[places], minlength=len(sums))


def add_rows(
    values: FloatArray, others: IntArray, nodes: IntArray, sums: FloatArray, of_edges: int = 0
) -> None:
    """Add to ``sums[node]`` the row ``values[other]`` of each pair; the graph has more of them."""
    n_rows = max(len(values), len(sums))
    grouped = group_by_receiver(others, nodes, n_rows, of_edges=of_edges)
    starts, indices = grouped.indptr[: len(sums) + 1], grouped.indices
    kernels = kernels_for(max(len(others), of_edges))
    if kernels is not None:
        parallel_for(
            lambda first, last: kernels.add_rows(starts, indices, values, first, last, sums),
            *row_chunks(starts),
        )
        return
    for rows in row_slices(starts):
        sums[rows] += edge_sums(starts, indices, rows, values)
