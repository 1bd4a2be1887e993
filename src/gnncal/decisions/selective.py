"""Selective classification: decide automatically where the model is certified to be right."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.constraints import Constraint, number, whole_number
from gnncal.core.errors import InputError, shown, warn
from gnncal.core.estimator import check_is_fitted
from gnncal.core.learned import LearnedTable
from gnncal.core.tabular import Table, Tabular, quantities
from gnncal.decisions.calibration_nodes import ROW_FACTS, CalibrationNodes
from gnncal.decisions.certificate import (
    Certificate,
    accuracy_bounds,
    best_target,
    certify,
    fewest_nodes,
    is_certified,
)
from gnncal.decisions.outcomes import INFINITE, RankedNodes, check_calibration, confidences
from gnncal.decisions.persistence import Saved
from gnncal.metrics.proportions import clopper_pearson

SHARE = number(above=0, below=1)
INTERVAL_LEVEL = 0.95  # of the interval of the coverage


@dataclass(frozen=True, repr=False)
class SelectiveReport(Tabular):
    """What was certified on the calibration nodes, in numbers and in one sentence.

    It prints as a table.

    Attributes
    ----------
    target_accuracy : float
        The accuracy that was asked for.
    confidence_level : float
        Probability with which the guarantee holds.
    threshold : float
        Lowest confidence, or score, of a decided node; infinite if none is certified.
    n_calibration : int
        Number of calibration nodes.
    n_decided : int
        Number of calibration nodes that reach the threshold.
    n_correct : int
        Number of them that are predicted correctly.
    coverage : float
        Share of the nodes that are decided.
    coverage_low, coverage_high : float
        Ends of its 95 % interval.
    accuracy : float
        Accuracy of the decided calibration nodes; NaN without any.
    accuracy_bound : float
        Lower Clopper-Pearson limit of it at the confidence level, or NaN.
    best_target : float
        The target itself if it is certified. Otherwise the highest target, in steps of 0.001,
        that these labels certify; 0 if there is none. It is chosen by the labels, so if it is
        certified on the same labels it is missed more often than the level says.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import SelectiveClassifier
    >>> generator = np.random.default_rng(0)
    >>> p = generator.uniform(0.5, 1.0, size=1000)
    >>> labels = (generator.uniform(size=1000) > p).astype(int)
    >>> probs = np.column_stack([p, 1 - p])
    >>> report = SelectiveClassifier(target_accuracy=0.9).fit(probs, labels).report_
    >>> report.n_decided, round(report.accuracy, 2), round(report.accuracy_bound, 2)
    (233, 0.93, 0.9)

    """

    target_accuracy: float
    confidence_level: float
    threshold: float
    n_calibration: int
    n_decided: int
    n_correct: int
    coverage: float
    coverage_low: float
    coverage_high: float
    accuracy: float
    accuracy_bound: float
    best_target: float

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        target, level = f"{100 * self.target_accuracy:g} %", f"{100 * self.confidence_level:g} %"
        if self.n_decided == 0:
            fewest = fewest_nodes(self.target_accuracy, self.confidence_level)
            return (
                f"No node can be decided automatically at {target} accuracy: no threshold is "
                f"certified with {self.n_calibration:,} calibration nodes. It takes at least "
                f"{fewest:,} of them above the threshold, all predicted correctly, and more if "
                f"some are wrong. {self._advice}"
            )
        return (
            f"Nodes with a confidence of at least {self.threshold:.4f} can be decided "
            f"automatically, about {100 * self.coverage:.1f} % of them. With probability at least "
            f"{level} over the draw of the calibration nodes, at least {target} of such decisions "
            "are right."
        )

    @property
    def _advice(self) -> str:
        if self.best_target == 0:
            return "No lower target is certified either. Label more nodes."
        return (
            f"Lower the target to {100 * self.best_target:g} %, the highest that these labels "
            "certify, or label more nodes."
        )

    def _tables(self) -> Sequence[Table]:
        interval = f"of its {100 * INTERVAL_LEVEL:g} % interval"
        names = {
            "threshold": "confidence threshold",
            "n_calibration": "calibration nodes",
            "n_decided": "  decided automatically",
            "n_correct": "  and predicted correctly",
            "coverage": "share of nodes decided",
            "coverage_low": f"  lower end {interval}",
            "coverage_high": f"  upper end {interval}",
            "accuracy": "accuracy among the decided",
            "accuracy_bound": f"  lower limit at {100 * self.confidence_level:g} %",
        }
        if self.n_decided == 0:
            names["best_target"] = "highest target that is certified"
        return [quantities(self, self.sentence, names, {"best_target": 3})]


class SelectiveClassifier(Saved):
    """Decides which nodes may be decided automatically, with a certified accuracy.

    ``fit`` finds the lowest confidence threshold that is certified on calibration nodes, and
    ``decide`` says which nodes reach it. The guarantee: with probability at least
    ``confidence_level`` over the draw of the calibration nodes, at least ``target_accuracy`` of
    the decisions on nodes from the same pool are right. It holds for any model, however badly
    calibrated, and for any number of calibration nodes. With better calibrated
    probabilities more nodes are decided.

    It needs calibration nodes drawn at random from the same pool as the nodes that are decided,
    and probabilities that do not depend on which nodes were drawn. On graphs the guarantee breaks

    * when the same nodes have been used to fit the calibrator or to choose the model: hold some
      of them out for the threshold (:func:`gnncal.decisions.hold_out`),
    * when nodes join the graph later (:meth:`refresh` repairs this), or the graph and its classes
      drift with time,
    * when labels are known for a special kind of nodes only, such as old or well-connected ones.

    The guarantee is for all decided nodes together, not for each class, each region of the
    graph or each node. Fitted on the calibration nodes of one predicted class (``nodes=``), it is
    for nodes of that predicted class: pass only those to ``decide``. It is about the chance of a
    right decision: among few decided nodes the share of right ones still varies by luck.

    Parameters
    ----------
    target_accuracy : float, default=0.95
        Share of the automatic decisions that must be right, between 0 and 1.
    confidence_level : float, default=0.9
        Probability with which the guarantee holds, between 0 and 1.

    Attributes
    ----------
    threshold_ : float
        Nodes whose confidence is at least this are decided. Infinite if nothing is certified.
    coverage_ : float
        Share of the calibration nodes that are decided.
    accuracy_bound_ : float
        Lower Clopper-Pearson limit, at ``confidence_level``, of the accuracy at this threshold
        by itself; NaN without a threshold. What is guaranteed is ``target_accuracy``.
    n_decided_ : int
        Number of calibration nodes that are decided.
    report_ : SelectiveReport
        All of this with an interval of the coverage, and one sentence that says it.

    References
    ----------
    Angelopoulos et al., "Learn then Test: calibrating predictive algorithms to achieve risk
    control" (2021). ``gnncal/decisions/certificate.py`` has the test and why it is valid.

    Examples
    --------
    One half of the labelled nodes fits the calibrator, the other half the threshold:

    >>> import gnncal
    >>> from gnncal.decisions import SelectiveClassifier, hold_out
    >>> task = gnncal.example()
    >>> fit_nodes, held_out = hold_out(task.nodes, labels=task.labels)
    >>> result = gnncal.calibrate(task.logits, task.labels, task.graph, nodes=fit_nodes)
    >>> selective = SelectiveClassifier(target_accuracy=0.98)
    >>> selective = selective.fit(result.probabilities, task.labels, nodes=held_out)
    >>> round(selective.threshold_, 2), round(selective.coverage_, 2)
    (0.97, 0.78)
    >>> is_decided = selective.decide(result.probabilities)  # True or False for every node

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "target_accuracy": SHARE,
        "confidence_level": SHARE,
    }

    saved_facts: ClassVar[LearnedTable] = {
        "threshold": number(at_least=0, at_most=1.01) | INFINITE,  # rows sum to one, or nearly
        "n_calibration": whole_number(at_least=1),
        "n_decided": whole_number(at_least=0),
        "n_correct": whole_number(at_least=0),
        "best_target": number(at_least=0, below=1),
        **ROW_FACTS,
    }

    threshold_: float
    coverage_: float
    accuracy_bound_: float
    n_decided_: int
    report_: SelectiveReport
    _calibration: CalibrationNodes

    def __init__(self, target_accuracy: float = 0.95, *, confidence_level: float = 0.9) -> None:
        self.target_accuracy = target_accuracy
        self.confidence_level = confidence_level

    def fit(
        self,
        probs: Any,
        labels: Any,
        *,
        nodes: Any = None,
        ids: Any = None,
    ) -> Self:
        """Find the lowest certified threshold.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1, -1 where unknown. Labels outside ``nodes`` are never looked at.
        nodes : array_like, optional
            Calibration nodes, mask or indices. Default: every node whose label is not -1.
        ids : array_like of shape (n_nodes,), optional
            Your own name of each node, whole numbers or texts, for :meth:`refresh`. Default: the
            rows are the nodes 0..N-1.

        Returns
        -------
        SelectiveClassifier
            The classifier itself, fitted.

        Raises
        ------
        InputError
            If an array or a parameter cannot be used.

        """
        self.check_params()
        checked, chosen, used = check_calibration(probs, labels, nodes)
        calibration = CalibrationNodes.of(chosen, used, len(checked), ids)
        self.n_classes_ = checked.shape[1]
        self._take_threshold(checked, chosen, calibration)
        return self

    def refresh(self, probs: Any, graph: Any = None, *, ids: Any = None) -> Self:
        """Take the threshold again from the same calibration nodes on the graph of today.

        When nodes join, the probabilities of the calibration nodes change with their neighbours.
        The guarantee holds again for all nodes of today, if it is a matter of chance which of them
        became calibration nodes (NodeEx).

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities of all nodes of today, made like those of ``fit``. Without ids the rows
            of ``fit`` come first, in their order, and new nodes after them.
        graph : Graph, optional
            Not used; every classifier for decisions has it.
        ids : array_like of shape (n_nodes,), optional
            The name of each node, made like those of ``fit``. With ids, rows may come in any
            order, and nodes may have left.

        Returns
        -------
        SelectiveClassifier
            Another classifier with the threshold of today; this one stays as it is.

        Raises
        ------
        InputError
            If the calibration nodes cannot be found.

        References
        ----------
        Zargarbashi, Bojchevski, "Conformal inductive graph neural networks" (ICLR 2024).

        """
        check_is_fitted(self, "threshold_")
        checked = self._checked_probs(probs)
        rows, calibration = self._calibration.today(len(checked), ids)
        refreshed = copy(self)
        refreshed._take_threshold(checked, rows, calibration)
        return refreshed

    def _take_threshold(
        self, probs: FloatArray, rows: IntArray, calibration: CalibrationNodes
    ) -> None:
        """Find the threshold on the calibration nodes, which are these rows."""
        chosen = probs[rows]
        is_right = chosen.argmax(axis=1) == calibration.labels
        ranked = RankedNodes.of(confidences(chosen), is_right)
        certificate = certify(ranked, self.target_accuracy, self.confidence_level)
        best = self.target_accuracy
        if certificate.n_decided == 0:
            best = best_target(ranked, self.target_accuracy, self.confidence_level)
        self._calibration = calibration
        self._conclude(certificate, rows.size, float(best))
        if certificate.n_decided == 0:
            warn(self.report_.sentence)

    def decide(self, probs: Any) -> BoolArray:
        """Say which nodes may be decided automatically.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities, made as those of ``fit``.

        Returns
        -------
        ndarray of bool of shape (n_nodes,)
            True: take the predicted class. False: leave the node to a person.

        Raises
        ------
        InputError
            If the probabilities have another number of classes than in ``fit``.

        """
        check_is_fitted(self, "threshold_")
        return confidences(self._checked_probs(probs)) >= self.threshold_

    def _conclude(self, certificate: Certificate, n_calibration: int, best: float) -> None:
        """Set what a fit leaves."""
        self.threshold_ = certificate.threshold
        self.n_decided_ = certificate.n_decided
        self.report_ = self._report(certificate, n_calibration, best)
        self.coverage_ = self.report_.coverage
        self.accuracy_bound_ = self.report_.accuracy_bound

    def _report(self, certificate: Certificate, n_calibration: int, best: float) -> SelectiveReport:
        n_decided, n_correct = certificate.n_decided, certificate.n_correct
        low, high = clopper_pearson(n_decided, n_calibration, level=INTERVAL_LEVEL)
        bound = accuracy_bounds(np.array(n_decided), np.array(n_correct), self.confidence_level)
        return SelectiveReport(
            target_accuracy=float(self.target_accuracy),
            confidence_level=float(self.confidence_level),
            threshold=certificate.threshold,
            n_calibration=n_calibration,
            n_decided=n_decided,
            n_correct=n_correct,
            coverage=n_decided / n_calibration,
            coverage_low=float(low),
            coverage_high=float(high),
            accuracy=n_correct / n_decided if n_decided else float("nan"),
            accuracy_bound=float(bound),
            best_target=best,
        )

    def _facts(self) -> dict[str, Any]:
        of_report = [name for name in self.saved_facts if name not in ROW_FACTS]
        return {
            **{name: getattr(self.report_, name) for name in of_report},
            **self._calibration.facts(),
            "n_rows": self._calibration.n_rows,
            "has_ids": self._calibration.has_ids,
        }

    def _restore(self, facts: dict[str, Any]) -> None:
        certificate = Certificate(float(facts["threshold"]), facts["n_decided"], facts["n_correct"])
        n, best = facts["n_calibration"], float(facts["best_target"])
        if not certificate.n_correct <= certificate.n_decided <= n:
            raise InputError(
                f"{certificate.n_correct} right decisions of {certificate.n_decided} on {n} nodes "
                "cannot be."
            )
        certified = certificate.n_decided > 0 and is_certified(
            certificate, self.target_accuracy, self.confidence_level
        )
        if certified != np.isfinite(certificate.threshold) or certified != (
            certificate.n_decided > 0
        ):
            raise InputError(
                f"threshold is {shown(certificate.threshold)}, which {certificate.n_correct} right "
                f"decisions of {certificate.n_decided} do not certify."
            )
        if best > self.target_accuracy or certified != (best == self.target_accuracy):
            raise InputError(f"best_target is {best:g}, which does not fit the target.")
        if facts["n_rows"] < n:
            raise InputError(f"{n} of {facts['n_rows']} nodes cannot be those of the calibration.")
        self._calibration = CalibrationNodes.restored(facts, n, facts["n_rows"], facts["has_ids"])
        self._conclude(certificate, n, best)
