"""Independent edges between classes of nodes, without ever listing the pairs."""

from __future__ import annotations

import numpy as np

from gnncal.data.arrays import IntArray


def sample_block_edges(
    labels: IntArray, p_in: float, p_out: float, generator: np.random.Generator
) -> IntArray:
    """Draw each pair of nodes with probability p_in (same class) or p_out; (2, n_pairs)."""
    members = np.argsort(labels, kind="stable")
    count = np.bincount(labels)
    first = np.concatenate([[0], np.cumsum(count)])
    parts = []
    for a in range(len(count)):
        n_a = int(count[a])
        row, column = _triangle(bernoulli_positions(n_a * (n_a - 1) // 2, p_in, generator))
        parts.append(first[a] + np.stack([row, column]))
        # One rectangle for all later classes: they are equally likely and stand side by side.
        width = int(first[-1] - first[a + 1])
        if width:
            row, column = np.divmod(bernoulli_positions(n_a * width, p_out, generator), width)
            parts.append(np.stack([first[a] + row, first[a + 1] + column]))
    return members[np.concatenate(parts, axis=1)]


def bernoulli_positions(size: int, p: float, generator: np.random.Generator) -> IntArray:
    """Draw which of ``size`` independent trials succeed, by the gaps between successes."""
    if p <= 0 or size == 0:
        return np.empty(0, dtype=np.int64)
    parts, last = [], -1
    while last < size:
        expected = (size - last) * p
        gaps = generator.geometric(p, int(expected + 4.0 * np.sqrt(expected) + 8))
        # A gap beyond the end counts as the end: sums of huge gaps would overflow.
        positions = last + np.cumsum(np.minimum(gaps, size + 1))
        parts.append(positions)
        last = int(positions[-1])
    found = np.concatenate(parts)
    return found[found < size]


def _triangle(position: IntArray) -> tuple[IntArray, IntArray]:
    """Row and column (column < row) of positions counted row by row below the diagonal."""
    row = ((1.0 + np.sqrt(1.0 + 8.0 * position)) / 2.0).astype(np.int64)
    row -= row * (row - 1) // 2 > position  # rounding of the root
    row += row * (row + 1) // 2 <= position
    return row, position - row * (row - 1) // 2
