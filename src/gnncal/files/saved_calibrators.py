"""Saved calibrators: what their files hold, and how a calibrator is rebuilt from one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from gnncal import __version__
from gnncal.calibrators.auto import chosen_of
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import FitReport, learned_table
from gnncal.calibrators.homophily import HomophilyEstimator, from_plain, to_plain
from gnncal.calibrators.registry import find, get_calibrator, name_of
from gnncal.data.checks import check_class_names
from gnncal.data.constraints import (
    NONE,
    TEXT,
    Array,
    Constraint,
    check_learned,
    integer,
    number,
    tuple_of,
)
from gnncal.data.errors import InputError, short_repr
from gnncal.data.estimator import check_is_fitted
from gnncal.files.format import ReadTensor, Tensors, pack, read_saved, unpack, write_saved
from gnncal.files.output import digest_of
from gnncal.graph.checks import KIND
from gnncal.math.losses import Memory
from gnncal.math.node_summary import LearnedNodes, NodeSummary
from gnncal.shift.updates import history_of

SQUARE = ("covariance", "information")  # of what a memory holds
RATES = Array("K", low=0.0, high=1.0, total=1.0)
REPORT = dict.fromkeys(("loss_before", "loss_after"), number())
REPORT |= dict.fromkeys(("bounds_hit", "notes", "undetermined"), tuple_of("texts", TEXT))
REPORT["nodes_per_class"] = tuple_of("counts", integer(at_least=0))
TAGS = Constraint(
    "texts by name, such as {'model': 'gcn-7'}",
    lambda value: (
        isinstance(value, dict) and all(isinstance(text, str) for text in [*value, *value.values()])
    ),
)


def _state(calibrator: Calibrator) -> dict[str, Any]:
    """Return what makes up a fitted calibrator, in the order of a file's header."""
    return {
        "params": calibrator.get_params(deep=False),
        "learned": {name: getattr(calibrator, name) for name in calibrator.learned},
        "fit_report": asdict(calibrator.fit_report_),
        "fitted_on": calibrator.fitted_on_.to_plain() | _kind_of_graph(calibrator),
        "posterior": dict(calibrator.posterior_),
        "standard_error": calibrator.standard_error_,
        "memories": {part: vars(memory) for part, memory in calibrator.memories_.items()},
        "base_rates": {"rates": calibrator.base_rates_},
        "learned_nodes": calibrator.learned_nodes_.to_plain(),
        "history": tuple(map(asdict, calibrator.history_)),
        "provenance": calibrator.provenance_,
    }


def _kind_of_graph(calibrator: Calibrator) -> dict[str, str]:
    kind = calibrator.graph_kind_
    return {} if kind is None else {"graph_kind": kind}


def save(calibrator: Calibrator, path: str | Path, *, class_names: Sequence[str] | None) -> None:
    """Write parameters and learned state; the file appears whole or not at all."""
    check_is_fitted(calibrator, "fit_report_")
    positive = calibrator.positive_
    calibrator = chosen_of(calibrator)
    positive = calibrator.positive_ if positive is None else positive
    TAGS.check("provenance_", calibrator.provenance_)
    n_classes, tensors = len(calibrator.classes_), Tensors()
    names = getattr(calibrator, "class_names_", None) if class_names is None else class_names
    header = {
        "calibrator": name_of(calibrator),  # by which load() finds it
        "n_classes": n_classes,
        "class_names": check_class_names(names, n_classes),
    }
    if positive is not None:
        header["positive"] = positive
    for part, value in _state(calibrator).items():
        header[part] = pack(value, part, tensors, _pack_estimator)
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
    calibrator = chosen_of(calibrator)
    tensors, state = Tensors(), _state(calibrator)
    parts = [pack(state[part], part, tensors, _pack_estimator) for part in ("params", "learned")]
    digest = sha256(json.dumps([name_of(calibrator), *parts], sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()[:32]


def described(fitted: Calibrator) -> dict[str, Any]:
    """Return what tells a calibrator from others: date, version, the user's tags, checksum."""
    return {**fitted.provenance_, "method": name_of(fitted), "checksum": checksum(fitted)}


def provenance(fitted: Calibrator | None, **files: Path | None) -> dict[str, Any]:
    """Return who made a result, and when: a calibrator, and the files of policies by name."""
    date = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    made: dict[str, Any] = {"gnncal": __version__, "date": date}
    if fitted is not None:
        made["calibrator"] = described(fitted)
    return made | {name: {"checksum": digest_of(path)} for name, path in files.items() if path}


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

    def read(part: str) -> Any:
        return unpack(
            header[part], tensor, lambda kind, plain: {"estimator": from_plain}[kind](plain)
        )

    report, K = read("fit_report"), header["n_classes"]
    check_learned(REPORT, report, {}, where="fit_report")
    integer(at_least=2).check("n_classes", K)
    if (n_counted := len(report["nodes_per_class"])) != K:
        raise InputError(f"n_classes is {K} but it counts {n_counted} classes.")
    params, learned = read("params"), read("learned")
    calibrator = get_calibrator(header["calibrator"], **params)
    vars(calibrator).update(learned, classes_=np.arange(K), n_features_in_=K)
    sizes = {name: value for name, value in params.items() if type(value) is int} | {"K": K}
    check_learned(learned_table(calibrator), learned, sizes)
    posterior, memories, rates = read("posterior"), read("memories"), read("base_rates")
    square = {str(part): Array(f"{part} {part}") for part in posterior}
    check_learned(square, posterior, {}, where="posterior")
    (number(at_least=0) | NONE).check("standard_error", header["standard_error"])
    check_learned({"rates": RATES}, rates, {"K": K}, where="base_rates")
    table = {each.name: Array("p p" if each.name in SQUARE else "p") for each in fields(Memory)}
    for part, memory in memories.items():
        check_learned(table, memory, {}, where=f"memories of {short_repr(part)}")
    calibrator.posterior_, calibrator.standard_error_ = posterior, header["standard_error"]
    calibrator.memories_ = {part: Memory(**memory) for part, memory in memories.items()}
    calibrator.fit_report_ = FitReport(**report)
    fitted_on = dict(read("fitted_on"))
    calibrator.graph_kind_ = fitted_on.pop("graph_kind", None)
    KIND.check("graph_kind", calibrator.graph_kind_)
    calibrator.fitted_on_ = NodeSummary.from_plain(fitted_on, K)
    calibrator.base_rates_ = rates["rates"]
    calibrator.learned_nodes_ = LearnedNodes.from_plain(read("learned_nodes"))
    calibrator.history_ = history_of(read("history"), K)
    calibrator.provenance_ = read("provenance")
    TAGS.check("provenance", calibrator.provenance_)
    positive = header.get("positive")  # only of a calibrator for one class
    (integer(at_least=0, at_most=K - 1) | NONE).check("positive", positive)
    calibrator.positive_ = positive
    names = check_class_names(header["class_names"], K)
    if names is not None:
        calibrator.class_names_ = names
    return calibrator


def _pack_estimator(value: Any) -> tuple[str, Any] | None:
    return ("estimator", to_plain(value)) if isinstance(value, HomophilyEstimator) else None
