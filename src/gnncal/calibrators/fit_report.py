"""The report of a fit, and what its labels do not determine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gnncal.data.constraints import LearnedTable
from gnncal.data.errors import warn
from gnncal.data.nodes import Nodes
from gnncal.data.tables import Table, Tabular, text_cell, value_cell
from gnncal.math.losses import TemperatureLoss

Texts = tuple[str, ...]
SHOWN = 10  # classes that a message lists


@dataclass(frozen=True, repr=False)
class FitReport(Tabular):
    """Report of a fit, for logs and model cards.

    It prints as a table; ``to_frame()`` gives a pandas frame.

    Attributes
    ----------
    loss_before, loss_after : float
        Mean log loss of the calibration nodes before and after calibration.
    bounds_hit : tuple of str
        Parameters that ended at a bound of their range.
    nodes_per_class : tuple of int
        Number of calibration nodes of each class.
    notes : tuple of str
        Explanations of the parameters at a bound, and why ``auto`` chose this method.
    undetermined : tuple of str
        Why the labels do not determine the fit; ``fit`` warns of it.

    Examples
    --------
    >>> import gnncal
    >>> task, scaling = gnncal.example(), gnncal.calibrators.TemperatureScaling()
    >>> report = scaling.fit(
    ...     task.logits, task.labels, calibration_nodes=task.calibration_nodes
    ... ).fit_report_
    >>> round(report.loss_before, 2), round(report.loss_after, 2)
    (0.3, 0.12)

    """

    loss_before: float
    loss_after: float
    bounds_hit: Texts
    nodes_per_class: tuple[int, ...]
    notes: Texts = ()
    undetermined: Texts = ()

    @classmethod
    def of(cls, nodes: Nodes, loss_after: float, bounds_hit: Texts = (), **reasons: Texts) -> Self:
        """Make the report of a fit that ended with this mean cross-entropy.

        Parameters
        ----------
        loss_after, bounds_hit : float and tuple of str
            The attributes of these names.
        **reasons : tuple of str
            ``notes`` and ``undetermined``.

        """
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels, nodes.weights)
        before = loss.value(np.ones(nodes.labels.size))
        counts = np.bincount(nodes.labels, minlength=nodes.n_classes)
        return cls(before, float(loss_after), bounds_hit, tuple(counts.tolist()), **reasons)

    def _tables(self) -> Sequence[Table]:
        names = {
            "loss_before": "mean log loss before",
            "loss_after": "mean log loss after",
            "nodes_per_class": "nodes of each class",
            "bounds_hit": "parameters at a bound",
            "notes": "notes",
            "undetermined": "not determined because",
        }
        values = {name: getattr(self, name) for name in names}
        rows = [[text_cell(n, names[n]), value_cell(v)] for n, v in values.items() if v != ()]
        title = f"fit on {sum(self.nodes_per_class):,} calibration nodes"
        return [Table(title, ("quantity", "value"), rows)]


@dataclass(frozen=True)
class Update:
    """One update of a calibrator."""

    date: str
    n_labels: int
    tau: float | None
    moved: float | None
    rates: tuple[float, ...]

    def __str__(self) -> str:
        tau = "" if self.tau is None else f"; tau {self.tau:.2f}"
        moved = "" if self.moved is None else f"; moved {self.moved:.1%}"
        rates = ", ".join(f"{rate:.1%}" for rate in self.rates)
        return f"{self.date}: {self.n_labels:,} labels{tau}{moved}; rates {rates}"


def learned_values(calibrator: Any, longest: int = 0) -> dict[str, Any]:
    """Numbers, texts and short vectors that were learned, without the underscore of their names."""
    values = {name.rstrip("_"): getattr(calibrator, name, None) for name in calibrator.learned}
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in values.items()
        if isinstance(value, bool | int | float | str | np.generic)
        or (isinstance(value, np.ndarray) and value.ndim == 1 and value.size <= longest)
    }


def learned_table(calibrator: Any) -> LearnedTable:
    """``learned`` of a fitted calibrator; entries that are functions of the fit are called."""
    table = calibrator.learned.items()
    return {name: entry(calibrator) if callable(entry) else entry for name, entry in table}


def underdetermined_reasons(nodes: Nodes, own: Texts = ()) -> Texts:
    """Why the labels do not determine any fit; else a method's own reasons, and one class."""
    logits, labels = nodes.calibration_logits, nodes.labels
    highest = logits.max(axis=1)
    if len(logits) == 1:
        return ("there is only one calibration node",)
    if (logits.min(axis=1) == highest).all():
        return ("the logits of each calibration node are equal for all classes",)
    if (logits[np.arange(len(logits)), labels] == highest).all():
        return (
            f"all {len(logits)} calibration nodes are predicted correctly, so they set no limit to "
            "the confidence, which can be far too high on other nodes",
        )
    if (labels == labels[0]).all():
        own += (
            f"all {len(labels)} calibration nodes have class {labels[0]}, so they say nothing "
            "about nodes of another class",
        )
    return own


def warn_of_weak_evidence(method: str, report: FitReport, *, zeroes_unseen: bool) -> None:
    """Warn of a fit that the labels do not determine, or that takes all from unseen classes."""
    if report.undetermined:
        warn(
            f"{method} is not determined by the calibration labels: "
            f"{'; '.join(report.undetermined)}. Do not rely on its confidence on other nodes. "
            "Calibrate on more nodes, with mistakes among them, or keep the model's own "
            "probabilities ('uncalibrated')."
        )
    unseen = [c for c, count in enumerate(report.nodes_per_class) if count == 0]
    if not (zeroes_unseen and unseen):
        return
    listed = f"class {unseen[0]}"
    if len(unseen) > 1:
        more = f" and {len(unseen) - SHOWN} more" if len(unseen) > SHOWN else ""
        listed = f"classes {', '.join(map(str, unseen[:SHOWN]))}{more}"
    warn(
        f"no calibration node has {listed}, so {method} pushes the probability of "
        f"{'it' if len(unseen) == 1 else 'them'} towards zero on every node. Add calibration "
        "nodes of each class, or use a method that treats all classes alike, such as 'ts'."
    )
