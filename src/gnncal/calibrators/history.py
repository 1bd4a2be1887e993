"""What became of a calibrator after its fit: each update with its labels, its date and its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from gnncal.core.constraints import NONE, Constraint, number, whole_number
from gnncal.core.errors import InputError, shown
from gnncal.core.tabular import Cell, Table, Tabular, count, listed, text

LONGEST = 10_000  # updates that are remembered, the latest ones


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


DATE = Constraint("a date such as '2026-11-17'", _is_date)
SHARE = number(at_least=0, at_most=1)


@dataclass(frozen=True)
class Update:
    """One update of a calibrator.

    Attributes
    ----------
    date : str
        When, as in ``"2026-11-17"``.
    n_labels : int
        How many new labels there were; 0 if only rates were given or estimated.
    tau : float or None
        How far the new labels let the parameters lie from those before: 0 is the same world.
    moved : float or None
        Mean over the nodes of how much probability went from some classes to others; None if no
        nodes were given.
    rates : tuple of float
        Rate of each class that the calibrator stands for since then.

    """

    date: str
    n_labels: int
    tau: float | None
    moved: float | None
    rates: tuple[float, ...]


FIELDS: Mapping[str, Constraint] = {
    "date": DATE,
    "n_labels": whole_number(at_least=0),
    "tau": number(at_least=0) | NONE,
    "moved": SHARE | NONE,
    "rates": Constraint(
        "a rate for each class",
        lambda value: isinstance(value, tuple) and all(SHARE.holds(rate) for rate in value),
    ),
}


@dataclass(frozen=True, repr=False)
class History(Tabular):
    """The updates of a calibrator, the first one first. It prints as a table.

    Attributes
    ----------
    updates : tuple of Update
        When each was, how many labels it had, and how much it moved the calibrator.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import TemperatureScaling
    >>> logits, noise = 3 * np.random.default_rng(0).normal(size=(2, 300, 3))
    >>> labels = (logits + noise).argmax(axis=1)
    >>> calibrator = TemperatureScaling().fit(logits, labels, nodes=range(200))
    >>> later = calibrator.update(2 * logits, labels, nodes=range(200, 300), date="2026-11-17")
    >>> len(calibrator.history_), later.history_.updates[0].n_labels
    (0, 100)

    """

    updates: tuple[Update, ...] = ()

    def __len__(self) -> int:
        return len(self.updates)

    def __iter__(self) -> Iterator[Update]:
        return iter(self.updates)

    def then(self, update: Update) -> History:
        """Return the history with one more update.

        Parameters
        ----------
        update : Update
            The latest one.

        Returns
        -------
        History
            Another history.

        """
        return History((*self.updates, update)[-LONGEST:])

    def to_plain(self) -> tuple[dict[str, Any], ...]:
        """Return the history as numbers and texts, for files.

        Returns
        -------
        tuple of dict
            What :meth:`from_plain` reads.

        """
        return tuple(asdict(update) for update in self.updates)

    @classmethod
    def from_plain(cls, plain: Any, n_classes: int) -> History:
        """Return the history of such values, each of which is checked.

        Parameters
        ----------
        plain : tuple of dict
            What :meth:`to_plain` returned.
        n_classes : int
            Number of classes.

        Returns
        -------
        History
            The history.

        Raises
        ------
        InputError
            If a value cannot be part of a history.

        """
        if not isinstance(plain, tuple) or len(plain) > LONGEST:
            raise InputError(f"history is {shown(plain)}; expected a list of updates.")
        for entry in plain:
            if not isinstance(entry, dict) or set(entry) != set(FIELDS):
                raise InputError(f"history has {shown(entry)}; expected {', '.join(FIELDS)}.")
            for name, constraint in FIELDS.items():
                constraint.check(name, entry[name])
            if len(entry["rates"]) != n_classes:
                raise InputError(
                    f"history has {len(entry['rates'])} rates for {n_classes} classes."
                )
        return cls(tuple(Update(**entry) for entry in plain))

    def _tables(self) -> Sequence[Table]:
        rows = [
            [
                text(update.date),
                count(update.n_labels),
                _cell(update.tau, "{:.2f}"),
                _cell(update.moved, "{:.1%}"),
                Cell(update.rates, listed([f"{rate:.1%}" for rate in update.rates]).text),
            ]
            for update in self.updates
        ]
        title = "updates since the fit" if rows else "no updates since the fit"
        return [Table(title, ("date", "labels", "tau", "moved", "rates"), rows)]


def _cell(value: float | None, form: str) -> Cell:
    return Cell(value, "" if value is None else form.format(value))
