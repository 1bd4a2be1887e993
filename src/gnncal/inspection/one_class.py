"""One class in view: is its probability right, and what follows from acting on it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.decisions.guarantees import Certified, certify_targets, of_one_class
from gnncal.inspection.subject import Subject
from gnncal.metrics.binning import Cells
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.positive import positive_bins_of

CONFIDENCE_LEVEL = 0.9
TARGETS: Mapping[str, tuple[float, ...]] = {
    "act": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
    "clear": (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
    "recall": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
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
    ranking: Ranking
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
            holds = guarantee.holds_for(subject.labels[test], subject.labels[test])
            n, right = guarantee.counted(has_action, holds)
            is_shown = each.is_certified and n > 0
            kept.append(
                KeptGuarantee(each, n if is_shown else 0, right / n if is_shown else np.nan)
            )
    return tuple(kept)
