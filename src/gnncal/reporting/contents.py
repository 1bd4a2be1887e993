"""What the report's page says: the verdict and tables as HTML, everything else as data."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from gnncal import __version__
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import learned_values
from gnncal.data.arrays import FloatArray
from gnncal.data.errors import short_repr, to_jsonable
from gnncal.decisions.base import POOL
from gnncal.decisions.reports import ALL_CLASSES
from gnncal.files.saved_calibrators import checksum
from gnncal.metrics import METRICS
from gnncal.reporting.decisions import SET_COVERAGE, ClassFindings
from gnncal.reporting.findings import Findings, MethodFindings
from gnncal.reporting.input import ReportInput
from gnncal.reporting.page import capital, render_page
from gnncal.reporting.shift import section_parts

COLUMNS = ("accuracy", "ece", "nll", "brier", "aurc")
POSITIVE_COLUMNS = ("positive_mean", "positive_ece", "accuracy", "ece", "nll", "aurc")
SECTIONS = {
    "verdict": "Verdict",
    "one-class": "{positive}",
    "methods": "Methods",
    "new-nodes": "New nodes",
    "reliability": "Reliability",
    "groups": "Groups",
    "decisions": "Decisions",
    "nodes": "Nodes",
    "temperature": "Temperature",
    "calibrated": "{data}",
    "made": "How",
}
FIRST_TARGET = 0.95  # where the slider stands at first
LISTED_VALUES = 8  # of a learned array that the page shows
CHECKSUM_LENGTH = 16  # characters that are shown


def render(findings: Findings, given: ReportInput, *, title: str, command: str = "") -> str:
    """Draw what was found as a page."""
    name = None if findings.positive is None else findings.class_names[findings.positive]
    new, structure = findings.new_nodes, findings.facts["structure"]
    headings = {"data": "Data" if structure is None else "Graph", "positive": name}
    scripts = {"one-class": "one_class.js", "new-nodes": "shift.js"}
    optional = {"one-class": name, "new-nodes": new}
    absent = {anchor for anchor, found in optional.items() if found is None}
    return render_page(
        "gnncal.reporting.page",
        "report.html",
        title=title,
        sections=[
            (anchor, heading.format(**headings))
            for anchor, heading in SECTIONS.items()
            if anchor not in absent
        ],
        scripts=(
            "charts.js",
            *(script for anchor, script in scripts.items() if anchor not in absent),
            "report.js",
        ),
        data=_data(findings, name),
        found=findings,
        facts=findings.facts,
        structure=structure,
        positive_name=name,
        selective=findings.methods[findings.shown].selective,
        assumption=f"{POOL} {ALL_CLASSES}",
        set_coverage=SET_COVERAGE,
        methods=_method_table(findings),
        made=_made(findings, given, command),
        new=None if new is None else section_parts(new, name),
    )


def _data(findings: Findings, name: str | None) -> dict[str, Any]:
    """Return what the page's script reads."""
    columns = _Columns()
    targets = findings.methods[findings.shown].selective.target
    return {
        "facts": findings.facts,
        "class_names": findings.class_names,
        "groupings": findings.groupings,
        "methods": {
            method: _data_of(found, name, columns) for method, found in findings.methods.items()
        },
        "columns": columns.values,
        "shown": findings.shown,
        "positive_name": name,
        "first_target": int(np.abs(targets - FIRST_TARGET).argmin()),
        "listed": findings.listed,
        "drawn": {key: each for key, each in findings.drawn.items() if key != "node"},
        "surroundings": findings.surroundings,
        "moves": () if findings.new_nodes is None else findings.new_nodes.check.moves,
    }


class _Columns:
    """Arrays that the methods of a page have in common; each is written once."""

    def __init__(self) -> None:
        self.values: list[FloatArray] = []
        self._places: dict[bytes, int] = {}

    def place(self, values: FloatArray) -> int:
        """Return where an array stands in the list."""
        place = self._places.setdefault(values.tobytes(), len(self.values))
        if place == len(self.values):
            self.values.append(values)
        return place


def _without(record: Any, *names: str) -> dict[str, Any]:
    """Return a record as a dictionary, less what the page's script does not read."""
    return {f.name: getattr(record, f.name) for f in fields(record) if f.name not in names}


def _data_of(
    findings: MethodFindings, positive_name: str | None, columns: _Columns
) -> dict[str, Any]:
    """Return what the page's script reads of a method."""
    low, high = findings.reliability.accuracy_interval()
    return {
        "verdict": findings.verdict,
        "ece": findings.evaluation.ece,
        "reliability": {**to_jsonable(findings.reliability), "low": low, "high": high},
        "groups": findings.groups,
        "selective": findings.selective,
        "sets": findings.sets,
        "temperature": {
            **_without(findings.temperature, "nodes"),
            "homophily": columns.place(findings.temperature.homophily),
            "entropy": columns.place(findings.temperature.entropy),
        },
        "explanation": findings.explanation,
        "one_class": None
        if findings.one_class is None
        else _class_data(findings.one_class, f"P({positive_name})"),
    }


def _class_data(findings: ClassFindings, name: str) -> dict[str, Any]:
    """Return what the page's script reads of the positive class."""
    low, high = findings.reliability.accuracy_interval()
    guarantees = [
        {
            **to_jsonable(each.certified),
            "sentence": each.certified.sentence(name),
            "n_counted": each.n_counted,
            "share": each.share,
        }
        for each in findings.guarantees
    ]
    return {
        **to_jsonable(findings),
        "reliability": {**to_jsonable(findings.reliability), "low": low, "high": high},
        "guarantees": guarantees,
    }


def _method_table(findings: Findings) -> dict[str, Any]:
    """Return one row for each method; the best value of each column is marked."""
    columns = COLUMNS if findings.positive is None else POSITIVE_COLUMNS
    best = {
        column: _best(column, [_value_of(each, column) for each in findings.methods.values()])
        for column in columns
    }
    titles = [capital(METRICS[name].heading.removesuffix(" score")) for name in columns]
    return {
        "heads": ["Method", *titles, "NLL change", "Changed"],
        "falling": {
            titles[i] for i, name in enumerate(columns) if METRICS[name].better == "higher"
        },
        "rows": {name: _cells(found, best) for name, found in findings.methods.items()},
    }


def _cells(findings: MethodFindings, best: Mapping[str, float]) -> list[dict[str, Any]]:
    cells = []
    for column, mark in best.items():
        metric, value, more = METRICS[column], _value_of(findings, column), ""
        if column == "ece":
            ece = findings.evaluation.ece
            ends = f"[{metric.shown(ece.low)}, {metric.shown(ece.high)}]"
            more = f"{ends}, floor {metric.shown(ece.floor)}"
        elif column == "positive_ece":
            more = f"floor {metric.shown(findings.evaluation.floors[column])}"
        elif column == "positive_mean":
            more = f"rate {metric.shown(_value_of(findings, 'positive_rate'))}"
        cells.append(_cell(value, metric.shown(value), more, best=value == mark))
    nll, rate = findings.gain.nll, findings.gain.prediction_change_rate
    interval = f"[{nll.low:+.4f}, {nll.high:+.4f}]"
    cells.append(_cell(nll.mean, f"{nll.mean:+.4f}", interval))
    cells.append(_cell(rate, f"{100 * rate:.2f}%"))
    return cells


def _value_of(findings: MethodFindings, column: str) -> float:
    value = findings.evaluation.values[column]
    return float("nan") if value is None else value


def _best(column: str, values: Sequence[float]) -> float:
    better = METRICS[column].better
    return min(values) if better == "lower" else max(values) if better == "higher" else np.nan


def _cell(value: float, text: str, more: str = "", *, best: bool = False) -> dict[str, Any]:
    return {"value": value, "text": text, "more": more, "best": best}


def _made(findings: Findings, given: ReportInput, command: str) -> dict[str, Any]:
    """Return when, how, from which data and by which calibrators the page was made."""
    rows = [
        {
            "name": name,
            "parameters": named(found.calibrator.get_params(deep=False)) or "none",
            "learned": named(_learned(found.calibrator)) or "none",
            "checksum": checksum(found.calibrator)[:CHECKSUM_LENGTH],
            "seconds": found.seconds,
            "notes": " ".join(found.notes) or "none",
        }
        for name, found in findings.methods.items()
    ]
    return {
        "command": command,
        "date": date.today().isoformat(),
        "checksum": data_checksum(given)[:CHECKSUM_LENGTH],
        "calibrator": rows[list(findings.methods).index(findings.shown)]["checksum"],
        "rows": rows,
        "versions": _versions(),
    }


def data_checksum(given: ReportInput) -> str:
    """Return the SHA-256 of logits, labels, edges and splits, which tells data apart."""
    digest = sha256()
    edges = () if given.graph is None else (given.graph.indptr, given.graph.indices)
    for array in (given.logits, given.labels, *given.splits.values(), *edges):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _learned(calibrator: Calibrator) -> dict[str, Any]:
    """Return the numbers that a fit found: scalars, and arrays if they are short."""
    return {
        f"{name}_": value
        for name, value in learned_values(calibrator, LISTED_VALUES).items()
        if f"{name}_" not in calibrator.transductive_attributes and not name.endswith("fingerprint")
    }


def named(values: Mapping[str, Any]) -> str:
    """Return names and values as one line of text."""
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        floats: FloatArray = value
        return "[" + ", ".join(f"{entry:.3g}" for entry in floats.tolist()) + "]"
    return short_repr(value)


def _versions() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"gnncal {__version__}, Python {platform.python_version()}, {packages}."
