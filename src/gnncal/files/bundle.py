"""The input and output of a run, whatever the file format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.checks import (
    UNKNOWN,
    check_apart,
    check_labels,
    check_logits,
    check_nodes,
    check_used_labels,
)
from gnncal.data.errors import InputError, shown
from gnncal.files.output import as_path, check_finished, is_special
from gnncal.graph.graph import Graph

Verdict = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Bundle:
    """Logits, labels, graph and splits of one graph.

    Attributes
    ----------
    logits : ndarray of shape (n_nodes, n_classes)
        Raw scores of every node.
    labels : ndarray of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown.
    graph : Graph
        The graph of these nodes.
    train_nodes : ndarray of int
        Nodes the model was trained on.
    nodes : ndarray of int
        Calibration nodes, the validation split.
    test_nodes : ndarray of int
        Labelled nodes to evaluate on; may be empty.
    node_ids : ndarray of shape (n_nodes,) or None
        The user's own names of the nodes.
    class_names : list of str or None
        A name for each class.

    """

    logits: FloatArray
    labels: IntArray
    graph: Graph
    train_nodes: IntArray
    nodes: IntArray
    test_nodes: IntArray
    node_ids: npt.NDArray[Any] | None = None
    class_names: list[str] | None = None

    @property
    def splits(self) -> dict[str, Any]:
        """The nodes of each split, by the names that ``gnncal.calibrate`` gives them."""
        return {
            "nodes": self.nodes,
            "train_nodes": self.train_nodes,
            "test_nodes": self.test_nodes,
        }

    @classmethod
    def checked(
        cls,
        *,
        logits: Any,
        labels: Any,
        graph: Graph,
        train: Any,
        val: Any,
        test: Any,
        node_ids: npt.NDArray[Any] | None,
        class_names: list[str] | None,
        labels_required: bool = True,
    ) -> Bundle:
        """Check shapes and splits; without a test split, test on the other labelled nodes."""
        logits = check_logits(logits)
        n_nodes, n_classes = logits.shape
        all_labels = check_labels(np.full(n_nodes, -1) if labels is None else labels, n_nodes)
        train_nodes = check_nodes([] if train is None else train, n_nodes, name="train_mask")
        nodes = check_nodes([] if val is None else val, n_nodes, name="val_mask")
        if labels_required and nodes.size == 0:
            raise InputError("val_mask is empty; calibration needs labelled validation nodes.")
        if test is None:
            rest = all_labels != UNKNOWN
            rest[train_nodes] = rest[nodes] = False
            test_nodes: IntArray = np.flatnonzero(rest)
        else:
            test_nodes = check_nodes(test, n_nodes, name="test_mask")
        _check_disjoint(train_mask=train_nodes, val_mask=nodes, test_mask=test_nodes)
        test_nodes = test_nodes[all_labels[test_nodes] != UNKNOWN]
        check_used_labels(all_labels, test_nodes, n_classes, "labels of test_mask")
        if class_names is not None and not len(set(class_names)) == len(class_names) == n_classes:
            raise InputError(
                f"class_names is {shown(class_names)}; logits has {n_classes} columns, so pass "
                f"{n_classes} different names."
            )
        if node_ids is not None and node_ids.dtype.kind not in "iuUS":
            raise InputError(
                f"node_ids has dtype {node_ids.dtype}; expected whole numbers or text, "
                "one for each node."
            )
        if node_ids is not None and not np.unique(node_ids).shape == node_ids.shape == (n_nodes,):
            raise InputError(
                f"node_ids has shape {node_ids.shape} and {np.unique(node_ids).size} different "
                f"ids; expected {n_nodes}, one for each node."
            )
        return cls(logits, all_labels, graph, train_nodes, nodes, test_nodes, node_ids, class_names)


def read_bundle(path: str | Path, *, labels_required: bool = True) -> Bundle:
    """Read logits, labels, graph and splits from an ``.npz`` file or a folder of Parquet files.

    docs/files.md describes both formats.

    Parameters
    ----------
    path : str or Path
        An ``.npz`` file, or a folder with ``nodes.parquet`` and ``edges.parquet``.
    labels_required : bool, default=True
        Whether labels and calibration nodes must be there. Pass False to read a new graph for a
        calibrator that is fitted already.

    Returns
    -------
    Bundle
        Checked arrays: ``logits``, ``labels``, ``graph``, ``train_nodes``, ``nodes``,
        ``test_nodes``.

    Raises
    ------
    InputError
        If there is no such file, or its content cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import read_bundle
    >>> np.savez(
    ...     "run.npz", logits=np.eye(3), labels=[0, 1, 2], edge_index=[[0, 1], [1, 2]],
    ...     val_mask=[True, True, False], test_mask=[False, False, True],
    ... )
    >>> read_bundle("run.npz").nodes
    array([0, 1])

    """
    from gnncal.files import npz, parquet

    path = as_path(path)
    if path.is_dir():
        return parquet.read(path, labels_required=labels_required)
    if not path.exists():
        raise InputError(f"there is no file or folder {path}.")
    if is_special(path):
        raise InputError(f"{path} is a pipe or a device; pass a file or a folder.")
    check_finished(path)
    if path.suffix == ".parquet":
        raise InputError(
            f"{path} is one table; pass the folder that has nodes.parquet and edges.parquet."
        )
    return npz.read(path, labels_required=labels_required)


def write_probabilities(
    folder: Path,
    bundle: Bundle,
    probs: FloatArray,
    temperature: FloatArray | None,
    *,
    as_parquet: bool = False,
) -> Path:
    """Write ``probabilities.npz`` or ``probabilities.parquet`` and return the file."""
    arrays = _predictions(probs)
    if temperature is not None:
        arrays["temperature"] = temperature
    return _write(folder / "probabilities", arrays | {"probs": probs}, bundle, as_parquet)


def write_decisions(
    folder: Path,
    bundle: Bundle,
    probs: FloatArray,
    verdict: Verdict,
    sets: BoolArray | None,
    *,
    as_parquet: bool,
) -> Path:
    """Write ``decisions.npz`` or ``decisions.parquet`` and return the file."""
    arrays = _predictions(probs) | dict(verdict) | ({} if sets is None else {"sets": sets})
    return _write(folder / "decisions", arrays, bundle, as_parquet)


def _predictions(probs: FloatArray) -> dict[str, npt.NDArray[Any]]:
    predictions = probs.argmax(axis=1)
    return {"prediction": predictions, "confidence": probs[np.arange(len(probs)), predictions]}


def _write(
    place: Path, arrays: dict[str, npt.NDArray[Any]], bundle: Bundle, as_parquet: bool
) -> Path:
    from gnncal.files import npz, parquet

    path = place.with_suffix(".parquet" if as_parquet else ".npz")
    (parquet if as_parquet else npz).write(path, arrays, bundle)
    return path


def read_column(source: str | Path, name: str) -> npt.NDArray[Any]:
    """Read a column of nodes.parquet, or an array of a .npz file: a number for each node."""
    from gnncal.files import npz, parquet

    path = as_path(source)
    return parquet.read_column(path, name) if path.is_dir() else npz.read_column(path, name)


def read_probabilities(path: str | Path, bundle: Bundle) -> FloatArray:
    """Read probabilities in the order of the bundle's nodes, matched by id if there are ids."""
    from gnncal.files import npz, parquet

    path = as_path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass a probabilities file.")
    check_finished(path)
    reader = parquet.read_probabilities if path.suffix == ".parquet" else npz.read_probabilities
    probs, ids = reader(path)
    if len(probs) != len(bundle.logits):
        raise InputError(
            f"{path} has {len(probs)} rows but the input has {len(bundle.logits)} nodes."
        )
    if ids is not None and bundle.node_ids is not None:
        check_ids(ids, f"{path}")
        return probs[rows_of(bundle.node_ids, ids, f"{path}")]
    return probs


def _check_disjoint(**splits: IntArray) -> None:
    for (name, nodes), (other, others) in combinations(splits.items(), 2):
        advice = "keep training, calibration and test nodes apart"
        check_apart(name, nodes, {other: others}, advice=advice)


def check_ids(ids: npt.NDArray[Any], where: str) -> None:
    """Refuse ids that occur more than once in a file."""
    ranked = np.sort(ids)
    twice = np.flatnonzero(ranked[1:] == ranked[:-1])
    if twice.size:
        raise InputError(f"{where}: the id {shown(ranked[twice[0]])} occurs more than once.")


def rows_of(wanted: npt.NDArray[Any], ids: npt.NDArray[Any], where: str) -> npt.NDArray[np.int64]:
    """Return the position in ``ids`` of each wanted id; both may be numbers or strings."""
    if not wanted.size:
        return np.empty(0, dtype=np.int64)
    if wanted.dtype.kind != ids.dtype.kind and {wanted.dtype.kind, ids.dtype.kind} != {"i", "u"}:
        raise InputError(
            f"{where}: ids of type {wanted.dtype} cannot be looked up among ids of type "
            f"{ids.dtype}; use one type."
        )
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    if not len(ranked):
        raise InputError(f"{where}: there are no ids.")
    position = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
    missing = np.flatnonzero(ranked[position] != wanted)
    if missing.size:
        raise InputError(
            f"{where}: {missing.size} ids are not among the nodes (first: "
            f"{shown(wanted[missing[0]])})."
        )
    return order[position]
