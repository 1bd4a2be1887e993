"""How a fitted calibrator comes to the probabilities of one node, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.tables import Cell, Table, Tabular, number_cell, text_cell

RAW = "raw"  # the first step: softmax of the logits
MOST_CLASSES = 10  # that a table shows, the most probable ones


@dataclass(frozen=True, repr=False)
class Explanation(Tabular):
    """The steps by which a fitted calibrator computes the probabilities of one node, as a table.

    Attributes
    ----------
    node : int
        The row of the logits.
    steps : dict of str to ndarray of shape (n_classes,)
        Probabilities after each part of the method. The first are the model's, the last those of
        ``predict_proba``.
    terms : dict of str to ndarray of shape (n_classes,)
        What each part adds to the score of each class, in nats; empty for methods without scores.
    temperature : float or None
        The temperature of the node.
    class_names : tuple of str
        A name for each class.

    """

    node: int
    steps: Mapping[str, FloatArray]
    terms: Mapping[str, FloatArray]
    temperature: float | None
    class_names: tuple[str, ...]

    @property
    def changes(self) -> dict[str, FloatArray]:
        """The raw probabilities and what each part changes in them; their sum is the last step."""
        probs = np.array(list(self.steps.values()))
        return dict(zip(self.steps, np.diff(probs, axis=0, prepend=0.0), strict=True))

    def _tables(self) -> Sequence[Table]:
        final = list(self.steps.values())[-1]
        raw, *others = self.changes.values()
        title, changes, scores = f"node {self.node}", [], []
        for c in np.argsort(-final, kind="stable")[:MOST_CLASSES]:
            name, more = text_cell(self.class_names[c]), [_percent(each[c], "+") for each in others]
            changes.append([name, _percent(raw[c]), *more, _percent(final[c])])
            scores.append([name, *(number_cell(each[c], 2) for each in self.terms.values())])
        if self.temperature is not None:
            title += f", temperature {self.temperature:.3g}"
        tables = [Table(title, ("class", *self.steps, "calibrated"), changes)]
        if self.terms:
            tables.append(Table("added to the score of each class", ("class", *self.terms), scores))
        return tables


@dataclass(frozen=True)
class Parts:
    """What a method says of one node; the last step is what it predicts, whatever stands here."""

    steps: Mapping[str, FloatArray]
    terms: Mapping[str, FloatArray] = field(default_factory=dict)
    temperature: float | None = None


def _percent(share: float, sign: str = "") -> Cell:
    return Cell(float(share), f"{100 * share:{sign}.1f}%")
