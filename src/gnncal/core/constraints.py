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
    """A condition on one value and the words that describe it.

    Two of them are combined with ``|``, for a value that may fulfil either.

    Parameters
    ----------
    expected : str
        Completes the sentence "epsilon is 'x'; expected ...".
    holds : callable
        Gets a value and tells whether it fulfils the condition.

    Examples
    --------
    >>> from gnncal.calibrators import NONE, Constraint
    >>> even = Constraint("an even number", lambda value: value % 2 == 0)
    >>> (even | NONE).expected
    'an even number or None'
    >>> even.check("n_parts", 3)
    Traceback (most recent call last):
        ...
    gnncal.core.errors.InputError: n_parts is 3; expected an even number.

    """

    expected: str
    holds: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Check a value.

        Parameters
        ----------
        name : str
            What the message calls it.
        value : object
            The value.

        Raises
        ------
        InputError
            If the value does not fulfil the condition.

        """
        if not self.holds(value):
            raise InputError(f"{name} is {shown(value)}; expected {self.expected}.")

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            f"{self.expected} or {other.expected}",
            lambda value: self.holds(value) or other.holds(value),
        )


SEED = Constraint(
    "a whole number from 0 to 2**32 - 1, a NumPy random state or None",
    lambda value: (
        value is None
        or isinstance(value, np.random.RandomState)
        or (_is_whole(value) and 0 <= value < 2**32)
    ),
)


def whole_number(*, at_least: int, at_most: int | None = None) -> Constraint:
    """Return the constraint that a value is a whole number within limits, both included.

    Parameters
    ----------
    at_least : int
        The smallest number that is allowed.
    at_most : int, optional
        The largest number that is allowed.

    Returns
    -------
    Constraint
        An entry for ``constraints`` or ``learned``.

    Examples
    --------
    >>> from gnncal.calibrators import whole_number
    >>> whole_number(at_least=1, at_most=9).expected
    'a whole number from 1 to 9'

    """
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

    Parameters
    ----------
    above : float, optional
        A lower limit that the number must not reach.
    at_least : float, optional
        A lower limit that it may reach.
    below : float, optional
        An upper limit that it must not reach.
    at_most : float, optional
        An upper limit that it may reach.

    Returns
    -------
    Constraint
        An entry for ``constraints`` or ``learned``.

    Examples
    --------
    >>> from gnncal.calibrators import number
    >>> number(above=0).expected, number(at_least=0, below=1).expected
    ('a positive number', 'a number in [0, 1)')

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


def choice(*words: str | bool | None) -> Constraint:
    """Return the constraint that a value is one of a few words, or of True, False and None.

    Parameters
    ----------
    *words : str, bool or None
        The words.

    Returns
    -------
    Constraint
        An entry for ``constraints`` or ``learned``.

    Examples
    --------
    >>> from gnncal.calibrators import choice
    >>> choice("in", "out", "both").expected
    "'in', 'out' or 'both'"

    """
    *others, last = map(repr, words)
    listed = f"{', '.join(others)} or {last}" if others else last
    kinds = (str, bool, np.bool_, type(None))  # 1 is not True
    return Constraint(listed, lambda value: isinstance(value, kinds) and value in words)


NONE = choice(None)
FLAG = choice(True, False)


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
