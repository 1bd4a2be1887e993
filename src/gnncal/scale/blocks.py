"""Blocks of classes and nodes, small enough that a join and its sums stay in memory.

A pass over the edges keeps a number for each node and class: 5 million nodes with 172 classes are
3.4 GB of float32. A pass over a block of classes keeps a few columns of them, and a pass over a
part of the nodes a few of the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

KEY_BYTES = 64  # of a row of a hash table beside its values: id, hash, pointer and spare room
SUM_BYTES = 16  # DuckDB's state of one sum
SHARE_OF_VALUES = 0.35  # of the memory, for the values that edges are joined with
SHARE_OF_SUMS = 0.3  # of the memory, for sums
CLASSES_AT_ONCE = 16  # where an edge needs one class alone: fewer columns are copied for each edge
FEWEST_CLASSES = 8  # in a block, however little memory there is


@dataclass(frozen=True)
class Blocks:
    """Ranges of classes, and the number of parts of the nodes, that one pass takes at a time."""

    classes: tuple[range, ...]
    parts: int = 1

    @property
    def is_one(self) -> bool:
        """Whether everything fits in one pass, so that the edges need not be kept."""
        return len(self.classes) == 1 and self.parts == 1


def blocks_of_values(n_nodes: int, n_classes: int, value_bytes: int, memory: int | None) -> Blocks:
    """Blocks for a pass that reads one value for each edge; ``memory`` is None for any amount."""
    fitting = _fitting(n_nodes, value_bytes, memory, n_classes)
    return Blocks(
        _ranges(
            range(n_classes), n_classes if fitting == n_classes else min(fitting, CLASSES_AT_ONCE)
        )
    )


def blocks_of_sums(n_nodes: int, n_classes: int, value_bytes: int, memory: int | None) -> Blocks:
    """Blocks for a pass that sums the values of every class."""
    fitting = _fitting(n_nodes, value_bytes, memory, n_classes)
    classes = _ranges(range(n_classes), fitting)
    if memory is None:
        return Blocks(classes)
    sums = n_nodes * (len(classes[0]) * SUM_BYTES + KEY_BYTES)
    return Blocks(classes, max(1, -int(-sums // (SHARE_OF_SUMS * memory))))


def within(classes: range) -> tuple[range, ...]:
    """Cut a block of classes into those that are best where an edge needs one class alone."""
    return _ranges(classes, CLASSES_AT_ONCE)


def _fitting(n_nodes: int, value_bytes: int, memory: int | None, n_classes: int) -> int:
    """Return how many classes of all nodes fit."""
    if memory is None or n_nodes == 0:
        return n_classes
    row = SHARE_OF_VALUES * memory / n_nodes
    return min(n_classes, max(FEWEST_CLASSES, int((row - KEY_BYTES) // value_bytes)))


def _ranges(classes: range, at_most: int) -> tuple[range, ...]:
    """Cut a range into pieces of equal length, as far as possible."""
    n_pieces = -(-len(classes) // at_most)
    borders = [classes.start + len(classes) * i // n_pieces for i in range(n_pieces + 1)]
    return tuple(range(a, b) for a, b in pairwise(borders))
