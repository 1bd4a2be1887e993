"""Saved calibrators: what their files hold, and how a calibrator is rebuilt from one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import FitReport, learned_table
from gnncal.calibrators.homophily import HomophilyEstimator, from_plain, to_plain
from gnncal.calibrators.registry import find, get_calibrator, name_of
from gnncal.data.checks import check_class_names
from gnncal.data.constraints import (
    NONE,
    Array,
    Constraint,
    check_learned,
    integer,
    number,
    sizes_of,
)
from gnncal.data.errors import InputError, short_repr
from gnncal.data.estimator import check_is_fitted
from gnncal.files.format import (
    ReadTensor,
    Tensors,
    pack,
    read_saved,
    unknown_kind,
    unpack,
    write_saved,
)
from gnncal.math.node_summary import ClassHistograms, LearnedNodes, NodeSummary
from gnncal.math.posterior import Memory
from gnncal.shift.updates import history_of

SQUARE = ("covariance", "information")  # of what a memory holds

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


def save(calibrator: Calibrator, path: str | Path, *, class_names: Sequence[str] | None) -> None:
    """Write parameters and learned state; the file appears whole or not at all."""
    check_is_fitted(calibrator, "fit_report_")
    name = name_of(calibrator)  # by which load() finds it
    n_classes = len(calibrator.classes_)
    tensors: Tensors = {}
    learned = {name: getattr(calibrator, name) for name in calibrator.learned}
    histograms = calibrator.class_histograms_
    header = {
        "calibrator": name,
        "n_classes": n_classes,
        "class_names": check_class_names(
            getattr(calibrator, "class_names_", None) if class_names is None else class_names,
            n_classes,
        ),
        "params": _pack(calibrator.get_params(deep=False), "params", tensors),
        "learned": _pack(learned, "learned", tensors),
        "fit_report": _pack(asdict(calibrator.fit_report_), "fit_report", tensors),
        "fitted_on": _pack(calibrator.fitted_on_.to_plain(), "fitted_on", tensors),
        "posterior": _pack(dict(calibrator.posterior_), "posterior", tensors),
        "standard_error": calibrator.standard_error_,
        "memories": _pack(
            {part: vars(memory) for part, memory in calibrator.memories_.items()},
            "memories",
            tensors,
        ),
        "class_histograms": _pack(
            histograms and histograms.to_plain(), "class_histograms", tensors
        ),
        "learned_nodes": _pack(calibrator.learned_nodes_.to_plain(), "learned_nodes", tensors),
        "history": _pack(tuple(map(asdict, calibrator.history_)), "history", tensors),
    }
    write_saved(path, header, tensors)


FOREIGN = (
    "The policy was certified on the probabilities of another calibrator, so it guarantees nothing "
    "on those of this one. Certify it again: gnncal decide INPUT --probabilities "
    "FOLDER/probabilities.npz (or .parquet), with validation nodes that this calibrator has not "
    "seen."
)


def is_of_another(certified: str | None, fitted: Calibrator) -> bool:
    """Whether something was certified with a calibrator of another checksum."""
    return certified is not None and certified != checksum(fitted)


def checksum(calibrator: Calibrator) -> str:
    """Return a text that differs between calibrators that give other probabilities."""
    tensors: Tensors = {}
    learned = {name: getattr(calibrator, name) for name in calibrator.learned}
    parts = [name_of(calibrator), _pack(calibrator.get_params(deep=False), "params", tensors)]
    plain = json.dumps([*parts, _pack(learned, "learned", tensors)], sort_keys=True)
    digest = sha256(plain.encode())
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()[:32]


def load(path: str | Path) -> Calibrator:
    """Read a calibrator, and nothing else, from the file that its ``save`` has written."""
    return read_saved(path, rebuild)


def rebuild(header: dict[str, Any], tensor: ReadTensor) -> Calibrator:
    """Return the calibrator of a header; every value is checked before it is used."""
    if "decision" in header:
        raise InputError(
            f"it holds a {short_repr(header['decision'])} for decisions, not a calibrator; "
            "gnncal.load reads both."
        )
    # A file names a calibrator, never a module: only what is installed here is ever imported.
    if find(header["calibrator"]) is None:
        raise InputError(
            f"it holds a {short_repr(header['calibrator'])}, which this gnncal does not know; "
            "upgrade gnncal, or install the package that the calibrator comes from, to read it."
        )
    report = _read_report(_unpack(header["fit_report"], tensor))
    K = header["n_classes"]
    integer(at_least=2).check("n_classes", K)
    if len(report.nodes_per_class) != K:
        raise InputError(f"n_classes is {K} but it counts {len(report.nodes_per_class)} classes.")
    params, learned = _unpack(header["params"], tensor), _unpack(header["learned"], tensor)
    calibrator = get_calibrator(header["calibrator"], **params)
    calibrator.classes_ = np.arange(K)
    calibrator.n_features_in_ = K
    posterior = _unpack(header["posterior"], tensor)
    square = {str(part): Array(f"{part} {part}") for part in posterior}
    check_learned(square, posterior, {}, where="posterior")
    calibrator.posterior_ = posterior
    (number(at_least=0) | NONE).check("standard_error", header["standard_error"])
    calibrator.standard_error_ = header["standard_error"]
    memories = _unpack(header["memories"], tensor)
    for part, memory in memories.items():
        table = {each.name: Array("p p" if each.name in SQUARE else "p") for each in fields(Memory)}
        check_learned(table, memory, {}, where=f"memories of {short_repr(part)}")
    calibrator.memories_ = {part: Memory(**memory) for part, memory in memories.items()}
    if set(learned) != set(calibrator.learned):
        raise ValueError(f"it holds {sorted(learned)} instead of {sorted(calibrator.learned)}")
    for name in calibrator.learned:
        setattr(calibrator, name, learned[name])
    check_learned(learned_table(calibrator), learned, sizes_of(params, K))
    calibrator.fit_report_ = report
    calibrator.fitted_on_ = NodeSummary.from_plain(_unpack(header["fitted_on"], tensor), K)
    histograms = _unpack(header["class_histograms"], tensor)
    calibrator.class_histograms_ = histograms and ClassHistograms.from_plain(histograms, K)
    calibrator.learned_nodes_ = LearnedNodes.from_plain(_unpack(header["learned_nodes"], tensor))
    calibrator.history_ = history_of(_unpack(header["history"], tensor), K)
    names = check_class_names(header["class_names"], K)
    if names is not None:
        calibrator.class_names_ = names
    return calibrator


def _read_report(values: dict[str, Any]) -> FitReport:
    for field in fields(FitReport):
        IN_REPORT[str(field.type)].check(field.name, values[field.name])
    return FitReport(**values)


def _pack(value: Any, key: str, tensors: Tensors) -> Any:
    return pack(value, key, tensors, _pack_estimator)


def _pack_estimator(value: Any) -> tuple[str, Any] | None:
    return ("estimator", to_plain(value)) if isinstance(value, HomophilyEstimator) else None


def _unpack(packed: Any, tensor: ReadTensor) -> Any:
    return unpack(packed, tensor, _unpack_estimator)


def _unpack_estimator(kind: str, plain: Any) -> HomophilyEstimator:
    if kind != "estimator":
        raise unknown_kind(kind)
    return from_plain(plain)
