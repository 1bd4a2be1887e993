"""A choice among calibrators by cross-validated log loss on the calibration nodes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import (
    TEXT,
    Array,
    Constraint,
    LearnedTable,
    check_learned,
    sizes_of,
    whole_number,
)
from gnncal.data.errors import GnncalWarning, InputError
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import Nodes
from gnncal.data.predictions import log_losses
from gnncal.data.probability import normalised_entropy
from gnncal.math.formulas import Portable
from gnncal.math.posterior import Part

KEEPING = ("ts", "hts", "structural-temperature", "structural")
OF_BOTH_KINDS = (*KEEPING, "structural-free")
DIGITS = 9  # of an entropy: nodes that differ by rounding are dealt out alike


class Auto(Calibrator):
    """Choose the simplest calibrator whose cross-validated log loss is about the lowest.

    Calibration nodes are dealt out to folds in the order of their entropy, so nothing is random.
    Each candidate is fitted without a fold and judged on it. The first candidate whose mean loss
    lies within one standard error of the lowest (paired, over nodes) is fitted on all
    calibration nodes.

    Parameters
    ----------
    candidates : sequence of str, default=("ts", "hts", "structural-temperature", "structural")
        Names of calibrators, the simplest first. The default ones keep predictions and need a
        graph; with others, predictions may change, or no graph is needed.
    n_folds : int, default=5
        Number of folds; no more than there are calibration nodes.

    Attributes
    ----------
    chosen_ : str
        Name of the chosen candidate.
    reason_ : str
        Why it was chosen, in one sentence.
    losses_ : ndarray of shape (n_candidates,)
        Cross-validated mean log loss of each candidate.
    chosen_state_ : dict
        What the chosen calibrator has learned.
    fit_report_ : FitReport
        Report of the chosen calibrator on all calibration nodes.

    Notes
    -----
    Use it where you do not know which method suits your graph and can pay for a fit of each
    candidate on each fold.

    The default candidates keep predictions. A fit takes as many fits as there are folds times
    candidates.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> calibrator = gnncal.calibrators.Auto(candidates=["ts", "hts"])
    >>> calibrator = calibrator.fit(task.logits, task.labels, nodes=task.nodes)
    >>> calibrator.chosen_, calibrator.losses_.round(2)
    ('ts', array([0.12, 0.12]))

    """

    fitting = "choice"
    constraints: ClassVar = {
        "candidates": Constraint(
            "a list of calibrators' names, the simplest first",
            lambda value: (
                isinstance(value, list | tuple)
                and len(value) > 0
                and all(isinstance(name, str) for name in value)
            ),
        ),
        "n_folds": whole_number(at_least=2),
    }
    learned: ClassVar = {
        "chosen_": TEXT,
        "reason_": TEXT,
        "losses_": Array("candidates", low=0),
        "chosen_state_": Constraint("a dict", lambda value: isinstance(value, dict)),
    }
    chosen_: str
    reason_: str
    losses_: FloatArray
    chosen_state_: dict[str, Any]

    def __init__(self, *, candidates: Sequence[str] = KEEPING, n_folds: int = 5) -> None:
        self.candidates = candidates
        self.n_folds = n_folds

    @property
    def preserves_predictions(self) -> bool:  # type: ignore[override]
        """Whether every candidate keeps the predicted class of every node."""
        return all(self._make(name).preserves_predictions for name in self.candidates)

    @property
    def needs_graph(self) -> bool:  # type: ignore[override]
        """Whether a candidate needs a graph."""
        return any(self._make(name).needs_graph for name in self.candidates)

    def _fit(self, nodes: Nodes) -> None:
        made = {name: self._make(name) for name in self.candidates}
        folds = folds_of(nodes, self.n_folds)
        losses = np.array([_held_out_losses(each, nodes, folds) for each in made.values()])
        self.losses_ = losses.mean(axis=1)
        self.chosen_, self.reason_ = _choose(list(made), losses)
        calibrator = made[self.chosen_]
        calibrator._fit(nodes)
        self._keep(calibrator)
        self.fit_report_ = calibrator.fit_report_

    def _keep(self, calibrator: Calibrator) -> None:
        """Remember what the chosen calibrator has learned."""
        self.chosen_state_ = {name: getattr(calibrator, name) for name in calibrator.learned}
        self.posterior_ = calibrator.posterior_

    def _updatable_parts(self, nodes: Nodes) -> list[Part]:
        return self.chosen()._updatable_parts(nodes)

    def _set_updatable_part(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        calibrator = self.chosen()
        calibrator._set_updatable_part(name, theta, covariance)
        self._keep(calibrator)

    def _finish_update(self, nodes: Nodes) -> None:
        calibrator = self.chosen()
        calibrator._finish_update(nodes)
        self._keep(calibrator)

    def _add_to_scores(self, shifts: FloatArray) -> None:
        calibrator = self.chosen()
        calibrator._add_to_scores(shifts)
        self._keep(calibrator)

    def _predict(self, nodes: Nodes) -> FloatArray:
        return self._restored()._predict(nodes)

    def _portable(self) -> Portable:
        return self.chosen()._portable()

    def chosen(self) -> Calibrator:
        """Return the chosen calibrator, fitted.

        Returns
        -------
        Calibrator
            A calibrator of the chosen class, with what was learned.

        """
        check_is_fitted(self, "classes_")
        calibrator = self._restored()
        calibrator.classes_, calibrator.fit_report_ = self.classes_, self.fit_report_
        return calibrator

    def _learned_table(self) -> LearnedTable:
        TEXT.check("chosen_", self.chosen_)
        self.learned["chosen_state_"].check("chosen_state_", self.chosen_state_)
        chosen = self._restored()
        chosen.classes_ = self.classes_
        sizes = sizes_of(chosen.get_params(deep=False), len(self.classes_))
        check_learned(chosen._learned_table(), self.chosen_state_, sizes, where="chosen_state_")
        return {**self.learned, "losses_": Array(str(len(self.candidates)), low=0)}

    def _restored(self) -> Calibrator:
        """Return the chosen calibrator, from what is saved."""
        calibrator = self._make(self.chosen_)
        for name, value in self.chosen_state_.items():
            setattr(calibrator, name, value)
        calibrator.posterior_ = self.posterior_
        return calibrator

    def _make(self, name: str) -> Calibrator:
        from gnncal.calibrators.registry import get_calibrator  # which lists this class too

        calibrator = get_calibrator(name)
        if isinstance(calibrator, Auto):
            raise InputError("candidates contains 'auto' itself; name the methods to choose from.")
        return calibrator


def folds_of(nodes: Nodes, n_folds: int) -> IntArray:
    """Return the fold of each calibration node; every fold has certain and uncertain ones."""
    entropy = np.round(normalised_entropy(nodes.calibration_logits), DIGITS)
    folds = np.empty(nodes.calibration_nodes.size, dtype=np.int64)
    folds[np.argsort(entropy, kind="stable")] = np.arange(nodes.calibration_nodes.size) % n_folds
    return folds


def _held_out_losses(calibrator: Calibrator, nodes: Nodes, folds: IntArray) -> FloatArray:
    """Return the log loss of each calibration node, by a fit that has not seen its label; (n,)."""
    losses, unlabelled = np.zeros(nodes.calibration_nodes.size), nodes.with_known_labels()
    for fold in np.unique(folds) if nodes.calibration_nodes.size > 1 else ():
        held_out = folds == fold
        with warnings.catch_warnings():  # what matters here shows in the loss
            warnings.simplefilter("ignore", GnncalWarning)
            calibrator._fit(nodes.subset(~held_out))
        probs = calibrator._predict(unlabelled)[nodes.calibration_nodes[held_out]]
        losses[held_out] = log_losses(probs, nodes.labels[held_out])
    return losses


def _choose(names: list[str], losses: FloatArray) -> tuple[str, str]:
    """Return the first candidate that is about as good as the best, and the reason in words."""
    means = losses.mean(axis=1)
    best = int(means.argmin())
    if losses.shape[1] == 1:
        return names[0], f"{names[0]}: one calibration node cannot tell candidates apart."
    more = losses - losses[best]  # (n_candidates, n)
    error = more.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    first = int(np.flatnonzero(more.mean(axis=1) <= error)[0])
    if first == best:
        reason = f"has the lowest cross-validated log loss ({means[best]:.4f}); no simpler one"
        return names[best], f"{names[best]} {reason} is within one standard error."
    return names[first], (
        f"{names[first]} is the simplest candidate within one standard error of the lowest "
        f"cross-validated log loss: {means[first]:.4f} against {means[best]:.4f} "
        f"({names[best]}), standard error of the difference {error[first]:.4f}."
    )
