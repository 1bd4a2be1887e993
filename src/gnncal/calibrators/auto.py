"""A choice among calibrators by cross-validated log loss on the calibration nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gnncal.calibrators.base import Calibrator, folds_of, trial_fit
from gnncal.calibrators.explanation import Parts
from gnncal.calibrators.registry import get_calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import Constraint, integer
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.data.probability import log_losses
from gnncal.math.formulas import Formula

PRESERVING = ("ts", "hts", "structural-temperature", "structural")
ALL_CANDIDATES = (*PRESERVING, "structural-free")


class Auto(Calibrator):
    """The simplest method whose cross-validated log loss is close to the lowest.

    The chosen method is the first candidate whose mean log loss is at most one standard error above
    the lowest. The standard error is that of the paired difference over nodes. The chosen method is
    then fitted on all calibration nodes. The result of ``gnncal.calibrate`` contains the chosen
    calibrator, and so does a saved file.

    Parameters
    ----------
    candidates : sequence of str, default=("ts", "hts", "structural-temperature", "structural")
        Names of methods, the simplest first. The last two of the default need a graph.
    n_folds : int, default=5
        Number of folds. Nodes of similar entropy are spread over the folds.

    Attributes
    ----------
    chosen_, reason_, losses_ : str, str and ndarray of shape (n_candidates,)
        Name of the chosen candidate, why it was chosen, and each candidate's log loss.
    calibrator_ : Calibrator
        The chosen calibrator, fitted.

    Notes
    -----
    Use it where you do not know which method suits your graph. Every candidate is fitted once for
    each fold.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> calibrator = gnncal.calibrators.Auto(candidates=["ts", "hts"])
    >>> calibrator = calibrator.fit(
    ...     task.logits, task.labels, calibration_nodes=task.calibration_nodes
    ... )
    >>> calibrator.chosen_, calibrator.losses_.round(2)
    ('ts', array([0.12, 0.12]))

    """

    constraints: ClassVar = {
        "candidates": Constraint(
            "a list of calibrators' names, the simplest first",
            lambda value: (
                isinstance(value, list | tuple)
                and len(value) > 0
                and all(isinstance(name, str) for name in value)
            ),
        ),
        "n_folds": integer(at_least=2),
    }
    chosen_: str
    reason_: str
    losses_: FloatArray
    calibrator_: Calibrator

    def __init__(self, *, candidates: Sequence[str] = PRESERVING, n_folds: int = 5) -> None:
        self.candidates = candidates
        self.n_folds = n_folds

    @property
    def preserves_predictions(self) -> bool:
        """Whether every candidate keeps the predicted class of every node."""
        return all(self._make(name).preserves_predictions for name in self.candidates)

    @property
    def needs_graph(self) -> bool:
        """Whether a candidate needs a graph."""
        return any(self._make(name).needs_graph for name in self.candidates)

    def _fit(self, nodes: Nodes) -> None:
        made = {name: self._make(name) for name in self.candidates}
        folds = folds_of(nodes, self.n_folds)
        losses = np.array([_held_out_losses(each, nodes, folds) for each in made.values()])
        self.losses_ = losses.mean(axis=1)
        self.chosen_, self.reason_ = _choose(list(made), losses)
        self.calibrator_ = made[self.chosen_]
        self.calibrator_._fit(nodes)

    def _finish_fit(self, nodes: Nodes) -> None:
        chosen = self.calibrator_
        chosen._finish_fit(nodes)
        chosen._fitted_to_probabilities = nodes.are_probabilities
        report = chosen.fit_report_
        chosen.fit_report_ = replace(report, notes=(self.reason_, *report.notes))
        learned = {name: value for name, value in vars(chosen).items() if name.endswith("_")}
        vars(self).update(learned)

    def _predict(self, nodes: Nodes) -> FloatArray:
        return self.calibrator_.predict_proba(nodes)

    def _explain(self, nodes: Nodes, row: int) -> Parts:
        return self.calibrator_._explain(nodes, row)

    def _as_formula(self) -> Formula:
        return self.calibrator_.as_formula()

    def update(self, *arguments: Any, **named: Any) -> Any:
        """Return the chosen calibrator after an update; see :meth:`Calibrator.update`."""
        return self.calibrator_.update(*arguments, **named)

    def _make(self, name: str) -> Calibrator:
        calibrator = get_calibrator(name)
        if isinstance(calibrator, Auto):
            raise InputError("candidates contains 'auto' itself; name the methods to choose from.")
        return calibrator


def chosen_of(calibrator: Calibrator) -> Calibrator:
    """Return what Auto has chosen; any other calibrator as it is."""
    return calibrator.calibrator_ if isinstance(calibrator, Auto) else calibrator


def _held_out_losses(calibrator: Calibrator, nodes: Nodes, folds: IntArray) -> FloatArray:
    """Return the log loss of each calibration node, by a fit that has not seen its label; (n,)."""
    losses, unlabelled = np.zeros(nodes.calibration_nodes.size), nodes.unlabelled
    for fold in np.unique(folds) if nodes.calibration_nodes.size > 1 else ():
        held_out = folds == fold
        fitted = trial_fit(calibrator, nodes.subset(~held_out))
        probs = fitted.predict_proba(unlabelled)[nodes.calibration_nodes[held_out]]
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
