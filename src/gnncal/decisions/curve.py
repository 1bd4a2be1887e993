"""Thresholds and coverages for many target accuracies at once, as a slider needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray, as_numpy
from gnncal.core.checks import check_nodes
from gnncal.core.errors import InputError
from gnncal.core.tabular import Table, Tabular, count, number
from gnncal.decisions.certificate import Certificate, accuracy_bounds, certify
from gnncal.decisions.outcomes import check_calibration, confidences, rank_nodes, sums_above
from gnncal.decisions.selective import SHARE

DEFAULT_TARGETS = np.append(np.arange(500, 1000, 5), 999) / 1000


@dataclass(frozen=True, repr=False, eq=False)
class SelectiveCurve(Tabular):
    """What can be decided automatically at each of several target accuracies.

    Row i is what :class:`gnncal.decisions.SelectiveClassifier` finds for ``target[i]``. The
    guarantee holds for each target by itself, so the target should be chosen for other reasons
    than a lucky row.

    Attributes
    ----------
    confidence_level : float
        Probability with which the guarantee of each target holds.
    n_calibration : int
        Number of calibration nodes.
    n_nodes : int
        Number of nodes that the coverage is a share of.
    target : ndarray of shape (n_targets,)
        Target accuracies.
    threshold : ndarray of shape (n_targets,)
        Lowest confidence of a decided node; infinite where none is certified.
    n_certified : ndarray of shape (n_targets,)
        Number of calibration nodes that reach the threshold.
    accuracy_bound : ndarray of shape (n_targets,)
        Lower limit of their accuracy, NaN without any.
    n_decided : ndarray of shape (n_targets,)
        Number of the ``n_nodes`` nodes that are decided.
    coverage : ndarray of shape (n_targets,)
        Share of the ``n_nodes`` nodes that are decided.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import selective_curve
    >>> generator = np.random.default_rng(0)
    >>> p = generator.uniform(0.5, 1.0, size=1000)
    >>> labels = (generator.uniform(size=1000) > p).astype(int)
    >>> curve = selective_curve(np.column_stack([p, 1 - p]), labels, [0.8, 0.9])
    >>> curve.target, curve.n_decided
    (array([0.8, 0.9]), array([763, 233]))

    """

    confidence_level: float
    n_calibration: int
    n_nodes: int
    target: FloatArray
    threshold: FloatArray
    n_certified: IntArray
    accuracy_bound: FloatArray
    n_decided: IntArray
    coverage: FloatArray

    def _tables(self) -> Sequence[Table]:
        columns = ("target", "threshold", "certified on", "accuracy at least", "decided", "share")
        rows = [
            [number(t, 3), number(c, 4), count(m), number(b, 4), count(d), number(s, 4)]
            for t, c, m, b, d, s in zip(
                self.target,
                self.threshold,
                self.n_certified,
                self.accuracy_bound,
                self.n_decided,
                self.coverage,
                strict=True,
            )
        ]
        title = (
            f"{self.n_nodes:,} nodes to decide, {self.n_calibration:,} calibration nodes, "
            f"confidence level {100 * self.confidence_level:g} %"
        )
        return [Table(title, columns, rows)]


def selective_curve(
    probs: Any,
    labels: Any,
    targets: Any = DEFAULT_TARGETS,
    *,
    nodes: Any = None,
    decision_nodes: Any = None,
    confidence_level: float = 0.9,
) -> SelectiveCurve:
    """Find the certified threshold and the share of nodes it decides for each target accuracy.

    Parameters
    ----------
    probs : array_like of shape (n_nodes, n_classes)
        Probabilities; rows sum to one.
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown. Labels outside ``nodes`` are never looked at.
    targets : array_like of shape (n_targets,), optional
        Accuracies between 0 and 1. Default: 0.5 to 0.995 and 0.999.
    nodes : array_like, optional
        Calibration nodes, mask or indices. Default: every node whose label is not -1.
    decision_nodes : array_like, optional
        Nodes that the coverage is a share of, mask or indices. Default: all nodes that are no
        calibration nodes, or all nodes if there is no other. If all calibration nodes have the
        same predicted class, the thresholds say nothing about other classes, and only nodes of
        that predicted class are counted.
    confidence_level : float, default=0.9
        Probability with which the guarantee of each target holds.

    Returns
    -------
    SelectiveCurve
        Threshold and coverage for each target.

    Raises
    ------
    InputError
        If an array or a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import selective_curve
    >>> generator = np.random.default_rng(0)
    >>> p = generator.uniform(0.5, 1.0, size=1000)
    >>> probs = np.column_stack([p, 1 - p])
    >>> labels = (generator.uniform(size=1000) > p).astype(int)
    >>> curve = selective_curve(probs, labels, [0.8, 0.9, 0.99], nodes=np.arange(500))
    >>> curve.coverage.round(2)
    array([0.7 , 0.19, 0.  ])

    """
    SHARE.check("confidence_level", confidence_level)
    wanted = _check_targets(targets)
    checked, chosen, used = check_calibration(probs, labels, nodes)
    others = _decision_nodes(decision_nodes, checked.argmax(axis=1), chosen)
    return curve_of(checked, chosen, used, others, wanted, confidence_level)


def curve_of(
    probs: FloatArray,
    nodes: IntArray,
    labels: IntArray,
    decision_nodes: IntArray,
    targets: FloatArray,
    confidence_level: float,
) -> SelectiveCurve:
    """:func:`selective_curve` of checked arrays; ``labels`` (n,) are those of ``nodes`` (n,)."""
    ranked = rank_nodes(probs, nodes, labels)
    certificates = [certify(ranked, target, confidence_level) for target in targets.tolist()]
    confidence = confidences(probs)[decision_nodes]
    return _curve(targets, certificates, confidence, nodes.size, confidence_level)


def _curve(
    targets: FloatArray,
    certificates: list[Certificate],
    confidence: FloatArray,
    n_calibration: int,
    confidence_level: float,
) -> SelectiveCurve:
    """Count who is decided; ``confidence`` (n,) is that of the nodes to decide."""
    threshold = np.array([certificate.threshold for certificate in certificates])
    certified = np.array([certificate.n_decided for certificate in certificates])
    correct = np.array([certificate.n_correct for certificate in certificates])
    n_decided = sums_above(threshold, confidence)
    return SelectiveCurve(
        confidence_level=float(confidence_level),
        n_calibration=n_calibration,
        n_nodes=confidence.size,
        target=targets,
        threshold=threshold,
        n_certified=certified,
        accuracy_bound=accuracy_bounds(certified, correct, confidence_level),
        n_decided=n_decided,
        coverage=n_decided / confidence.size,
    )


def _check_targets(targets: Any) -> FloatArray:
    wanted = np.atleast_1d(as_numpy(targets))
    if wanted.ndim != 1 or wanted.size == 0 or wanted.dtype.kind not in "fiu":
        raise InputError(f"targets has shape {wanted.shape}; expected a list of accuracies.")
    for target in wanted.tolist():
        SHARE.check("targets", target)
    return wanted.astype(np.float64)


def _decision_nodes(given: Any, predictions: IntArray, calibration: IntArray) -> IntArray:
    """Return the nodes to decide; ``predictions`` (n_nodes,) are the predicted classes."""
    n_nodes = len(predictions)
    if given is None:
        first = predictions[calibration[0]]
        is_one_class = (predictions[calibration] == first).all()
        pool = predictions == first if is_one_class else np.ones(n_nodes, dtype=np.bool_)
        others = pool.copy()
        others[calibration] = False
        return np.flatnonzero(others if others.any() else pool)
    nodes = check_nodes(given, n_nodes, name="decision_nodes")
    if nodes.size == 0:
        raise InputError("decision_nodes is empty; pass the nodes that are to be decided.")
    return nodes
