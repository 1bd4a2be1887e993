"""Bundles as one ``.npz`` file.

Arrays: ``logits`` (n, K), ``labels`` (n,), ``edge_index`` (2, E), ``val_mask``, optionally
``train_mask``, ``test_mask`` (masks or indices), features ``x`` or the CSR parts ``x_data``,
``x_indices``, ``x_indptr``, ``x_shape``, and ``node_ids`` (n,), ``class_names`` (K,).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnncal.data.arrays import FloatArray
from gnncal.data.checks import check_names_are_no_numbers, check_probs, warn_about_edge_weights
from gnncal.data.errors import InputError
from gnncal.files.archives import Arrays, csr_from_parts, read_npz
from gnncal.files.bundle import Bundle
from gnncal.files.output import seal, write_file
from gnncal.graph.graph import Graph

CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
SPLITS = ("train_mask", "val_mask", "test_mask")
MEMBERS = ("logits", "labels", "edge_index", *SPLITS, "x", *CSR_PARTS, "node_ids", "class_names")
REQUIRED = ("logits", "edge_index")
REQUIRED_TO_FIT = ("labels", "val_mask")


def read(path: Path, *, labels_required: bool = True) -> Bundle:
    """Return the bundle in an ``.npz`` file."""
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
        warn_about_edge_weights("edge_weight")
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
    """Write a bundle to an ``.npz`` file that :func:`read` reads."""
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
    write(path, arrays, bundle)


def write(path: Path, arrays: Arrays, bundle: Bundle) -> None:
    """Write arrays with the ids and the class names of a bundle."""
    if bundle.node_ids is not None:
        arrays["node_ids"] = bundle.node_ids
    if bundle.class_names is not None:
        arrays["class_names"] = np.array(bundle.class_names)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_file(path, seal(buffer.getvalue(), "zip"))


def read_probabilities(path: Path) -> tuple[FloatArray, npt.NDArray[Any] | None]:
    """Return the array ``probs`` and, where there are, the ids."""
    arrays, members = read_npz(path, ("probs", "node_ids"))
    if "probs" not in arrays:
        raise InputError(f"{path} has no array 'probs'; it has {', '.join(members)}.")
    return check_probs(arrays["probs"]), arrays.get("node_ids")


def read_column(path: Path, name: str) -> npt.NDArray[Any]:
    """Return an array of a file by its name."""
    arrays, members = read_npz(path, (name,))
    if name not in arrays:
        raise InputError(f"{path} has no array {name!r}; it has {', '.join(members)}.")
    return arrays[name]


def _features(path: Path, arrays: Arrays) -> Any:
    if "x" in arrays:
        return arrays["x"]
    parts = CSR_PARTS
    present = [name for name in parts if name in arrays]
    if not present:
        return None
    if len(present) < len(parts):
        missing = ", ".join(name for name in parts if name not in arrays)
        raise InputError(f"{path} has {', '.join(present)} but lacks {missing}.")
    return csr_from_parts(*(arrays[name] for name in parts), name=f"x in {path}")


def _class_names(names: npt.NDArray[Any]) -> list[str]:
    if names.ndim != 1 or names.dtype.kind not in "USiu":
        raise InputError(
            f"class_names has shape {names.shape} and dtype {names.dtype}; pass a list of "
            "different names, one for each class."
        )
    if names.dtype.kind in "iu":
        check_names_are_no_numbers(names.tolist(), "class_names")
    return [_text(name) for name in names]


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
