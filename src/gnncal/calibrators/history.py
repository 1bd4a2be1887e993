"""What became of a calibrator after its fit: each update with its labels, its date and its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gnncal.data.constraints import NONE, Constraint, number, whole_number
from gnncal.data.errors import InputError, shown

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
    """One update of a calibrator."""

    date: str
    n_labels: int
    tau: float | None
    moved: float | None
    rates: tuple[float, ...]

    def __str__(self) -> str:
        parts = [f"{self.n_labels:,} labels", f"rates {', '.join(f'{r:.1%}' for r in self.rates)}"]
        if self.tau is not None:
            parts.insert(1, f"tau {self.tau:.2f}")
        if self.moved is not None:
            parts.insert(-1, f"moved {self.moved:.1%}")
        return f"{self.date}: {'; '.join(parts)}"


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


def history_of(plain: Any, n_classes: int) -> tuple[Update, ...]:
    """Return the updates that a file lists, each value of which is checked."""
    if not isinstance(plain, tuple) or len(plain) > LONGEST:
        raise InputError(f"history is {shown(plain)}; expected a list of updates.")
    for entry in plain:
        if not isinstance(entry, dict) or set(entry) != set(FIELDS):
            raise InputError(f"history has {shown(entry)}; expected {', '.join(FIELDS)}.")
        for name, constraint in FIELDS.items():
            constraint.check(name, entry[name])
        if len(entry["rates"]) != n_classes:
            raise InputError(f"history has {len(entry['rates'])} rates for {n_classes} classes.")
    return tuple(Update(**entry) for entry in plain)
