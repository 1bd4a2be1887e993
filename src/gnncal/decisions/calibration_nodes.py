"""Which nodes a fit rests on, so that they can be found and scored again on the graph of today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gnncal.core.arrays import IntArray
from gnncal.core.constraints import FLAG, whole_number
from gnncal.core.errors import InputError, warn
from gnncal.core.learned import Array, LearnedTable
from gnncal.decisions.node_numbers import Keys, node_keys

# What a saved file has of them.
CALIBRATION_FACTS: LearnedTable = {
    "calibration_keys": Array("calibration", low=0, whole=True),
    "calibration_labels": Array("calibration", low=0, high="K-1", whole=True),
}

ROW_FACTS: LearnedTable = {  # the same with the numbers that say what the keys are
    **CALIBRATION_FACTS,
    "n_rows": whole_number(at_least=1),
    "has_ids": FLAG,
}


@dataclass(frozen=True, eq=False)
class CalibrationNodes:
    """The calibration nodes of a fit: their ids as 64-bit keys, or their rows, and their labels."""

    keys: Keys  # (n,)
    labels: IntArray  # (n,)
    n_rows: int  # of the fit, calibration nodes and others
    has_ids: bool  # whether the fit was given ids; the keys are rows otherwise

    @classmethod
    def of(cls, rows: IntArray, labels: IntArray, n_rows: int, ids: Any) -> Self:
        """Return these rows of a fit, named by their ids or by themselves."""
        return cls(node_keys(ids, n_rows)[rows], labels, n_rows, ids is not None)

    @property
    def has_others(self) -> bool:
        """Whether the fit saw more nodes than these, which makes its rows the nodes of a graph."""
        return self.n_rows > self.labels.size

    def facts(self) -> dict[str, Any]:
        """Return what a saved file has of them."""
        return {"calibration_keys": self.keys, "calibration_labels": self.labels}

    @classmethod
    def restored(cls, facts: dict[str, Any], n: int, n_rows: int, has_ids: bool) -> Self:
        """Return the n nodes of a file."""
        keys, labels = facts["calibration_keys"], facts["calibration_labels"]
        if keys.size != n or np.unique(keys).size != n or keys.dtype != np.uint64:
            raise InputError(f"calibration_keys are not those of {n} nodes.")
        return cls(keys, labels.astype(np.int64), n_rows, has_ids)

    def today(self, n_nodes: int, ids: Any) -> tuple[IntArray, Self]:
        """Return the rows of these nodes today, and the nodes as a fit of today would know them."""
        keys, rows, labels = self.found(n_nodes, ids)
        return rows, type(self)(keys[rows], labels, n_nodes, ids is not None)

    def found(self, n_nodes: int, ids: Any) -> tuple[Keys, IntArray, IntArray]:
        """Find these nodes among those of today.

        Without ids, the rows of today begin with those of the fit in their order. Nodes that have
        left are named in a warning: the others still are a random draw, if leaving has nothing to
        do with having been chosen for calibration.

        Returns
        -------
        keys : (n_nodes,) those of every node of today.
        rows : (n,) rows of the calibration nodes that are still there, in the order of the fit.
        labels : (n,) their labels.

        """
        self._check_names(n_nodes, ids)
        today = node_keys(ids, n_nodes)
        order = np.argsort(today)
        places = np.searchsorted(today, self.keys, sorter=order)
        rows = order[np.minimum(places, n_nodes - 1)]
        there = today[rows] == self.keys
        n_left = int((~there).sum())
        if n_left == self.keys.size:
            raise InputError(
                f"none of the {n_left:,} calibration nodes is among the {n_nodes:,} nodes of today "
                "by its id; pass ids made like those of fit."
            )
        if n_left:
            warn(
                f"{n_left:,} of {self.keys.size:,} calibration nodes have left the graph; the "
                "guarantee rests on the others, and holds if nodes leave whether they were chosen "
                "for calibration or not."
            )
        return today, rows[there], self.labels[there]

    def _check_names(self, n_nodes: int, ids: Any) -> None:
        if ids is None and self.has_ids:
            raise InputError(
                "ids is missing: fit was given ids, which say where its nodes are today; pass "
                "refresh(probs, graph, ids=...)."
            )
        if ids is None and n_nodes < self.n_rows:
            raise InputError(
                f"probs has {n_nodes:,} rows but fit had {self.n_rows:,}; without ids the rows of "
                "today begin with those of fit. Where nodes leave the graph, fit with ids=... and "
                "refresh with ids=... too."
            )
        if ids is not None and not self.has_ids and not self.has_others:
            raise InputError(
                "fit saw the calibration nodes alone and was given no ids, so nobody knows which "
                "ids they have; fit with ids=..., or pass their rows first and no ids."
            )
