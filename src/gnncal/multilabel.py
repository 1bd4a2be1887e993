"""Multi-label calibration: each label has its own sigmoid and its own calibrator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.calibration import Calibration, calibrate
from gnncal.data.arrays import FloatArray, as_numpy
from gnncal.data.checks import check_class_names, check_logits, check_nodes
from gnncal.data.errors import InputError
from gnncal.data.tables import Cell, Table, Tabular, number_cell, text_cell
from gnncal.graph.graph import as_graph

EXPECTED = "labels of a multi-label model are 0 or 1, and -1 or NaN where unknown."
SHOWN = {"nll": ("NLL", 1.0, 4), "positive_ece": ("ECE of P %", 100.0, 2)}


@dataclass(frozen=True, repr=False)
class MultiLabelCalibration(Tabular):
    """The calibrations of several labels, and their probabilities in one array.

    Attributes
    ----------
    columns : tuple of Calibration
        The result for each label, with the two classes "no" and "yes". Policies and metrics of one
        label take ``probabilities`` (n_nodes, 2) of its result.
    names : list of str
        The name of each label.

    """

    columns: tuple[Calibration, ...]
    names: list[str]

    @property
    def probabilities(self) -> FloatArray:
        """Calibrated probability that each node has each label, (n_nodes, n_labels)."""
        return np.column_stack([each.probabilities[:, 1] for each in self.columns])

    def _tables(self) -> Sequence[Table]:
        titles = [f"{shown[0]} {side}" for shown in SHOWN.values() for side in ("before", "after")]
        if any(each.after is None for each in self.columns):
            rows = [[text_cell(name)] for name in self.names]
            return [Table("labels; pass test_nodes to judge them", ("label",), rows)]
        results = [*([each] for each in self.columns), self.columns]
        rows = [self._row(*each) for each in zip([*self.names, "mean"], results, strict=True)]
        return [Table(f"{len(self.names)} labels", ("label", *titles), rows)]

    @staticmethod
    def _row(name: str, results: Sequence[Calibration]) -> list[Cell]:
        cells = [text_cell(name)]
        for metric, (_, scale, decimals) in SHOWN.items():
            for side in ("before", "after"):
                values = [getattr(getattr(each, side), metric) for each in results]
                cells.append(number_cell(scale * float(np.mean(values)), decimals))
        return cells


def calibrate_multilabel(
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    calibration_nodes: Any,
    train_nodes: Any = None,
    test_nodes: Any = None,
    class_names: Sequence[str] | None = None,
    method: str | None = None,
    **options: Any,
) -> MultiLabelCalibration:
    """Return a calibration of each label of a multi-label model (one sigmoid per label).

    Parameters
    ----------
    logits, labels : array_like of shape (n_nodes, n_labels)
        Logits before the sigmoid; labels 1 (the node has the label), 0 (the node does not have it),
        -1 or NaN (unknown).
    graph, calibration_nodes, train_nodes, test_nodes : Any
        As in :func:`gnncal.calibrate`. For each label, nodes where it is unknown are left out.
    class_names : sequence of str, optional
        A name for each label.
    method : str, optional
        A calibrator's name. Default: ``structural-free`` with a graph and ``svs`` without.
    **options : Any
        Further parameters of :func:`gnncal.calibrate`.

    Examples
    --------
    >>> import gnncal, numpy as np
    >>> task = gnncal.example()
    >>> labels = np.column_stack([task.labels % 2, task.labels > 4])  # odd; large
    >>> odd, large = task.logits[:, 1::2].max(1), task.logits[:, 5:].max(1)
    >>> logits = np.column_stack([odd, large]) - task.logits.mean(axis=1, keepdims=True)
    >>> made = gnncal.calibrate_multilabel(logits, labels, task.graph, **task.splits)
    >>> made.probabilities.shape
    (1797, 2)

    """
    columns, known = check_logits(logits), _as_numbers(labels)
    if known.shape != columns.shape:
        raise InputError(
            f"labels has shape {known.shape} but logits has {columns.shape}; pass a column of 0 "
            "and 1 for each logit."
        )
    known = np.where(np.isnan(known), -1.0, known)
    if not np.isin(known, (-1.0, 0.0, 1.0)).all():
        raise InputError(EXPECTED)
    names = check_class_names(class_names, columns.shape[1])
    named = {
        "calibration_nodes": calibration_nodes,
        "train_nodes": train_nodes,
        "test_nodes": test_nodes,
    }
    split = {
        name: check_nodes(each, len(columns), name=name)
        for name, each in named.items()
        if each is not None
    }
    read = as_graph(graph)
    method = method or ("svs" if read is None else "structural-free")
    made = []
    for z, y in zip(columns.T, known.T.astype(np.int64), strict=True):
        labelled: dict[str, Any] = {name: rows[y[rows] >= 0] for name, rows in split.items()}
        two = np.column_stack([np.zeros_like(z), z])  # softmax of [0, z] is the sigmoid of z
        made.append(calibrate(two, y, read, positive=1, method=method, **labelled, **options))
    return MultiLabelCalibration(tuple(made), names or [f"label {c}" for c in range(len(made))])


def _as_numbers(labels: Any) -> FloatArray:
    """Return labels in float64, or say what is no number."""
    array = as_numpy(labels)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"labels has dtype {array.dtype} ({error}); {EXPECTED}") from error
