"""The report on a run at scale, drawn from its summary alone."""

from __future__ import annotations

from typing import Any

from gnncal.data.errors import InputError
from gnncal.metrics.verdict import Evidence, Verdict, judge_method
from gnncal.reporting.contents import named, with_interval
from gnncal.reporting.page import render_page
from gnncal.scale.summary import Measured, ScaleSummary

SECTIONS = {"verdict": "Verdict", "reliability": "Reliability", "degree": "Degree", "made": "How"}
SPREADS = 2.0  # standard deviations above its floor from which an ECE is not chance


def summary_page(summary: ScaleSummary, *, title: str) -> str:
    """Draw what ``gnncal scale`` measured as a page."""
    if summary.before is None or summary.after is None:
        raise InputError(
            "the summary has no metrics, because no test node has a label; label "
            "some and run gnncal scale again."
        )
    before, after = _data_of(summary.before), _data_of(summary.after)
    (metrics, *_) = summary._tables()
    return render_page(
        "summary.html",
        title=title,
        sections=list(SECTIONS.items()),
        scripts=("charts.js", "summary.js"),
        data={"method": summary.method, "before": before, "after": after},
        summary=summary,
        after_name=summary.method,
        verdict=summary_verdict(summary),
        seconds=sum(summary.seconds.values()),
        rows=[[cell.text for cell in row] for row in metrics.rows],
        learned=named(dict(summary.learned)) or "nothing",
        notes=list(summary.notes),
    )


def summary_verdict(summary: ScaleSummary) -> Verdict:
    """Judge a run at scale by its metrics."""
    before, after = summary.before, summary.after
    assert before is not None
    assert after is not None
    limit, price = SPREADS * after.ece_floor_spread, summary.price
    return judge_method(
        summary.method,
        Evidence(
            before.ece,
            after.ece,
            after.ece_floor,
            after.ece - after.ece_floor > limit,
            after.ece - before.ece > limit,
            summary.differences["nll"],
            summary.prediction_change_rate,
            before.accuracy,
            after.accuracy,
            None if price is None else price.advice(summary.class_names),
            price is not None and price.given is not None,
        ),
    )


def _data_of(side: Measured) -> dict[str, Any]:
    blocks = side.degree_blocks
    ends = zip(blocks.lowest.tolist(), blocks.highest.tolist(), strict=True)
    labels = [f"{a:,.0f}" if a == b else f"{a:,.0f} to {b:,.0f}" for a, b in ends]
    numbered = [f"{label} ({i})" for i, label in enumerate(labels, 1)]  # several may look alike
    return {
        "ece": side.ece,
        "ece_floor": side.ece_floor,
        "reliability": with_interval(side.reliability),
        "degree_blocks": {**with_interval(blocks), "labels": numbered},
    }
