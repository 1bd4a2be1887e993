"""Pages for a person on call: what a check found, and what a watch has seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.rendering.page import capital, render_page
from gnncal.shift.check import Check
from gnncal.shift.claims import Claim
from gnncal.shift.watch import Watch

GRADES = {"same": "good", "moved": "warn", "far": "bad"}
LABELS = {
    "same": "Nothing to do",
    "moved": "Label some nodes",
    "far": "Do not use it here",
}


def check_page(check: Check, *, title: str) -> str:
    """Draw what ``gnncal.check`` found as a page."""
    (table,) = check._tables()
    return render_page(
        __package__ or "",
        "check.html",
        title=title,
        sections=(("verdict", "Verdict"), ("moves", "What moved"), ("meaning", "What it means")),
        scripts=("shift.js",),
        data={"moves": check.moves},
        check=check,
        grade=GRADES[check.verdict],
        label=LABELS[check.verdict],
        rows=[[cell.text for cell in row] for row in table.rows],
    )


def watch_page(watch: Watch, *, title: str) -> str:
    """Draw what a watch has seen as a page."""
    report = watch.report()
    (table,) = report._tables()
    return render_page(
        __package__ or "",
        "watch.html",
        title=title,
        sections=(("verdict", "Verdict"), ("claims", "Claims"), ("course", "Course")),
        scripts=("shift.js",),
        data={
            "claims": [_course(claim) for claim in watch.claims.values()],
            "limit": _limit(watch),
        },
        report=report,
        n_labels=watch.claims["confidence"].n_labels,
        grade="bad" if report.is_alarm else "good",
        label="Labels disagree" if report.is_alarm else "As promised so far",
        columns=[capital(name) for name in table.columns],
        rows=[[cell.text for cell in row] for row in table.rows],
    )


def _limit(watch: Watch) -> float:
    return float(np.log10(len(watch.claims) / watch.false_alarms))


def _course(claim: Claim) -> dict[str, Any]:
    """Return the evidence and the two shares of a claim by the number of labels, in blocks."""
    blocks = np.array(claim.blocks).reshape(-1, 5)
    return {
        "name": claim.name,
        "labels": np.cumsum(blocks[:, 0]),
        "evidence": blocks[:, 4] / np.log(10.0),
        "stated": blocks[:, 1] / blocks[:, 0],
        "happened": blocks[:, 2] / blocks[:, 0],
    }
