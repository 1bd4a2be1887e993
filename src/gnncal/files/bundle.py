"""Bundles: the input and output of a run, as one ``.npz`` file or a folder of Parquet files.

Arrays of an ``.npz``: ``logits`` (n, K), ``labels`` (n,), ``edge_index`` (2, E), ``val_mask``,
optionally ``train_mask``, ``test_mask`` (masks or indices), features ``x`` or the CSR parts
``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``, and ``node_ids`` (n,), ``class_names`` (K,).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data import checks
from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.errors import InputError, short_repr
from gnncal.files import parquet
from gnncal.files.archives import Arrays, csr_from_parts, read_npz
from gnncal.files.output import as_path, check_finished, write_file
from gnncal.graph.graph import Graph

CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
SPLITS = ("train_mask", "val_mask", "test_mask")
LABELS = ("label", "labels")  # names under which labels are read
MEMBERS = ("logits", "labels", "edge_index", *SPLITS, "x", *CSR_PARTS, "node_ids", "class_names")


@dataclass(frozen=True)
class Bundle:
    """Logits, labels, graph and splits of one graph.

    Attributes
    ----------
    logits, labels, graph : ndarray, ndarray and Graph
        Raw scores (n_nodes, n_classes), classes (n_nodes,) with -1 where unknown, and the graph.
    train_nodes, calibration_nodes, test_nodes : ndarray of int
        Nodes the model was trained on, calibration nodes, and labelled nodes to evaluate on.
    node_ids, class_names : ndarray or None, list of str or None
        Your id of each node (n_nodes,), and a name for each class.
    only : ndarray of bool or None
        Mask of the rows to return results for; other rows only serve as neighbours. None: all rows.

    """

    logits: FloatArray
    labels: IntArray
    graph: Graph
    train_nodes: IntArray
    calibration_nodes: IntArray
    test_nodes: IntArray
    node_ids: npt.NDArray[Any] | None = None
    class_names: list[str] | None = None
    only: BoolArray | None = None

    @property
    def splits(self) -> dict[str, Any]:
        """Calibration, training and test nodes, as keyword arguments of ``gnncal.calibrate``."""
        return {
            name: getattr(self, name) for name in ("calibration_nodes", "train_nodes", "test_nodes")
        }

    def rows_of(self, texts: Sequence[str], where: str) -> IntArray:
        """Return the row numbers of the nodes with these ids; default ids are row numbers."""
        ids = np.arange(len(self.logits)) if self.node_ids is None else self.node_ids
        try:
            wanted = np.array(texts, dtype=ids.dtype if ids.dtype.kind in "iu" else str)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{where} has an id that is not a whole number ({error}).") from error
        return _rows_of(wanted, ids, where)

    def cut(self) -> Bundle:
        """Return the rows of ``only`` alone, for results that were computed with all rows."""
        if self.only is None:
            return self
        rows = np.flatnonzero(self.only)
        return replace(
            self,
            logits=self.logits[rows],
            labels=self.labels[rows],
            train_nodes=rows[:0],
            calibration_nodes=rows[:0],
            test_nodes=np.searchsorted(rows, self.test_nodes),
            node_ids=rows if self.node_ids is None else self.node_ids[rows],
            only=None,
        )


def read_bundle(
    path: str | Path, *, labels_required: bool = True, only: str | Path | None = None
) -> Bundle:
    """Return the logits, labels, graph and splits of an ``.npz`` file or a folder of Parquet files.

    Parameters
    ----------
    path : str or Path
        An ``.npz`` file, or a folder with ``nodes.parquet`` and ``edges.parquet`` (docs/cli.md).
    labels_required : bool, default=True
        Pass False to read a graph without labels, to which you apply a fitted calibrator.
    only : str or Path, optional
        The rows to return results for: the name of a boolean column (or array of the ``.npz``), or
        a text file with one node id per line. Other rows only serve as neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import read_bundle
    >>> np.savez(
    ...     "run.npz", logits=np.eye(3), labels=[0, 1, 2], edge_index=[[0, 1], [1, 2]],
    ...     val_mask=[True, True, False], test_mask=[False, False, True],
    ... )
    >>> read_bundle("run.npz").calibration_nodes
    array([0, 1])

    """
    path = as_path(path)
    read = parquet.read if path.is_dir() else _read_arrays
    arrays = read(path, labels_required=labels_required)
    bundle = _checked(path, arrays, labels_required=labels_required)
    return bundle if only is None else _with_only(path, bundle, only)


def _read_arrays(path: Path, *, labels_required: bool) -> Arrays:
    """Read the arrays of an ``.npz`` file."""
    if not path.is_file():
        raise InputError(f"file or folder not found: {path}.")
    check_finished(path)
    if path.suffix == ".parquet":
        raise InputError(
            f"{path} is one table; pass the folder that has nodes.parquet and edges.parquet."
        )
    arrays, members = read_npz(path, MEMBERS)
    required = ["logits", "edge_index", *(["labels", "val_mask"] if labels_required else [])]
    if missing := [name for name in required if name not in arrays]:
        raise InputError(f"{path} lacks {', '.join(missing)}; it has {', '.join(members)}.")
    if "edge_weight" in members:
        checks.warn_about_edge_weights("edge_weight")
    return arrays


def _checked(path: Path, arrays: Mapping[str, Any], *, labels_required: bool) -> Bundle:
    """Check shapes and splits; without a test split, test on the other labelled nodes."""
    logits = checks.check_logits(arrays["logits"])
    n_nodes, n_classes = logits.shape
    graph = Graph(arrays["edge_index"], n_nodes, _features(path, arrays))
    labels = checks.check_labels(arrays.get("labels", np.full(n_nodes, -1)), n_nodes)
    splits = {name: checks.check_nodes(arrays.get(name, []), n_nodes, name=name) for name in SPLITS}
    if labels_required and splits["val_mask"].size == 0:
        raise InputError("val_mask is empty; calibration needs labelled validation nodes.")
    is_labelled = labels != checks.UNKNOWN
    if "test_mask" not in arrays:
        fitted = np.concatenate([splits["train_mask"], splits["val_mask"]])
        splits["test_mask"] = np.setdiff1d(np.arange(n_nodes), fitted)
    for (name, nodes), (other, others) in combinations(splits.items(), 2):
        advice = "keep training, calibration and test nodes apart"
        checks.check_apart(name, nodes, {other: others}, advice=advice)
    train_nodes, calibration_nodes, test_nodes = splits.values()
    test_nodes = test_nodes[is_labelled[test_nodes]]
    checks.check_used_labels(labels, test_nodes, n_classes, "labels of test_mask")
    names = checks.check_class_names(arrays.get("class_names"), n_classes)
    ids = arrays.get("node_ids")
    if ids is not None:
        if ids.dtype.kind not in "iuUS" or ids.shape != (n_nodes,):
            raise InputError(
                f"node_ids has dtype {ids.dtype} and shape {ids.shape}; expected {n_nodes} whole "
                "numbers or texts, one for each node."
            )
        different, count = np.unique(ids, return_counts=True)
        if twice := different[count > 1].tolist():
            raise InputError(
                f"node_ids has {short_repr(twice[0])} more than once; give each node its own id."
            )
    return Bundle(logits, labels, graph, train_nodes, calibration_nodes, test_nodes, ids, names)


def _with_only(path: Path, bundle: Bundle, given: str | Path) -> Bundle:
    """Return the bundle with the mask ``only``, given by a file of ids or a column."""
    n_nodes = len(bundle.logits)
    if Path(given).is_file():
        lines = Path(given).read_text(encoding="utf-8-sig", errors="replace").splitlines()
        mask = np.isin(np.arange(n_nodes), bundle.rows_of(lines, f"{given}"))
    else:
        mask = read_column(path, str(given))
        if mask.dtype != np.bool_ or mask.shape != (n_nodes,):
            raise InputError(
                f"{given} of {path} has shape {mask.shape} and dtype {mask.dtype}; expected true "
                f"or false for each of {n_nodes} nodes."
            )
        refuse_labels(path, str(given))
    if not mask.any():
        raise InputError(f"{short_repr(str(given))} selects no row of {path}.")
    test = bundle.test_nodes
    return replace(bundle, only=mask, test_nodes=test[mask[test]])


def _features(path: Path, arrays: Mapping[str, Any]) -> Any:
    present = [name for name in CSR_PARTS if name in arrays]
    if "x" in arrays or not present:
        return arrays.get("x")
    if missing := [name for name in CSR_PARTS if name not in arrays]:
        raise InputError(f"{path} has {', '.join(present)} but lacks {', '.join(missing)}.")
    return csr_from_parts(*(arrays[name] for name in CSR_PARTS), name=f"x in {path}")


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write a bundle to an ``.npz`` file that :func:`read_bundle` reads."""
    arrays = {"logits": bundle.logits, "labels": bundle.labels}
    arrays["edge_index"] = bundle.graph.edge_index
    nodes = (bundle.train_nodes, bundle.calibration_nodes, bundle.test_nodes)
    arrays |= zip(SPLITS, nodes, strict=True)
    features = bundle.graph.features
    if isinstance(features, sparse.csr_array):
        parts = (features.data, features.indices, features.indptr, np.array(features.shape))
        arrays |= zip(CSR_PARTS, parts, strict=True)
    elif features is not None:
        arrays["x"] = features
    _write(path, arrays, bundle, {})


def write_nodes(
    path: Path,
    bundle: Bundle,
    probs: FloatArray,
    columns: Mapping[str, npt.NDArray[Any] | None],
    made: Mapping[str, Any],
) -> None:
    """Write predictions, confidences, columns and who ``made`` them."""
    arrays: Arrays = {"prediction": probs.argmax(axis=1), "confidence": probs.max(axis=1)}
    arrays |= {name: each for name, each in columns.items() if each is not None}
    _write(path, arrays, bundle, {"gnncal": json.dumps(made)})


def _write(path: Path, arrays: Arrays, bundle: Bundle, about: dict[str, str]) -> None:
    if bundle.node_ids is not None:
        arrays["node_ids"] = bundle.node_ids
    names = bundle.class_names
    if path.suffix == ".parquet":
        named = {} if names is None else {"class_names": json.dumps(names)}
        parquet.write(path, arrays, named | about)
        return
    if names is not None:
        arrays["class_names"] = np.array(names)
    arrays |= {name: np.array(text) for name, text in about.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_file(path, buffer.getvalue())


def read_column(source: str | Path, name: str) -> npt.NDArray[Any]:
    """Read a column of nodes.parquet, or an array of a .npz file: a value for each node."""
    path = as_path(source)
    if path.is_dir():
        return parquet.read_column(path, name)
    return _member(path, name)[name]


def refuse_labels(source: str | Path, name: str) -> None:
    """Refuse the column of the labels where it would choose actions."""
    if name in LABELS:
        raise InputError(
            f"{name} of {source} holds the labels, which must not choose actions; name another "
            "column."
        )


def read_probabilities(path: str | Path, bundle: Bundle) -> FloatArray:
    """Read probabilities in the order of the bundle's nodes, matched by id if there are ids."""
    path = as_path(path)
    if not path.is_file():
        raise InputError(f"file not found: {path}; pass a probabilities file.")
    check_finished(path)
    is_table = path.suffix == ".parquet"
    arrays = parquet.read_probabilities(path) if is_table else _member(path, "probs", "node_ids")
    probs, ids = checks.check_probs(arrays["probs"]), arrays.get("node_ids")
    if probs.shape != bundle.logits.shape:
        raise InputError(
            f"{path} has probabilities of shape {probs.shape} but the logits of the input have "
            f"{bundle.logits.shape}."
        )
    if ids is None or bundle.node_ids is None:
        return probs
    return probs[_rows_of(bundle.node_ids, ids, f"{path}")]


def _member(path: Path, name: str, *others: str) -> Arrays:
    """Return an array that a file must have, and others that it may have."""
    arrays, members = read_npz(path, (name, *others))
    if name not in arrays:
        raise InputError(f"{path} has no array {name!r}; it has {', '.join(members)}.")
    return arrays


def _rows_of(wanted: npt.NDArray[Any], ids: npt.NDArray[Any], where: str) -> IntArray:
    """Return the position in ``ids`` of each wanted id; both may be numbers or strings."""
    if wanted.dtype.kind != ids.dtype.kind and {wanted.dtype.kind, ids.dtype.kind} != {"i", "u"}:
        raise InputError(
            f"{where}: ids of type {wanted.dtype} cannot be looked up among ids of type "
            f"{ids.dtype}; use one type."
        )
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    if (is_twice := ranked[1:] == ranked[:-1]).any():
        first = short_repr(ranked[is_twice.argmax()])
        raise InputError(f"{where}: the id {first} occurs more than once.")
    places = np.minimum(np.searchsorted(ranked, wanted), len(ids) - 1)
    missing = wanted[ranked[places] != wanted]
    if missing.size:
        raise InputError(
            f"{where}: {short_repr(missing[0])} is not the id of a node (unknown ids: "
            f"{missing.size:,})."
        )
    return order[places]
