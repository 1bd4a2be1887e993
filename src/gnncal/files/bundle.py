"""Bundles: the input and output of a run, as one ``.npz`` file or a folder of Parquet files.

Arrays of an ``.npz``: ``logits`` (n, K), ``labels`` (n,), ``edge_index`` (2, E), ``val_mask``,
optionally ``train_mask``, ``test_mask`` (masks or indices), features ``x`` or the CSR parts
``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``, and ``node_ids`` (n,), ``class_names`` (K,).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data import checks
from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.files import parquet
from gnncal.files.archives import Arrays, csr_from_parts, read_npz
from gnncal.files.output import as_path, check_finished, is_special, seal, write_file
from gnncal.graph.graph import Graph

CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
SPLITS = ("train_mask", "val_mask", "test_mask")
MEMBERS = ("logits", "labels", "edge_index", *SPLITS, "x", *CSR_PARTS, "node_ids", "class_names")
REQUIRED = ("logits", "edge_index")
REQUIRED_TO_FIT = ("labels", "val_mask")


@dataclass(frozen=True)
class Bundle:
    """Logits, labels, graph and splits of one graph.

    Attributes
    ----------
    logits, labels, graph : ndarray, ndarray and Graph
        Raw scores (n_nodes, n_classes), classes (n_nodes,) with -1 where unknown, and the graph.
    train_nodes, nodes, test_nodes : ndarray of int
        Nodes the model was trained on, calibration nodes, and labelled nodes to evaluate on.
    node_ids, class_names : ndarray or None, list of str or None
        The user's own names of the nodes (n_nodes,), and a name for each class.

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
        logits = checks.check_logits(logits)
        n_nodes, n_classes = logits.shape
        all_labels = checks.check_labels(
            np.full(n_nodes, -1) if labels is None else labels, n_nodes
        )
        splits = {
            name: checks.check_nodes([] if split is None else split, n_nodes, name=name)
            for name, split in zip(SPLITS, (train, val, test), strict=True)
        }
        if labels_required and splits["val_mask"].size == 0:
            raise InputError("val_mask is empty; calibration needs labelled validation nodes.")
        is_labelled = all_labels != checks.UNKNOWN
        if test is None:
            rest = is_labelled.copy()
            rest[splits["train_mask"]] = rest[splits["val_mask"]] = False
            splits["test_mask"] = np.flatnonzero(rest)
        for (name, nodes), (other, others) in combinations(splits.items(), 2):
            advice = "keep training, calibration and test nodes apart"
            checks.check_apart(name, nodes, {other: others}, advice=advice)
        train_nodes, nodes, test_nodes = splits.values()
        test_nodes = test_nodes[is_labelled[test_nodes]]
        checks.check_used_labels(all_labels, test_nodes, n_classes, "labels of test_mask")
        names = checks.check_class_names(class_names, n_classes, are_different=True)
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
        return cls(logits, all_labels, graph, train_nodes, nodes, test_nodes, node_ids, names)


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
    path = as_path(path)
    if path.is_dir():
        found = parquet.read(path, labels_required=labels_required)
        return Bundle.checked(**found, labels_required=labels_required)
    if not path.exists():
        raise InputError(f"there is no file or folder {path}.")
    if is_special(path):
        raise InputError(f"{path} is a pipe or a device; pass a file or a folder.")
    check_finished(path)
    if path.suffix == ".parquet":
        raise InputError(
            f"{path} is one table; pass the folder that has nodes.parquet and edges.parquet."
        )
    return _read_npz_bundle(path, labels_required=labels_required)


def _read_npz_bundle(path: Path, *, labels_required: bool) -> Bundle:
    arrays, members = read_npz(path, MEMBERS)
    required = (*REQUIRED, *REQUIRED_TO_FIT) if labels_required else REQUIRED
    missing = [name for name in required if name not in arrays]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; it has {', '.join(members)}.")
    if arrays["logits"].ndim != 2:
        shape = arrays["logits"].shape
        raise InputError(
            f"logits has shape {shape}; expected one row for each node, one column for each class."
        )
    if "edge_weight" in members:
        checks.warn_about_edge_weights("edge_weight")
    names = arrays.get("class_names")
    return Bundle.checked(
        logits=arrays["logits"],
        labels=arrays.get("labels"),
        graph=Graph(arrays["edge_index"], len(arrays["logits"]), _features(path, arrays)),
        train=arrays.get("train_mask"),
        val=arrays.get("val_mask"),
        test=arrays.get("test_mask"),
        node_ids=arrays.get("node_ids"),
        class_names=None if names is None else _class_names(names),
        labels_required=labels_required,
    )


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write a bundle to an ``.npz`` file that :func:`read_bundle` reads."""
    arrays: Arrays = {
        "logits": bundle.logits,
        "labels": bundle.labels,
        "edge_index": bundle.graph.edge_index,
        "train_mask": bundle.train_nodes,
        "val_mask": bundle.nodes,
        "test_mask": bundle.test_nodes,
    }
    features = bundle.graph.features
    if isinstance(features, sparse.csr_array):
        arrays |= {
            "x_data": features.data,
            "x_indices": features.indices,
            "x_indptr": features.indptr,
            "x_shape": np.array(features.shape),
        }
    elif features is not None:
        arrays["x"] = features
    _write_npz(path, arrays, bundle)


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
    verdict: Mapping[str, npt.NDArray[Any]],
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
    path = place.with_suffix(".parquet" if as_parquet else ".npz")
    if as_parquet:
        parquet.write(path, arrays, bundle.node_ids, bundle.class_names)
    else:
        _write_npz(path, arrays, bundle)
    return path


def _write_npz(path: Path, arrays: Arrays, bundle: Bundle) -> None:
    if bundle.node_ids is not None:
        arrays["node_ids"] = bundle.node_ids
    if bundle.class_names is not None:
        arrays["class_names"] = np.array(bundle.class_names)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_file(path, seal(buffer.getvalue(), "zip"))


def read_column(source: str | Path, name: str) -> npt.NDArray[Any]:
    """Read a column of nodes.parquet, or an array of a .npz file: a number for each node."""
    path = as_path(source)
    return parquet.read_column(path, name) if path.is_dir() else _member(path, name)[name]


def read_probabilities(path: str | Path, bundle: Bundle) -> FloatArray:
    """Read probabilities in the order of the bundle's nodes, matched by id if there are ids."""
    path = as_path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass a probabilities file.")
    check_finished(path)
    if path.suffix == ".parquet":
        given, ids = parquet.read_probabilities(path)
    else:
        arrays = _member(path, "probs", "node_ids")
        given, ids = arrays["probs"], arrays.get("node_ids")
    probs = checks.check_probs(given)
    if len(probs) != len(bundle.logits):
        raise InputError(
            f"{path} has {len(probs)} rows but the input has {len(bundle.logits)} nodes."
        )
    n_classes = bundle.logits.shape[1]
    if probs.shape[1] != n_classes:
        raise InputError(f"{path} has {probs.shape[1]} classes but the logits have {n_classes}.")
    if ids is not None and bundle.node_ids is not None:
        parquet.check_ids(ids, f"{path}")
        return probs[parquet.rows_of(bundle.node_ids, ids, f"{path}")]
    return probs


def _member(path: Path, name: str, *others: str) -> Arrays:
    """Return an array that a file must have, and others that it may have."""
    arrays, members = read_npz(path, (name, *others))
    if name not in arrays:
        raise InputError(f"{path} has no array {name!r}; it has {', '.join(members)}.")
    return arrays


def _features(path: Path, arrays: Arrays) -> Any:
    if "x" in arrays:
        return arrays["x"]
    present = [name for name in CSR_PARTS if name in arrays]
    if not present:
        return None
    if len(present) < len(CSR_PARTS):
        missing = ", ".join(name for name in CSR_PARTS if name not in arrays)
        raise InputError(f"{path} has {', '.join(present)} but lacks {missing}.")
    return csr_from_parts(*(arrays[name] for name in CSR_PARTS), name=f"x in {path}")


def _class_names(names: npt.NDArray[Any]) -> list[str]:
    if names.ndim != 1 or names.dtype.kind not in "USiu":
        raise InputError(
            f"class_names has shape {names.shape} and dtype {names.dtype}; pass a list of "
            "different names, one for each class."
        )
    if names.dtype.kind in "iu":
        checks.check_names_are_no_numbers(names.tolist(), "class_names")
    return [
        name.decode(errors="replace") if names.dtype.kind == "S" else str(name) for name in names
    ]
