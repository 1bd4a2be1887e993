"""What a parameter may be, as small objects that check a value and say what was expected.

A calibrator lists them by parameter name, and ``fit`` checks all of them before any work::

    constraints = {
        "epsilon": number(above=0),
        "n_bins": whole_number(at_least=1) | NONE,
        "side": choice("in", "out") | NONE,
        "temperature_range": number_range(above=0) | NONE,
    }
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from gnncal.core.errors import InputError, shown


@dataclass(frozen=True)
class Constraint:
    """A condition on one value and the words that describe it."""

    expected: str  # completes "epsilon is 'x'; expected ..."
    holds: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Raise an InputError that names the parameter unless the value fulfils the condition."""
        if not self.holds(value):
            raise InputError(f"{name} is {shown(value)}; expected {self.expected}.")

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            f"{self.expected} or {other.expected}",
            lambda value: self.holds(value) or other.holds(value),
        )


NONE = Constraint("None", lambda value: value is None)
FLAG = Constraint("True or False", lambda value: isinstance(value, bool | np.bool_))
SEED = Constraint(
    "a whole number from 0 to 2**32 - 1, a NumPy random state or None",
    lambda value: (
        value is None
        or isinstance(value, np.random.RandomState)
        or (_is_whole(value) and 0 <= value < 2**32)
    ),
)


def whole_number(*, at_least: int, at_most: int | None = None) -> Constraint:
    """Return the constraint that a value is a whole number within limits, both included."""
    if at_most is None:
        return Constraint(
            f"a whole number of at least {at_least}",
            lambda value: _is_whole(value) and value >= at_least,
        )
    return Constraint(
        f"a whole number from {at_least} to {at_most}",
        lambda value: _is_whole(value) and at_least <= value <= at_most,
    )


def number(
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Constraint:
    """Return the constraint that a value is a finite number within limits.

    ``above`` and ``below`` leave the limit itself out.
    """

    def holds(value: Any) -> bool:
        return (
            _is_number(value)
            and (above is None or value > above)
            and (at_least is None or value >= at_least)
            and (below is None or value < below)
            and (at_most is None or value <= at_most)
        )

    return Constraint(_describe(above, at_least, below, at_most), holds)


def choice(*words: str) -> Constraint:
    """Return the constraint that a value is one of a few words."""
    *others, last = map(repr, words)
    listed = f"{', '.join(others)} or {last}" if others else last
    return Constraint(listed, lambda value: isinstance(value, str) and value in words)


def number_range(*, above: float) -> Constraint:
    """Return the constraint that a value is two finite numbers, the lower first."""

    def holds(value: Any) -> bool:
        if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
            return False
        low, high = value
        return _is_number(low) and _is_number(high) and above < low <= high

    return Constraint(f"two numbers (low, high) with {above:g} < low <= high", holds)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number beyond any float
        return False


def _describe(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> str:
    low = above if at_least is None else at_least
    high = below if at_most is None else at_most
    if low is None and high is None:
        return "a finite number"
    if high is None:
        if above == 0:
            return "a positive number"
        return f"a number {'of at least' if above is None else 'above'} {low:g}"
    if low is None:
        return f"a number {'of at most' if below is None else 'below'} {high:g}"
    opening, closing = "[" if above is None else "(", "]" if below is None else ")"
    return f"a number in {opening}{low:g}, {high:g}{closing}"
