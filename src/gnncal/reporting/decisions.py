"""What follows from acting on the probabilities: of one class, of all, and of new nodes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import BoolArray, FloatArray, IntArray, row_maxima
from gnncal.data.errors import GnncalWarning
from gnncal.data.estimator import clone
from gnncal.data.probability import softmax
from gnncal.decisions import hold_out
from gnncal.decisions.guarantees import Certified, Guarantee, certify_all, named_guarantee
from gnncal.metrics.binning import Cells, positive_bins_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import Ranking
from gnncal.reporting.input import ReportInput, shortened
from gnncal.shift.check import Check, check

CONFIDENCE_LEVEL = 0.9
CERTIFIED_TARGETS = (0.8, 0.9, 0.95, 0.99)  # of which decisions on new nodes are counted
TARGETS: Mapping[str, tuple[float, ...]] = {
    "act": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
    "clear": (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
    "recall": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
}
EVERY_NODE = 500  # so many of the most suspicious nodes are points of the ranking, each by itself
N_POINTS = 900  # of the whole ranking
REVIEWED = 500  # nodes of the list for reviewers


@dataclass(frozen=True)
class ClassFindings:
    """What a method says about one class, judged on the test nodes."""

    n_nodes: int
    n_positive: int
    rate: float  # share of positives
    mean: float  # mean probability of the class
    reliability: Cells  # with equally many nodes in each bin
    ranking: dict[str, Any]  # the nodes from the most to the least suspicious, at some points
    guarantees: tuple[Certified, ...]  # by held-out nodes; the test nodes are counted
    review: dict[str, Any]  # the most probable nodes outside training and calibration


def measure_class(
    given: ReportInput, judged: Outcomes, probs: FloatArray, held: HeldOut
) -> ClassFindings | None:
    """Judge the probability of the positive class on the test nodes; None if there is none."""
    if given.positive is None:
        return None
    positive = given.positive
    p, is_positive = judged.probs[:, positive].astype(np.float64), judged.labels == positive
    order = np.argsort(-probs[given.others, positive], kind="stable")
    first = given.others[order[:REVIEWED]]
    review = {
        "name": [shortened(each) for each in given.node_ids[first]],
        "is_test": np.isin(first, given.test_nodes).tolist(),
        "p": probs[first, positive],
        "raw": softmax(given.record.logits[first])[:, positive],
    }
    return ClassFindings(
        *(p.size, int(is_positive.sum()), float(is_positive.mean()), float(p.mean())),
        *(positive_bins_of(judged), rank(p, is_positive)),
        *(_observed_guarantees(given, positive, held), review),
    )


def rank(p: FloatArray, is_positive: BoolArray) -> dict[str, Any]:
    """Rank nodes by their probability; equal ones count as their average."""
    ranked, points = np.sort(p)[::-1], np.arange(1, p.size + 1)
    if p.size > EVERY_NODE:
        rest = np.linspace(EVERY_NODE, p.size, N_POINTS - EVERY_NODE).astype(np.int64)
        points = np.unique(np.concatenate([points[:EVERY_NODE], rest]))
    last, found = points - 1, Ranking.of(p, is_positive.astype(np.float64)).hits_among(points)
    expected, variance = np.cumsum(ranked), np.cumsum(ranked * (1.0 - ranked))
    return {
        "n": points,  # how many nodes come up to here
        "threshold": ranked[last],  # probability of the last of them
        "found": found,  # positives among them
        "expected": expected[last],  # the same by the probabilities, and its variance
        "variance": variance[last],
    }


def _score(probs: FloatArray, positive: int | None) -> FloatArray:
    """Return what thresholds are about, as a policy has it."""
    values = row_maxima(probs) if positive is None else probs[:, positive]
    return values.astype(np.float32).astype(np.float64)


def _certified(given: ReportInput, held: HeldOut, asked: list[Guarantee]) -> list[Certified]:
    """Certify each target by itself on the nodes held out, for the nodes outside the fit."""
    pool, nodes, first = (
        np.union1d(held.calibration_nodes, given.others),
        held.calibration_nodes,
        asked[0],
    )
    score = _score(held.probs, given.positive if first.action != "decide" else None)
    holds = first._holds_for(given.labels[nodes], held.probs[nodes].argmax(axis=1))
    known = score[nodes], [holds], [first._pool(held.probs[pool], score[pool])]
    delta = 1.0 - CONFIDENCE_LEVEL
    return [certify_all([g], *known, delta, is_advised=False)[g.name] for g in asked]


def certify_accuracy(
    given: ReportInput, held: HeldOut, targets: Sequence[float] = CERTIFIED_TARGETS
) -> list[Certified]:
    """Certify these accuracies of automatic decisions, each by itself."""
    return _certified(given, held, [named_guarantee("accuracy", t, None, 0) for t in targets])


def _observed_guarantees(given: ReportInput, positive: int, held: HeldOut) -> tuple[Certified, ...]:
    labels, p = given.labels[given.test_nodes], _score(held.probs[given.test_nodes], positive)
    observed = []
    for name, targets in TARGETS.items():
        asked = [named_guarantee(name, t, positive, held.probs.shape[1]) for t in targets]
        for each in _certified(given, held, asked):
            n, right = each._counted(each.reaches(p), each._holds_for(labels, labels))
            n = n if each.is_certified else 0
            observed.append(replace(each, n_counted=n, n_right=right))
    return tuple(observed)


SELECTION_TARGETS = np.round(
    np.append(np.arange(0.5, 0.99, 0.01), np.arange(0.99, 0.9991, 0.001)), 4
)
CURVE_POINTS = 300


@dataclass(frozen=True)
class SelectiveFindings:
    """Thresholds found on calibration nodes that were held out, and what they do elsewhere."""

    target: FloatArray  # (n_targets,) accuracy that automatic decisions must reach
    threshold: FloatArray  # (n_targets,) of confidence; infinite where none is certified
    n_decided: IntArray  # (n_targets,) of the nodes outside training and calibration
    coverage: FloatArray  # (n_targets,) share of them
    test_coverage: FloatArray  # (n_targets,) share of the test nodes
    test_accuracy: FloatArray  # (n_targets,) among them; NaN where none is decided
    n_nodes: int  # nodes outside training and calibration
    n_fitted: int  # calibration nodes that the thresholds rest on
    curve_coverage: FloatArray  # (n_points,) of the test nodes
    curve_accuracy: FloatArray  # (n_points,) among them
    confidence_level: float


@dataclass(frozen=True)
class HeldOut:
    """Calibration nodes kept for the thresholds, and a fit of the method without them."""

    calibration_nodes: IntArray
    calibrator: Calibrator
    probs: FloatArray  # (n_nodes, n_classes) of that fit


def hold_out_nodes(given: ReportInput, method: Calibrator) -> HeldOut:
    """Fit a method without the calibration nodes that the thresholds rest on."""
    nodes = given.calibration_nodes
    others, held = hold_out(nodes, labels=given.labels) if len(nodes) > 1 else (nodes, nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)
        fitted = clone(method).fit(given.labelled.subset(np.isin(nodes, others)))
        return HeldOut(held, fitted, fitted.predict_proba(given.record))


def measure_selection(given: ReportInput, held: HeldOut) -> SelectiveFindings:
    """Count what thresholds that the nodes held out certify decide elsewhere."""
    test, others, score = given.test_nodes, given.others, _score(held.probs, None)
    certified = certify_accuracy(given, held, SELECTION_TARGETS.tolist())
    threshold = np.array([each.threshold for each in certified])
    judged = Outcomes(given.labels[test], held.probs[test], is_checked=True)
    reached = score[test] >= threshold[:, None]
    n_test, n_right = reached.sum(axis=1), (reached & (judged.correct > 0)).sum(axis=1)
    n_decided = others.size - np.searchsorted(np.sort(score[others]), threshold)
    mistakes = Ranking.of(judged.confidence, 1.0 - judged.correct)
    points = 1 + np.unique(np.linspace(0, len(test) - 1, CURVE_POINTS).astype(np.int64))
    found = np.divide(n_right, n_test, out=np.full(len(n_test), np.nan), where=n_test > 0)
    return SelectiveFindings(
        *(SELECTION_TARGETS, threshold, n_decided, n_decided / max(others.size, 1)),
        *(n_test / len(test), found),
        *(others.size, len(held.calibration_nodes)),
        *(points / len(test), 1.0 - mistakes.hits_among(points) / points),
        CONFIDENCE_LEVEL,
    )


@dataclass(frozen=True)
class NewNodeFindings:
    """New nodes next to those that the report is about, under the method that it opens with."""

    check: Check
    n_before: int  # nodes of the report outside training and calibration
    n_new: int
    guarantees: list[dict[str, Any]]  # how many nodes each certified threshold decides
    is_standing: bool  # whether they stand, as far as can be seen without labels
    sentence: str


def measure_new_nodes(
    given: ReportInput, calibrator: Calibrator, held: HeldOut, certified: Sequence[Certified]
) -> NewNodeFindings | None:
    """Compare new nodes with the calibration nodes; None if there are no new ones."""
    if given.new is None:
        return None
    record, rows = given.new
    checked = check(calibrator, record, nodes=rows)
    sides = held.probs[given.others], held.calibrator.predict_proba(record)[rows]
    guarantees = []
    for each in certified:
        if each.is_certified and each.target in CERTIFIED_TARGETS:
            made = {name: getattr(each, name) for name in ("name", "target", "threshold")}
            of = None if each.action == "decide" else given.positive
            n = [int(each.reaches(_score(p, of)).sum()) for p in sides]
            guarantees.append({**made, "n_before": n[0], "n_new": n[1]})
    # A guarantee is about nodes like the calibration nodes, whatever the rest of their graph is.
    is_standing = checked.verdict == "same" and checked.compared_with == "calibration nodes"
    sentence = _sentence(checked, has_any=bool(guarantees), is_standing=is_standing)
    n_before, n_new = map(len, sides)
    return NewNodeFindings(checked, n_before, n_new, guarantees, is_standing, sentence)


def _sentence(checked: Check, *, has_any: bool, is_standing: bool) -> str:
    if not has_any:
        *first, last = (f"{100 * target:g}" for target in CERTIFIED_TARGETS)
        listed = f"{', '.join(first)} and {last}%"
        return f"None of the targets {listed} is certified, so nothing is guaranteed."
    if is_standing:
        return (
            "The guarantees still hold if the new nodes come from the same population as the "
            "calibration nodes. The check found no evidence against this. If the new nodes joined "
            "the graph of the calibration nodes, certify again on the current graph (gnncal "
            "decide, or gnncal apply --refresh)."
        )
    return (
        "The guarantees do not hold for the new nodes, because the calibration nodes come from a "
        f"different population. Label about {checked.n_labels} nodes chosen at random, update the "
        "calibrator, and certify again on labels that the update has not used. If the calibration "
        "nodes are still a random sample of a graph that has grown, their labels suffice: run "
        "gnncal decide again, or gnncal apply --refresh."
    )
