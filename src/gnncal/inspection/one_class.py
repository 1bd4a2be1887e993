"""One class in view: is its probability right, and what follows from acting on it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.decisions.promises import Kind, Promise, make_promises
from gnncal.inspection.subject import Subject
from gnncal.metrics.binning import Cells
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.positive import positive_bins_of

CONFIDENCE_LEVEL = 0.9
TARGETS: Mapping[Kind, tuple[float, ...]] = {
    "act": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
    "clear": (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
    "catch": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
}
EVERY_NODE = 500  # so many of the most suspicious nodes are points of the ranking, each by itself
N_POINTS = 900  # of the whole ranking


@dataclass(frozen=True)
class Ranking:
    """Test nodes from the most to the least suspicious, at some points."""

    n: IntArray  # (n_points,) how many nodes come up to here
    threshold: FloatArray  # (n_points,) probability of the last of them
    found: FloatArray  # (n_points,) positives among them, averaged over the order of equal ones
    expected: FloatArray  # (n_points,) the same by the probabilities


@dataclass(frozen=True)
class KeptPromise:
    """A promise that was made on held-out nodes, and what came of it on the test nodes."""

    promise: Promise
    n_counted: int  # test nodes acted on or cleared; for "catch", positives among the test nodes
    share: float  # of them that are right, or caught; NaN if there is none


@dataclass(frozen=True)
class ClassFindings:
    """What a method says about one class, judged on the test nodes."""

    n_nodes: int
    n_positive: int
    rate: float  # share of positives
    mean: float  # mean probability of the class
    reliability: Cells  # with equally many nodes in each bin
    ranking: Ranking
    promises: tuple[KeptPromise, ...]


def measure_class(
    subject: Subject, probs: FloatArray, held_out_probs: FloatArray, held_out: IntArray
) -> ClassFindings | None:
    """Judge the probability of the subject's positive class; None if it has none.

    ``held_out_probs`` are those of the method fitted without ``held_out``: promises rest on nodes
    that the method has not seen.
    """
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
        promises=_promises(subject, held_out_probs, held_out),
    )


def rank(p: FloatArray, is_positive: BoolArray) -> Ranking:
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
    return Ranking(points, ranked[last], np.cumsum(mean_hits[group])[last], np.cumsum(ranked)[last])


def _promises(subject: Subject, probs: FloatArray, held_out: IntArray) -> tuple[KeptPromise, ...]:
    assert subject.positive is not None
    p = probs[:, subject.positive].astype(np.float64)
    positive = subject.labels == subject.positive
    test = subject.test_nodes
    kept = []
    for kind, targets in TARGETS.items():
        for target in targets:
            made = make_promises(p[held_out], positive[held_out], {kind: target}, CONFIDENCE_LEVEL)
            kept.append(_kept(made[kind], p[test], positive[test]))
    return tuple(kept)


def _kept(promise: Promise, p: FloatArray, is_positive: BoolArray) -> KeptPromise:
    if not promise.is_certified:
        return KeptPromise(promise, 0, np.nan)
    if promise.kind == "act":
        counted, right = p >= promise.threshold, is_positive
    elif promise.kind == "clear":
        counted, right = p <= promise.threshold, ~is_positive
    else:
        counted, right = is_positive, p >= promise.threshold
    n = int(counted.sum())
    return KeptPromise(promise, n, float(right[counted].mean()) if n else np.nan)
