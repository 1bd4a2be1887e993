"""Saved calibrators: one safetensors file, tensors plus a JSON header. Nothing is pickled."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.catalogue import CALIBRATORS, get_calibrator, name_of
from gnncal.core.errors import InputError

FORMAT_VERSION = 1
HEADER = "gnncal"  # the metadata key that makes a safetensors file one of ours


def save(calibrator: Calibrator, path: str | Path, *, class_names: list[str] | None) -> None:
    """Write parameters and learned state; the file appears whole or not at all."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(calibrator, "classes_")
    n_classes = len(calibrator.classes_)
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(f"class_names has {len(class_names)} names for {n_classes} classes.")
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    report = calibrator.fit_report_
    header = {
        "format": FORMAT_VERSION,
        "calibrator": name_of(calibrator),
        "n_classes": n_classes,
        "class_names": class_names or getattr(calibrator, "class_names_", None),
        "params": _pack(calibrator.get_params(deep=False), "params", tensors),
        "learned": _pack(
            {n: getattr(calibrator, n) for n in calibrator.learned}, "learned", tensors
        ),
        "fit_report": [getattr(report, name) for name in FitReport.__dataclass_fields__],
    }
    payload = to_bytes(tensors, metadata={HEADER: json.dumps(header)})
    write_atomically(Path(path), payload)


def load(path: str | Path) -> Calibrator:
    """Read a calibrator written by :meth:`Calibrator.save`."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass one written by calibrator.save().")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} is not a whole safetensors file ({error}); save the calibrator again."
        ) from error
    header = _read_header(path, metadata)
    calibrator = get_calibrator(header["calibrator"], **_unpack(header["params"], tensors))
    calibrator.classes_ = np.arange(header["n_classes"])
    calibrator.n_features_in_ = header["n_classes"]
    for name, value in _unpack(header["learned"], tensors).items():
        setattr(calibrator, name, value)
    before, after, bounds, counts = header["fit_report"]
    calibrator.fit_report_ = FitReport(before, after, tuple(bounds), tuple(counts))
    if header["class_names"] is not None:
        calibrator.class_names_ = header["class_names"]
    return calibrator


def write_atomically(path: Path, payload: bytes) -> None:
    """Write beside the target and move into place, so that no half file is ever seen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read_header(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if HEADER not in metadata:
        raise InputError(f"{path} was not written by gnncal; pass a calibrator's file.")
    header: dict[str, Any] = json.loads(metadata[HEADER])
    if header["format"] > FORMAT_VERSION:
        raise InputError(
            f"{path} has format {header['format']}, newer than this gnncal's {FORMAT_VERSION}; "
            "upgrade gnncal to read it."
        )
    if header["calibrator"] not in CALIBRATORS:
        raise InputError(
            f"{path} holds a {header['calibrator']!r}, which this gnncal does not know; "
            "upgrade gnncal to read it."
        )
    return header


def _pack(values: dict[str, Any], prefix: str, tensors: dict[str, Any]) -> dict[str, Any]:
    """Replace arrays by references into ``tensors``; what is left is JSON."""
    packed: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}.{name}"
        if isinstance(value, np.ndarray):
            tensors[key] = np.ascontiguousarray(value)
            packed[name] = {"tensor": key}
        elif isinstance(value, dict):
            packed[name] = {"dict": _pack(value, key, tensors)}
        elif isinstance(value, tuple):
            packed[name] = {"tuple": list(value)}
        elif value is None or isinstance(value, bool | int | float | str):
            packed[name] = value
        else:
            raise InputError(
                f"the parameter {name!r} is a {type(value).__name__}, which cannot be saved; "
                "use numbers, strings or NumPy arrays."
            )
    return packed


def _unpack(packed: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in packed.items():
        if isinstance(value, dict):
            ((kind, content),) = value.items()
            if kind == "tensor":
                value = tensors[content]
            else:
                value = _unpack(content, tensors) if kind == "dict" else tuple(content)
        values[name] = value
    return values
