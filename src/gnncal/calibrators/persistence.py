"""Saved calibrators: one safetensors file, tensors plus a JSON header. Nothing is pickled."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.catalogue import CALIBRATORS, get_calibrator, name_of
from gnncal.core.arrays import as_numpy
from gnncal.core.errors import InputError
from gnncal.core.files import write_atomically
from gnncal.homophily import HomophilyEstimator
from gnncal.homophily.plain import from_plain, to_plain

FORMAT_VERSION = 1
HEADER = "gnncal"  # the metadata key that makes a safetensors file one of ours


def save(calibrator: Calibrator, path: str | Path, *, class_names: list[str] | None) -> None:
    """Write parameters and learned state; the file appears whole or not at all."""
    check_is_fitted(calibrator, "fit_report_")
    if type(calibrator) not in CALIBRATORS.values():
        raise InputError(
            f"{type(calibrator).__name__} is not one of gnncal's calibrators, so load() would not "
            f"find it; those that can be saved are {', '.join(CALIBRATORS)}."
        )
    n_classes = len(calibrator.classes_)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    learned = {name: getattr(calibrator, name) for name in calibrator.learned}
    header = {
        "format": FORMAT_VERSION,
        "calibrator": name_of(calibrator),
        "n_classes": n_classes,
        "class_names": _check_class_names(calibrator, class_names, n_classes),
        "params": _pack(calibrator.get_params(deep=False), "params", tensors),
        "learned": _pack(learned, "learned", tensors),
        "fit_report": _pack(asdict(calibrator.fit_report_), "fit_report", tensors),
    }
    write_atomically(Path(path), to_bytes(tensors, metadata={HEADER: json.dumps(header)}))


def load(path: str | Path) -> Calibrator:
    """Read a calibrator written by :meth:`Calibrator.save`."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass one written by calibrator.save().")
    try:
        with safe_open(path, framework="numpy") as file:
            header = _read_header(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return _rebuild(header, tensors)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (SafetensorError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is damaged or no safetensors file ({type(error).__name__}: {error}); save the "
            "calibrator again."
        ) from error


def _check_class_names(
    calibrator: Calibrator, class_names: list[str] | None, n_classes: int
) -> list[str] | None:
    if class_names is None:
        class_names = getattr(calibrator, "class_names_", None)  # those of a loaded calibrator
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(
            f"class_names has {len(class_names)} names for {n_classes} classes; pass one a class."
        )
    return None if class_names is None else [str(name) for name in class_names]


def _read_header(metadata: dict[str, str]) -> dict[str, Any]:
    if HEADER not in metadata:
        raise InputError("this was not written by gnncal; pass a file of calibrator.save().")
    header: dict[str, Any] = json.loads(metadata[HEADER])
    if header["format"] > FORMAT_VERSION:
        raise InputError(
            f"its format is {header['format']}, newer than this gnncal's {FORMAT_VERSION}; upgrade "
            "gnncal to read it."
        )
    if header["calibrator"] not in CALIBRATORS:
        raise InputError(
            f"it holds a {header['calibrator']!r}, which this gnncal does not know; upgrade "
            "gnncal to read it."
        )
    return header


def _rebuild(header: dict[str, Any], tensors: dict[str, Any]) -> Calibrator:
    params, learned = CALIBRATORS[header["calibrator"]].upgraded(
        _unpack(header["params"], tensors), _unpack(header["learned"], tensors)
    )
    calibrator = get_calibrator(header["calibrator"], **params)
    calibrator.classes_ = np.arange(header["n_classes"])
    calibrator.n_features_in_ = header["n_classes"]
    if set(learned) != set(calibrator.learned):
        raise ValueError(f"it holds {sorted(learned)} instead of {sorted(calibrator.learned)}")
    for name, value in learned.items():
        setattr(calibrator, name, value)
    calibrator.fit_report_ = FitReport(**_unpack(header["fit_report"], tensors))
    names = _check_class_names(calibrator, header["class_names"], header["n_classes"])
    if names is not None:
        calibrator.class_names_ = names
    return calibrator


def _pack(value: Any, key: str, tensors: dict[str, Any]) -> Any:
    """JSON for ``value``; arrays go to ``tensors`` and leave a reference."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {"dict": {name: _pack(v, f"{key}.{name}", tensors) for name, v in value.items()}}
    if isinstance(value, HomophilyEstimator):
        return {"estimator": _pack(to_plain(value), key, tensors)}
    if isinstance(value, tuple):
        return {"tuple": [_pack(v, f"{key}.{i}", tensors) for i, v in enumerate(value)]}
    if isinstance(value, np.ndarray | list) or hasattr(value, "detach"):
        array = as_numpy(value)
        if array.dtype.kind in "biuf" and array.itemsize <= 8:
            # safetensors writes the buffer as it lies in memory, whatever the strides.
            tensors[key] = np.asarray(array, order="C")
            return {"tensor": key}
    raise InputError(
        f"{key} is a {type(value).__name__}, which cannot be saved; use numbers, strings or "
        "arrays of numbers."
    )


def _unpack(packed: Any, tensors: dict[str, Any]) -> Any:
    """The reverse of :func:`_pack`."""
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "estimator":
        return from_plain(_unpack(content, tensors))
    if kind == "dict":
        return {name: _unpack(value, tensors) for name, value in content.items()}
    return tuple(_unpack(value, tensors) for value in content)
