"""Saved calibrators: one safetensors file, tensors plus a JSON header. Nothing is pickled."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.catalogue import (
    class_of,
    find_class,
    get_calibrator,
    name_of,
)
from gnncal.core.arrays import as_numpy
from gnncal.core.constraints import Constraint, number, whole_number
from gnncal.core.errors import InputError, MissingExtraError, shown
from gnncal.core.learned import check_learned, sizes_of
from gnncal.files.atomic import write_atomically
from gnncal.homophily import HomophilyEstimator
from gnncal.homophily.plain import from_plain, to_plain

ReadTensor = Callable[[str], np.ndarray[Any, Any]]
FORMAT_VERSION = 2  # 1 had no checksum
HEADER = "gnncal"  # the metadata key that makes a safetensors file one of ours
NO_CHECKSUM = "0" * 64  # stands in the file while its checksum is computed
UNREADABLE = (
    *(SafetensorError, OSError, RecursionError),
    *(AttributeError, KeyError, OverflowError, TypeError, ValueError),
)
IN_REPORT = {  # what a field of a report may be, by its annotation
    "float": number(),
    "tuple[str, ...]": Constraint(
        "a tuple of texts",
        lambda value: isinstance(value, tuple) and all(isinstance(text, str) for text in value),
    ),
    "tuple[int, ...]": Constraint(
        "a tuple of counts",
        lambda value: isinstance(value, tuple) and all(type(n) is int and n >= 0 for n in value),
    ),
}


def save(calibrator: Calibrator, path: str | Path, *, class_names: list[str] | None) -> None:
    """Write parameters and learned state; the file appears whole or not at all."""
    check_is_fitted(calibrator, "fit_report_")
    name = name_of(calibrator)  # by which load() finds it
    n_classes = len(calibrator.classes_)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    learned = {name: getattr(calibrator, name) for name in calibrator.learned}
    header = {
        "format": FORMAT_VERSION,
        "checksum": NO_CHECKSUM,
        "calibrator": name,
        "n_classes": n_classes,
        "class_names": _check_class_names(calibrator, class_names, n_classes),
        "params": _pack(calibrator.get_params(deep=False), "params", tensors),
        "learned": _pack(learned, "learned", tensors),
        "fit_report": _pack(asdict(calibrator.fit_report_), "fit_report", tensors),
    }
    content = to_bytes(tensors, metadata={HEADER: json.dumps(header)})
    digest = _checksum(content, NO_CHECKSUM)
    write_atomically(Path(path), content.replace(NO_CHECKSUM.encode(), digest.encode(), 1))


def load(path: str | Path) -> Calibrator:
    """Read a calibrator from the file that its ``save`` has written.

    Nothing is unpickled, and every value is checked, so files from strangers are safe to read.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Calibrator
        The fitted calibrator. What describes the fitted graph, such as ``temperature_``, is not in
        the file.

    Raises
    ------
    InputError
        If there is no such file, it is damaged, or a newer gnncal has written it.
    MissingExtraError
        If the calibrator needs PyTorch and it is not installed.

    Examples
    --------
    >>> from gnncal import TemperatureScaling, load
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> TemperatureScaling().fit(logits, labels).save("ts.safetensors")
    >>> round(load("ts.safetensors").base_temperature_, 2)
    1.82

    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass one written by calibrator.save().")
    try:
        content = path.read_bytes()
        with safe_open(path, framework="numpy") as file:
            header = _read_header(file.metadata() or {}, content)
            return _rebuild(header, file.get_tensor)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except MissingExtraError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{path} is damaged or no safetensors file ({type(error).__name__}: {error}); save the "
            "calibrator again."
        ) from error


def _check_class_names(
    calibrator: Calibrator, class_names: list[str] | None, n_classes: int
) -> list[str] | None:
    if class_names is None:
        class_names = getattr(calibrator, "class_names_", None)  # those of a loaded calibrator
    if isinstance(class_names, str | dict):
        raise InputError(f"class_names is {shown(class_names)}; pass a list of names.")
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(
            f"class_names has {len(class_names)} names for {n_classes} classes; "
            "pass one for each class."
        )
    return None if class_names is None else [str(name) for name in class_names]


def _read_header(metadata: dict[str, str], content: bytes) -> dict[str, Any]:
    if HEADER not in metadata:
        raise InputError("this was not written by gnncal; pass a file of calibrator.save().")
    header: dict[str, Any] = json.loads(metadata[HEADER])
    version = header["format"]
    if type(version) is not int or version < 1:
        raise InputError(f"its format is {shown(version)}, which no gnncal writes; it is damaged.")
    if version > FORMAT_VERSION:
        raise InputError(
            f"its format is {version}, newer than this gnncal's {FORMAT_VERSION}; upgrade "
            "gnncal to read it."
        )
    if version > 1 and header["checksum"] != _checksum(content, header["checksum"]):
        raise InputError("its checksum does not match its content; it is damaged, so save again.")
    # A file names a calibrator, never a module: only what is installed here is ever imported.
    if find_class(header["calibrator"]) is None:
        raise InputError(
            f"it holds a {shown(header['calibrator'])}, which this gnncal does not know; upgrade "
            "gnncal, or install the package that the calibrator comes from, to read it."
        )
    return header


def _checksum(content: bytes, written: str) -> str:
    """Return the digest of a whole file in which zeros stand for the checksum it has."""
    return sha256(content.replace(written.encode(), NO_CHECKSUM.encode(), 1)).hexdigest()


def _rebuild(header: dict[str, Any], tensor: ReadTensor) -> Calibrator:
    """Return the calibrator of a header; every value is checked before it is used."""
    report = _read_report(_unpack(header["fit_report"], tensor))
    K = header["n_classes"]
    whole_number(at_least=2).check("n_classes", K)
    if len(report.nodes_per_class) != K:
        raise InputError(f"n_classes is {K} but it counts {len(report.nodes_per_class)} classes.")
    params, learned = class_of(header["calibrator"]).upgraded(
        _unpack(header["params"], tensor), _unpack(header["learned"], tensor)
    )
    calibrator = get_calibrator(header["calibrator"], **params)
    calibrator.classes_ = np.arange(K)
    calibrator.n_features_in_ = K
    if set(learned) != set(calibrator.learned):
        raise ValueError(f"it holds {sorted(learned)} instead of {sorted(calibrator.learned)}")
    for name, value in learned.items():
        setattr(calibrator, name, value)
    check_learned(calibrator._learned_table(), learned, sizes_of(params, K))
    calibrator.fit_report_ = report
    names = _check_class_names(calibrator, header["class_names"], K)
    if names is not None:
        calibrator.class_names_ = names
    return calibrator


def _read_report(values: dict[str, Any]) -> FitReport:
    for field in fields(FitReport):
        if field.name in values:  # files from before a field was added lack it
            IN_REPORT[str(field.type)].check(field.name, values[field.name])
    return FitReport(**values)


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
    if isinstance(value, tuple) or (isinstance(value, list) and _are_texts(value)):
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


def _are_texts(values: list[Any]) -> bool:
    return len(values) > 0 and all(isinstance(value, str) for value in values)


def _unpack(packed: Any, tensor: ReadTensor) -> Any:
    """Reverse :func:`_pack`."""
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensor(content)
    if kind == "estimator":
        return from_plain(_unpack(content, tensor))
    if kind == "dict":
        return {name: _unpack(value, tensor) for name, value in content.items()}
    if kind == "tuple" and isinstance(content, list):
        return tuple(_unpack(value, tensor) for value in content)
    raise ValueError(f"there is no kind {shown(kind)} of values")
