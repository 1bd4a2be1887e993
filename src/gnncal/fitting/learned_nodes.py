"""The nodes whose labels a calibrator has learned from, so that no label counts twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gnncal.core.arrays import BoolArray, IntArray
from gnncal.core.learned import Array, LearnedTable, check_learned
from gnncal.nodes import Nodes

KEYS: LearnedTable = {
    "rows": Array("n_rows", low=0, whole=True, rising="rows"),
    "ids": Array("n_ids", low=0, whole=True, rising="rows"),
}
NONE: IntArray = np.empty(0, dtype=np.int64)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64, as are the numbers below


@dataclass(frozen=True, eq=False)
class LearnedNodes:
    """Keys of labelled nodes: 63-bit hashes from which no node's data can be read."""

    # One without is known by its number and its logits together, because on another graph the same
    # number is another node.

    rows: IntArray
    ids: IntArray

    @classmethod
    def of(cls, nodes: Nodes, before: LearnedNodes | None = None) -> Self:
        """Return the keys of the calibration nodes, and of those that were learned before."""
        old = cls(NONE, NONE) if before is None else before
        return cls(
            np.unique(np.append(old.rows, _keys_of_rows(nodes))),
            np.unique(np.append(old.ids, _keys_of_ids(nodes))),
        )

    def holds(self, nodes: Nodes) -> BoolArray:
        """Return which calibration nodes of a record are among these."""
        if nodes.node_ids is not None and self.ids.size:
            return np.isin(_keys_of_ids(nodes), self.ids)
        return np.isin(_keys_of_rows(nodes), self.rows)

    def to_plain(self) -> dict[str, Any]:
        """Return the keys for a file."""
        return {"rows": self.rows, **({"ids": self.ids} if self.ids.size else {})}

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Return the record of such values, each of which is checked."""
        has_ids = isinstance(plain, dict) and "ids" in plain
        table = KEYS if has_ids else {"rows": KEYS["rows"]}
        check_learned(table, plain, {}, where="learned_nodes")
        return cls(**{"ids": NONE, **plain})


def _keys_of_rows(nodes: Nodes) -> IntArray:
    """Return a key for number and logits of each calibration node; float32 and float64 agree."""
    logits = nodes.calibration_logits.astype(np.float32) + np.float32(0.0)  # -0 is 0
    numbers = nodes.calibration_nodes.astype(np.uint32)[:, None]
    return _hashed(np.hstack([logits.view(np.uint32), numbers]))


def _keys_of_ids(nodes: Nodes) -> IntArray:
    if nodes.node_ids is None or not nodes.calibration_nodes.size:
        return NONE
    texts = nodes.node_ids[nodes.calibration_nodes].astype(str)
    return _hashed(np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, -1))


def _hashed(words: npt.NDArray[np.uint32]) -> IntArray:
    """Return a hash (n,) of the words of each row; zeros at its end, which fill texts, add none."""
    factors = _mixed(np.arange(1, words.shape[1] + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)
    return (_mixed(words.astype(np.uint64) @ factors) >> np.uint64(1)).view(np.int64)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the values with their bits mixed, as splitmix64 does."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
