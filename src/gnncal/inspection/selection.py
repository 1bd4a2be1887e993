"""How many nodes may be decided automatically, for every accuracy that one may ask for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.errors import GnncalWarning
from gnncal.core.graph import Graph
from gnncal.decisions import ConformalClassifier, hold_out
from gnncal.decisions.guarantees import accuracy, certify_targets
from gnncal.decisions.sets import SetOutcome, judge_sets
from gnncal.inspection.subject import Subject
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import Ranking

TARGETS = np.round(np.append(np.arange(0.5, 0.99, 0.01), np.arange(0.99, 0.9991, 0.001)), 4)
CONFIDENCE_LEVEL = 0.9
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
        [accuracy(target) for target in TARGETS.tolist()],
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
        target=TARGETS,
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
