"""What the report's page says: the verdict and tables as HTML, everything else as data."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from typing import Any

import numpy as np

from gnncal import __version__
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import learned_values
from gnncal.data.arrays import FloatArray
from gnncal.data.errors import plain, shown
from gnncal.decisions.base import POOL
from gnncal.decisions.reports import ALL_CLASSES
from gnncal.metrics import METRICS
from gnncal.reporting.findings import Inspection, MethodFindings
from gnncal.reporting.one_class import CONFIDENCE_LEVEL, SET_COVERAGE, ClassFindings
from gnncal.reporting.page import capital, render_page
from gnncal.reporting.shift import section_parts

COLUMNS = ("accuracy", "ece", "nll", "brier", "aurc")
SECTIONS = (
    ("verdict", "Verdict"),
    ("calibrated", "{data}"),
    ("methods", "Methods"),
    ("one-class", "{positive}"),
    ("new-nodes", "New nodes"),
    ("reliability", "Reliability"),
    ("groups", "Groups"),
    ("temperature", "Temperature"),
    ("decisions", "Decisions"),
    ("nodes", "Nodes"),
    ("made", "How"),
)
FIRST_TARGET = 0.95  # where the slider stands at first
LISTED_VALUES = 8  # of a learned array that the page shows
GUARANTEE = (
    "With probability at least {level:.0f} % over the draw of the calibration nodes, automatic "
    "decisions reach the target. This holds for each target by itself. The threshold is found on "
    "{n_held} calibration nodes. Here the method is fitted on the other calibration nodes only, "
    "and test labels are never used. "
    f"{POOL} {ALL_CLASSES}"
)


def render(inspection: Inspection, *, title: str, command: str = "") -> str:
    """Draw an inspection as a page."""
    first = next(iter(inspection.methods.values()))
    positive = inspection.positive
    name = None if positive is None else inspection.class_names[positive]
    new = inspection.new_nodes
    optional = {"one-class": (name, "one_class.js"), "new-nodes": (new, "shift.js")}
    absent = {anchor for anchor, (found, _) in optional.items() if found is None}
    data = "Data" if inspection.facts.structure is None else "Graph"
    columns = _Columns()
    return render_page(
        "gnncal.reporting.page",
        "report.html",
        title=title,
        sections=[
            (anchor, heading.format(data=data, positive=name))
            for anchor, heading in SECTIONS
            if anchor not in absent
        ],
        scripts=(
            "charts.js",
            *(script for anchor, (_, script) in optional.items() if anchor not in absent),
            "report.js",
        ),
        data={
            "facts": inspection.facts,
            "class_names": inspection.class_names,
            "groupings": inspection.groupings,
            "methods": {
                method: _data_of(findings, name, columns)
                for method, findings in inspection.methods.items()
            },
            "columns": columns.values,
            "shown": inspection.shown,
            "positive_name": name,
            "first_target": int(np.abs(first.selective.target - FIRST_TARGET).argmin()),
            "listed": inspection.listed,
            "drawn": _without(inspection.drawn, "node"),
            "surroundings": inspection.surroundings,
            "moves": () if new is None else new.check.moves,
        },
        facts=inspection.facts,
        structure=inspection.facts.structure,
        positive_name=name,
        class_level=CONFIDENCE_LEVEL,
        n_held=first.selective.n_fitted,
        methods=list(inspection.methods),
        shown=inspection.shown,
        after_name=inspection.shown,
        verdict=inspection.verdict,
        class_rows=_class_rows(inspection),
        method_heads=(
            "Method",
            *(capital(METRICS[name].heading.removesuffix(" score")) for name in COLUMNS),
            "NLL change",
            "Changed",
        ),
        method_rows=_method_rows(inspection),
        groupings=inspection.groupings,
        guarantee=GUARANTEE.format(
            level=100 * first.selective.confidence_level, n_held=f"{first.selective.n_fitted:,}"
        ),
        set_coverage=SET_COVERAGE,
        n_listed=len(inspection.listed),
        node_heads=[
            *("Node", "Split", "Predicted", "Label", "Before", "After", "Change", "Temperature"),
            *(() if inspection.facts.structure is None else ("In-degree", "Support")),
        ],
        command=command,
        parameter_rows=_parameter_rows(inspection),
        versions=_versions(),
        **section_parts(new, name),
    )


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
        "reliability": {**plain(findings.reliability), "low": low, "high": high},
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
    """Return what the page's script reads of the class in view."""
    low, high = findings.reliability.accuracy_interval()
    kept = [
        {
            **plain(each.certified),
            "sentence": each.certified.sentence(name),
            "n_counted": each.n_counted,
            "share": each.share,
        }
        for each in findings.guarantees
    ]
    return {
        **plain(findings),
        "reliability": {**plain(findings.reliability), "low": low, "high": high},
        "guarantees": kept,
    }


def _class_rows(inspection: Inspection) -> list[tuple[Any, ...]]:
    counts = inspection.facts.classes
    columns = (counts.train, counts.calibration, counts.test, counts.predicted)
    return list(zip(counts.name, *(column.tolist() for column in columns), strict=True))


def _method_rows(inspection: Inspection) -> list[dict[str, Any]]:
    """One row for each method; the best value of each column is marked."""
    best = {
        column: _best(
            column, [_value_of(findings, column) for findings in inspection.methods.values()]
        )
        for column in COLUMNS
    }
    return [
        {"name": name, "cells": _cells(findings, best)}
        for name, findings in inspection.methods.items()
    ]


def _cells(findings: MethodFindings, best: Mapping[str, float]) -> list[dict[str, Any]]:
    cells = []
    for column in COLUMNS:
        metric, value, more = METRICS[column], _value_of(findings, column), ""
        if column == "ece":
            ece = findings.evaluation.ece
            ends = f"[{metric.shown(ece.low)}, {metric.shown(ece.high)}]"
            more = f"{ends}, floor {metric.shown(ece.floor)}"
        cells.append(_cell(value, metric.shown(value), more, best=value == best[column]))
    nll, rate = findings.gain.nll, findings.gain.prediction_change_rate
    interval = f"[{nll.low:+.4f}, {nll.high:+.4f}]"
    cells.append(_cell(nll.mean, f"{nll.mean:+.4f}", interval))
    cells.append(_cell(rate, f"{100 * rate:.2f} %"))
    return cells


def _value_of(findings: MethodFindings, column: str) -> float:
    value = findings.evaluation.values[column]
    return float("nan") if value is None else value


def _best(column: str, values: Sequence[float]) -> float:
    return min(values) if METRICS[column].better == "lower" else max(values)


def _cell(value: float, text: str, more: str = "", *, best: bool = False) -> dict[str, Any]:
    return {"value": value, "text": text, "more": more, "best": best}


def _parameter_rows(inspection: Inspection) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "parameters": named(findings.calibrator.get_params(deep=False)) or "none",
            "learned": named(_learned(findings.calibrator)) or "none",
            "seconds": findings.seconds,
            "notes": " ".join(findings.notes) or "none",
        }
        for name, findings in inspection.methods.items()
    ]


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
    return shown(value)


def _versions() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"gnncal {__version__}, Python {platform.python_version()}, {packages}."
