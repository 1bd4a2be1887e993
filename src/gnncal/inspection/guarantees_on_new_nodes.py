"""What changed between calibration nodes and new ones, and what that does to the guarantees.

Without labels nobody knows whether a guarantee holds on new nodes. What can be said is how many of
them its threshold would decide, and whether they are of the kind that the guarantee is about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.core.arrays import FloatArray, row_maxima
from gnncal.inspection.one_class import ClassFindings
from gnncal.inspection.selection import SelectiveFindings
from gnncal.inspection.subject import Subject
from gnncal.shift.check import Check, check

TARGETS = (0.8, 0.9, 0.95, 0.99)  # those of every guarantee that are counted


@dataclass(frozen=True)
class GuaranteeCount:
    """How many nodes a certified threshold decides, among the old ones and the new ones."""

    name: str
    target: float
    threshold: float  # of confidence for accuracy, else of the probability of the class
    n_before: int  # decided, acted on or cleared
    n_new: int


@dataclass(frozen=True)
class NewNodeFindings:
    """New nodes beside those that the report is about, under the method that it opens with."""

    check: Check
    n_before: int  # nodes of the report outside training and calibration
    n_new: int
    guarantees: tuple[GuaranteeCount, ...]  # the certified ones
    is_standing: bool  # whether they stand, as far as can be seen without labels
    sentence: str


def measure_new_nodes(
    subject: Subject,
    calibrator: Calibrator,
    without: Calibrator,
    held_out_probs: FloatArray,
    selective: SelectiveFindings,
    one_class: ClassFindings | None,
) -> NewNodeFindings | None:
    """Compare the subject's new nodes with its calibration nodes; None if it has no new ones."""
    if subject.new is None:
        return None
    new = subject.new
    checked = check(calibrator, new.record, nodes=new.rows)
    before, after = held_out_probs[subject.others], without.predict_proba(new.record)[new.rows]
    guarantees = _decided(selective, row_maxima(before), row_maxima(after))
    if one_class is not None:
        p = [probs[:, subject.positive].astype(np.float64) for probs in (before, after)]
        guarantees += _of_the_class(one_class, *p)
    # A guarantee is about nodes like the calibration nodes, whatever the rest of their graph is.
    is_standing = checked.verdict == "same" and checked.compared_with == "calibration nodes"
    sentence = _sentence(checked, has_any=bool(guarantees), is_standing=is_standing)
    sizes = len(before), len(after)
    return NewNodeFindings(checked, *sizes, tuple(guarantees), is_standing, sentence)


def _decided(
    selective: SelectiveFindings, before: FloatArray, after: FloatArray
) -> list[GuaranteeCount]:
    rows = zip(selective.target.tolist(), selective.threshold.tolist(), strict=True)
    return [
        GuaranteeCount("accuracy", target, threshold, *_reach(threshold, before, after))
        for target, threshold in rows
        if target in TARGETS and np.isfinite(threshold)
    ]


def _of_the_class(
    findings: ClassFindings, before: FloatArray, after: FloatArray
) -> list[GuaranteeCount]:
    moved = []
    for made in (kept.certified for kept in findings.guarantees):
        if made.target in TARGETS and made.is_certified:
            sign = -1.0 if made.action == "clear" else 1.0
            counts = _reach(sign * made.threshold, sign * before, sign * after)
            moved.append(GuaranteeCount(made.name, made.target, made.threshold, *counts))
    return moved


def _reach(threshold: float, *sides: FloatArray) -> tuple[int, int]:
    before, after = (int((side >= threshold).sum()) for side in sides)
    return before, after


def _sentence(checked: Check, *, has_any: bool, is_standing: bool) -> str:
    if not has_any:
        listed = ", ".join(f"{100 * target:g}" for target in TARGETS)
        return f"None of the targets {listed} % is certified, so nothing is guaranteed."
    if is_standing:
        return (
            "The guarantees still stand, as far as can be seen without labels: they are about "
            "nodes drawn like the calibration nodes, and nothing speaks against that here. If the "
            "new nodes joined the graph of the calibration nodes, refresh the thresholds."
        )
    return (
        "The guarantees do not stand for the new nodes: they are about nodes drawn like the "
        f"calibration nodes, and these are not. Label about {checked.n_labels} nodes chosen at "
        "random, update the calibrator, and certify the thresholds again on labelled nodes that "
        "the update has not seen. If the new nodes joined the same graph just as the calibration "
        "nodes did, it is enough to refresh the thresholds."
    )
