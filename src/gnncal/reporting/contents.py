"""What the report's page says: the verdict and tables as HTML, everything else as data."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import date
from hashlib import sha256
from typing import Any

import numpy as np

from gnncal import __version__
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import learned_values
from gnncal.data.arrays import FloatArray
from gnncal.data.errors import to_jsonable
from gnncal.decisions.reports import ALL_CLASSES, POOL
from gnncal.files.saved_calibrators import checksum
from gnncal.metrics import METRICS
from gnncal.metrics.binning import Cells
from gnncal.reporting.decisions import ClassFindings
from gnncal.reporting.findings import Findings, MethodFindings
from gnncal.reporting.input import ReportInput, shortened
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
    "made": "Provenance",
}
FIRST_TARGET = 0.95  # where the slider stands at first
LISTED_VALUES = 8  # of a learned array that the page shows
DIGITS = 4  # significant ones of learned values
CHECKSUM_LENGTH = 16  # characters that are shown


def render(findings: Findings, given: ReportInput, *, title: str, command: str = "") -> str:
    """Draw what was found as a page."""
    name = None if findings.positive is None else findings.class_names[findings.positive]
    new, structure = findings.new_nodes, findings.facts["structure"]
    headings = {"data": "Data" if structure is None else "Graph", "positive": name}
    absent = [anchor for anchor, it in (("one-class", name), ("new-nodes", new)) if it is None]
    scripts = {"": "charts.js", "one-class": "one_class.js", "new-nodes": "shift.js"}
    return render_page(
        "report.html",
        title=title,
        sections=[(a, text.format(**headings)) for a, text in SECTIONS.items() if a not in absent],
        scripts=[*(file for a, file in scripts.items() if a not in absent), "report.js"],
        data=_data(findings, name),
        found=findings,
        facts=findings.facts,
        structure=structure,
        positive_name=name,
        selective=findings.methods[findings.shown].selective,
        assumption=f"{POOL} {ALL_CLASSES}",
        methods=_method_table(findings),
        made=_made(findings, given, command),
        new=None if new is None else section_parts(new),
    )


def _data(findings: Findings, name: str | None) -> dict[str, Any]:
    """Return what the page's script reads."""
    columns: dict[bytes, FloatArray] = {}
    targets = findings.methods[findings.shown].selective.target
    return {
        "facts": findings.facts,
        "class_names": findings.class_names,
        "groupings": findings.groupings,
        "methods": {
            method: _data_of(found, name, columns) for method, found in findings.methods.items()
        },
        "columns": list(columns.values()),
        "shown": findings.shown,
        "positive_name": name,
        "first_target": int(np.abs(targets - FIRST_TARGET).argmin()),
        "listed": findings.listed,
        "drawn": {key: each for key, each in findings.drawn.items() if key != "node"},
        "surroundings": findings.surroundings,
        "moves": () if findings.new_nodes is None else findings.new_nodes.check.moves,
    }


def _data_of(
    findings: MethodFindings, positive_name: str | None, columns: dict[bytes, FloatArray]
) -> dict[str, Any]:
    """Return what the page's script reads of a method; arrays of ``columns`` are written once."""
    profile = None if findings.temperature is None else dict(vars(findings.temperature))
    if profile is not None:
        del profile["nodes"]
        for name in ("homophily", "entropy"):
            key = profile[name].tobytes()
            columns.setdefault(key, profile[name])
            profile[name] = list(columns).index(key)
    return {
        "verdict": findings.verdict,
        "ece": findings.evaluation.ece,
        "reliability": with_interval(findings.reliability),
        "groups": findings.groups,
        "selective": findings.selective,
        "temperature": profile,
        "explanation": findings.explanation,
        "one_class": _class_data(findings.one_class, f"P({positive_name})"),
    }


def _class_data(findings: ClassFindings | None, name: str) -> dict[str, Any] | None:
    """Return what the page's script reads of the positive class."""
    if findings is None:
        return None
    guarantees = [
        {
            **to_jsonable(each),
            "sentence": each.sentence(name),
            "share": each.n_right / each.n_counted if each.n_counted else None,
        }
        for each in findings.guarantees
    ]
    reliability = with_interval(findings.reliability)
    return {**to_jsonable(findings), "reliability": reliability, "guarantees": guarantees}


def with_interval(cells: Cells) -> dict[str, Any]:
    """Return cells as plain data, with the interval of their accuracy."""
    low, high = cells.accuracy_interval()
    return {**to_jsonable(cells), "low": low, "high": high}


def _method_table(findings: Findings) -> dict[str, Any]:
    """Return one row for each method; the best value of each column is marked."""
    columns = COLUMNS if findings.positive is None else POSITIVE_COLUMNS
    best = {}
    for name in columns:
        values: list[Any] = [each.evaluation.values[name] for each in findings.methods.values()]
        choices = {"lower": min(values), "higher": max(values)}
        best[name] = choices.get(METRICS[name].better)
    titles = [capital(METRICS[name].heading.removesuffix(" score")) for name in columns]
    return {
        "heads": ["Method", *titles, "NLL change", "Changed"],
        "rows": {name: _cells(found, best) for name, found in findings.methods.items()},
    }


def _cells(findings: MethodFindings, best: Mapping[str, float | None]) -> list[dict[str, Any]]:
    cells, evaluation = [], findings.evaluation
    for name, mark in best.items():
        value, text = evaluation.values[name], METRICS[name].shown
        floor = f"floor {text(evaluation.floors.get(name))}"
        more = {
            "ece": f"[{text(evaluation.ece.low)}, {text(evaluation.ece.high)}], {floor}",
            "positive_ece": floor,
            "positive_mean": f"base rate {text(evaluation.values.get('positive_rate'))}",
        }
        cells.append((value, text(value), more.get(name, ""), value == mark))
    nll, rate = findings.gain.nll, findings.gain.prediction_change_rate
    cells.append((nll.mean, f"{nll.mean:+.4f}", nll.interval(4), False))
    cells.append((rate, f"{100 * rate:.2f}%", "", False))
    return [dict(zip(("value", "text", "more", "best"), cell, strict=True)) for cell in cells]


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
        "versions": f"gnncal {__version__}, Python {platform.python_version()}",
    }


def data_checksum(given: ReportInput) -> str:
    """Return the SHA-256 of logits, labels, edges and splits, which tells data apart."""
    digest = sha256()
    edges = () if given.graph is None else (given.graph.indptr, given.graph.indices)
    for array in (given.record.logits, given.labels, *given.splits.values(), *edges):
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
    plain = {name: to_jsonable(value, digits=DIGITS) for name, value in values.items()}
    return ", ".join(f"{name} = {shortened(value)}" for name, value in plain.items())
