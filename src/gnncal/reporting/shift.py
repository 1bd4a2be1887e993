"""What a check found and what a watch has seen, as pages and as a section of the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.decisions.guarantees import percent
from gnncal.reporting.decisions import NewNodeFindings
from gnncal.reporting.page import capital, render_page
from gnncal.shift.check import Check
from gnncal.shift.claims import Claim
from gnncal.shift.watch import Watch

ANSWERS = {  # the grade of a verdict, and what to do
    "same": ("good", "No action needed"),
    "moved": ("warn", "Label some nodes"),
    "far": ("bad", "Do not use the calibrator here"),
}
GUARANTEES = {
    "accuracy": "Decide: at least {target} correct",
    "act": "Act: at least {target} positive",
    "clear": "Clear: at least {target} negative",
    "recall": "Clear: at least {target} of the positives not cleared",
}


def check_page(check: Check, *, title: str) -> str:
    """Draw what ``gnncal.check`` found as a page."""
    return render_page(
        "check.html",
        title=title,
        sections=(("verdict", "Verdict"), ("moves", "Shift"), ("meaning", "Limits")),
        scripts=("shift.js",),
        data={"moves": check.moves},
        new=_parts(check),
    )


def _parts(check: Check) -> dict[str, Any]:
    """Return what the templates read of a check."""
    (table,) = check._tables()
    # Calibration nodes that are no random sample of their graph ask for labels without a shift.
    grade, label = ANSWERS["moved" if check.n_labels and check.verdict == "same" else check.verdict]
    reference = "the calibration nodes"
    if check.compared_with != reference.removeprefix("the "):
        reference = "the nodes outside training in the graph of the fit"
    rows = [[cell.text for cell in row] for row in table.rows]
    return {"check": check, "grade": grade, "label": label, "rows": rows, "reference": reference}


def section_parts(findings: NewNodeFindings) -> dict[str, Any]:
    """Return what the report's section on new nodes reads."""
    grade = "bad" if findings.check.verdict == "far" else "warn"
    label = "The guarantees do not hold"
    if not findings.guarantees:
        grade, label = "warn", "Nothing is guaranteed"
    elif findings.is_standing:
        grade, label = "good", "No evidence against the guarantees"
    totals = {"n_before": findings.n_before, "n_new": findings.n_new}
    rows = [
        [
            GUARANTEES[each["name"]].format(target=percent(each["target"])),
            f"{each['threshold']:.4g}",
            *(f"{each[key]:,} ({100 * each[key] / n:.1f}%)" for key, n in totals.items()),
        ]
        for each in findings.guarantees
    ]
    return {
        **_parts(findings.check),
        "nodes": findings,
        "guarantees_grade": grade,
        "guarantees_label": label,
        "guarantee_rows": rows,
    }


def watch_page(watch: Watch, *, title: str) -> str:
    """Draw what a watch has seen as a page."""
    report = watch.report()
    (table,) = report._tables()
    limit = float(np.log10(report.claims[0].limit))
    return render_page(
        "watch.html",
        title=title,
        sections=(("verdict", "Verdict"), ("claims", "Claims"), ("course", "Course over time")),
        scripts=("shift.js",),
        data={"claims": [_course(claim) for claim in watch.claims.values()], "limit": limit},
        report=report,
        n_labels=watch.claims["confidence"].n_labels,
        grade="bad" if report.is_alarm else "good",
        label="Labels disagree" if report.is_alarm else "Labels agree so far",
        columns=[capital(name) for name in table.columns],
        rows=[[cell.text for cell in row] for row in table.rows],
    )


def _course(claim: Claim) -> dict[str, Any]:
    """Return the evidence and the two shares of a claim by the number of labels, in blocks."""
    blocks = claim.blocks
    return {
        "name": claim.name,
        "labels": np.cumsum(blocks[:, 0]),
        "evidence": blocks[:, 4] / np.log(10.0),
        "predicted": blocks[:, 1] / blocks[:, 0],
        "observed": blocks[:, 2] / blocks[:, 0],
    }
