"""New nodes that a report compares with those that it calibrates on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import IntArray
from gnncal.core.errors import InputError
from gnncal.files.bundle import Bundle
from gnncal.nodes import Nodes
from gnncal.shift.check import check_comparable


@dataclass(frozen=True)
class NewNodes:
    """Checked nodes of another graph, or of another day."""

    record: Nodes  # logits and graph
    rows: IntArray  # the nodes to compare: those that the model was not trained on


def check_new_nodes(
    new: Any,
    *,
    n_classes: int,
    n_calibration: int,
    class_names: Sequence[str] | None,
    graph_method: str | None,
) -> NewNodes:
    """Check new nodes before any work is done."""
    if isinstance(new, Bundle):
        _check_names(new.class_names, class_names)
        record, train = Nodes(new.logits, new.graph), new.train_nodes
    elif isinstance(new, Nodes):
        record, train = new.with_known_labels(), new.train_nodes
    elif isinstance(new, (tuple, list)) and len(new) == 2:
        record, train = Nodes(*new), np.empty(0, dtype=np.int64)
    else:
        raise InputError(
            f"new is of type {type(new).__name__}; expected a pair (logits, graph), Nodes or a "
            "Bundle."
        )
    if graph_method is not None and record.graph is None:
        raise InputError(f"{graph_method} needs a graph and new has none; pass (logits, graph).")
    rows = np.setdiff1d(np.arange(record.n_nodes), train)
    check_comparable(record, rows, n_classes=n_classes, n_fitted_on=n_calibration)
    return NewNodes(record, rows)


def _check_names(new: Sequence[str] | None, known: Sequence[str] | None) -> None:
    if new is not None and known is not None and list(new) != list(known):
        raise InputError(
            f"the report is about the classes {', '.join(known)} but new has {', '.join(new)}; "
            "put the columns of logits in the same order."
        )
