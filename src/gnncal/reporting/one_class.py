"""One class in view: is its probability right, and what follows from acting on it?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import BoolArray, FloatArray, IntArray, row_maxima
from gnncal.data.errors import GnncalWarning
from gnncal.decisions import ConformalClassifier, hold_out
from gnncal.decisions.guarantees import Certified, accuracy, certify_targets, of_one_class
from gnncal.decisions.sets import SetOutcome, judge_sets
from gnncal.graph.graph import Graph
from gnncal.metrics.binning import Cells, positive_bins_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import Ranking
from gnncal.reporting.subject import Subject
from gnncal.shift.check import Check, check

CONFIDENCE_LEVEL = 0.9
TARGETS: Mapping[str, tuple[float, ...]] = {
    "act": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
    "clear": (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
    "recall": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
}
EVERY_NODE = 500  # so many of the most suspicious nodes are points of the ranking, each by itself
N_POINTS = 900  # of the whole ranking


@dataclass(frozen=True)
class RankedNodes:
    """Test nodes from the most to the least suspicious, at some points."""

    n: IntArray  # (n_points,) how many nodes come up to here
    threshold: FloatArray  # (n_points,) probability of the last of them
    found: FloatArray  # (n_points,) positives among them, averaged over the order of equal ones
    expected: FloatArray  # (n_points,) the same by the probabilities


@dataclass(frozen=True)
class KeptGuarantee:
    """A guarantee that held-out nodes certify, and what came of it on the test nodes."""

    certified: Certified
    n_counted: int  # test nodes acted on or cleared; for recall, positives among the test nodes
    share: float  # of them that are right; NaN if there is none


@dataclass(frozen=True)
class ClassFindings:
    """What a method says about one class, judged on the test nodes."""

    n_nodes: int
    n_positive: int
    rate: float  # share of positives
    mean: float  # mean probability of the class
    reliability: Cells  # with equally many nodes in each bin
    ranking: RankedNodes
    guarantees: tuple[KeptGuarantee, ...]


def measure_class(
    subject: Subject, probs: FloatArray, held_out_probs: FloatArray, held_out: IntArray
) -> ClassFindings | None:
    """Judge the probability of the subject's positive class; None if it has none."""
    if subject.positive is None:
        return None
    test = subject.test_nodes
    judged = Outcomes(subject.labels[test], probs[test], positive=subject.positive, is_checked=True)
    p = judged.probs[:, subject.positive].astype(np.float64)
    is_positive = judged.labels == subject.positive
    return ClassFindings(
        n_nodes=len(test),
        n_positive=int(is_positive.sum()),
        rate=float(is_positive.mean()),
        mean=float(p.mean()),
        reliability=positive_bins_of(judged),
        ranking=rank(p, is_positive),
        guarantees=_guarantees(subject, held_out_probs, held_out),
    )


def rank(p: FloatArray, is_positive: BoolArray) -> RankedNodes:
    """Rank nodes by their probability; equal ones count as their average."""
    order = np.argsort(-p, kind="stable")
    ranked = p[order]
    _, group = np.unique(-ranked, return_inverse=True)
    hits = is_positive[order].astype(np.float64)
    mean_hits = np.bincount(group, hits) / np.bincount(group)
    every = np.arange(1, p.size + 1)
    points = every[:EVERY_NODE]
    if p.size > EVERY_NODE:
        rest = np.linspace(EVERY_NODE, p.size, N_POINTS - EVERY_NODE).astype(np.int64)
        points = np.unique(np.concatenate([points, rest]))
    last = points - 1
    return RankedNodes(
        points, ranked[last], np.cumsum(mean_hits[group])[last], np.cumsum(ranked)[last]
    )


def _guarantees(
    subject: Subject, probs: FloatArray, held_out: IntArray
) -> tuple[KeptGuarantee, ...]:
    assert subject.positive is not None
    score = probs[:, subject.positive].astype(np.float32).astype(np.float64)
    pool, test = np.union1d(held_out, subject.others), subject.test_nodes
    kept = []
    for name, targets in TARGETS.items():
        asked = [of_one_class(subject.positive, probs.shape[1], {name: t})[0] for t in targets]
        certified = certify_targets(
            asked,
            probs[pool],
            score[pool],
            score[held_out],
            subject.labels[held_out],
            subject.labels[held_out],
            1.0 - CONFIDENCE_LEVEL,
        )
        for guarantee, each in zip(asked, certified, strict=True):
            p = score[test]
            has_action = p <= each.threshold if each.action == "clear" else p >= each.threshold
            holds = guarantee._holds_for(subject.labels[test], subject.labels[test])
            n, right = guarantee._counted(has_action, holds)
            is_shown = each.is_certified and n > 0
            kept.append(
                KeptGuarantee(each, n if is_shown else 0, right / n if is_shown else np.nan)
            )
    return tuple(kept)


SELECTION_TARGETS = np.round(
    np.append(np.arange(0.5, 0.99, 0.01), np.arange(0.99, 0.9991, 0.001)), 4
)
CURVE_POINTS = 300
SET_COVERAGE = 0.9
LARGEST_DIFFUSED = (
    200_000  # nodes; on larger graphs only the method shown has sets that look at neighbours
)


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


def split_for_decisions(nodes: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
    """Calibration nodes for the methods, and others for the thresholds, with all classes in
    both."""
    return hold_out(nodes, labels=labels) if len(nodes) > 1 else (nodes, nodes)


def measure_selection(subject: Subject, probs: FloatArray, held_out: IntArray) -> SelectiveFindings:
    """Find thresholds on nodes that the method has not seen, and count what they decide
    elsewhere."""
    score = probs.max(axis=1).astype(np.float32).astype(np.float64)
    pool = np.union1d(held_out, subject.others)
    fitted = certify_targets(
        [accuracy(target) for target in SELECTION_TARGETS.tolist()],
        probs[pool],
        score[pool],
        score[held_out],
        subject.labels[held_out],
        probs[held_out].argmax(axis=1),
        1.0 - CONFIDENCE_LEVEL,
    )
    threshold = np.array([each.threshold for each in fitted])
    test, others = subject.test_nodes, subject.others
    judged = Outcomes(subject.labels[test], probs[test], is_checked=True)
    reached = score[test] >= threshold[:, None]
    n_test, n_right = reached.sum(axis=1), (reached & (judged.correct > 0)).sum(axis=1)
    n_decided = others.size - np.searchsorted(np.sort(score[others]), threshold)
    mistakes = Ranking.of(judged.confidence, 1.0 - judged.correct)
    points = 1 + np.unique(np.linspace(0, len(test) - 1, CURVE_POINTS).astype(np.int64))
    return SelectiveFindings(
        target=SELECTION_TARGETS,
        threshold=threshold,
        n_decided=n_decided,
        coverage=n_decided / max(others.size, 1),
        test_coverage=n_test / len(test),
        test_accuracy=np.divide(
            n_right, n_test, out=np.full(len(n_test), np.nan), where=n_test > 0
        ),
        n_nodes=others.size,
        n_fitted=len(held_out),
        curve_coverage=points / len(test),
        curve_accuracy=1.0 - mistakes.hits_among(points) / points,
        confidence_level=CONFIDENCE_LEVEL,
    )


def measure_sets(
    subject: Subject, probs: FloatArray, held_out: IntArray, *, is_shown: bool
) -> dict[str, SetOutcome]:
    """Judge sets of classes on the test nodes, by the name of their score."""
    test = subject.test_nodes
    chosen = np.concatenate([held_out, test])
    own = _sets("aps", probs[chosen], subject.labels[chosen], None, np.arange(len(held_out)))
    judgements = {"aps": judge_sets(subject.labels[test], own[len(held_out) :])}
    if subject.graph is not None and (is_shown or len(probs) <= LARGEST_DIFFUSED):
        diffused = _sets("daps", probs, subject.labels, subject.graph, held_out)
        judgements["daps"] = judge_sets(subject.labels[test], diffused[test])
    return judgements


def _sets(
    score: str, probs: FloatArray, labels: IntArray, graph: Graph | None, nodes: IntArray
) -> BoolArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)  # too few nodes: sets of all classes
        sets = ConformalClassifier(SET_COVERAGE, score=score, random_state=0)
        return sets._fit_sets(probs, labels, graph, nodes)


CERTIFIED_TARGETS = (0.8, 0.9, 0.95, 0.99)  # those of every guarantee that are counted


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
        if target in CERTIFIED_TARGETS and np.isfinite(threshold)
    ]


def _of_the_class(
    findings: ClassFindings, before: FloatArray, after: FloatArray
) -> list[GuaranteeCount]:
    moved = []
    for made in (kept.certified for kept in findings.guarantees):
        if made.target in CERTIFIED_TARGETS and made.is_certified:
            sign = -1.0 if made.action == "clear" else 1.0
            counts = _reach(sign * made.threshold, sign * before, sign * after)
            moved.append(GuaranteeCount(made.name, made.target, made.threshold, *counts))
    return moved


def _reach(threshold: float, *sides: FloatArray) -> tuple[int, int]:
    before, after = (int((side >= threshold).sum()) for side in sides)
    return before, after


def _sentence(checked: Check, *, has_any: bool, is_standing: bool) -> str:
    if not has_any:
        listed = ", ".join(f"{100 * target:g}" for target in CERTIFIED_TARGETS)
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
