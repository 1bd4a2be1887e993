"""Constraints on parameters and learned values: they check a value and say what was expected.

A calibrator lists them by name, and ``fit`` and ``load`` check all of them before any work::

    constraints = {"epsilon": number(above=0), "side": one_of("in", "out") | NONE}
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from gnncal.data.errors import InputError, short_repr


@dataclass(frozen=True)
class Constraint:
    """A condition on one value, with a description; ``|`` makes a constraint of two alternatives.

    Parameters
    ----------
    expected : str
        Completes the sentence "epsilon is 'x'; expected ...".
    holds : callable
        Takes a value and returns whether it fulfils the condition.

    Examples
    --------
    >>> from gnncal.calibrators import NONE, Constraint
    >>> even = Constraint("an even number", lambda value: value % 2 == 0)
    >>> (even | NONE).expected
    'an even number or None'
    >>> even.check("n_parts", 3)
    Traceback (most recent call last):
        ...
    gnncal.data.errors.InputError: n_parts is 3; expected an even number.

    """

    expected: str
    holds: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Raise an InputError unless the value fulfils the condition.

        Parameters
        ----------
        name : str
            Name of the value in the message.
        value : object
            The value to check.

        """
        if not self.holds(value):
            raise InputError(f"{name} is {short_repr(value)}; expected {self.expected}.")

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            f"{self.expected} or {other.expected}",
            lambda value: self.holds(value) or other.holds(value),
        )


def integer(*, at_least: int, at_most: int | None = None) -> Constraint:
    """Return the constraint that a value is a whole number within limits, which are included.

    Parameters
    ----------
    at_least, at_most : int
        The smallest and the largest allowed number; without ``at_most`` there is no largest.

    Examples
    --------
    >>> from gnncal.calibrators import integer
    >>> integer(at_least=1, at_most=9).expected
    'a whole number from 1 to 9'

    """
    limits = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    high = math.inf if at_most is None else at_most
    return Constraint(
        f"a whole number {limits}", lambda value: is_whole(value) and at_least <= value <= high
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
    above, at_least : float, optional
        Lower limit: ``above`` excludes it, ``at_least`` includes it.
    below, at_most : float, optional
        Upper limit: ``below`` excludes it, ``at_most`` includes it.

    Examples
    --------
    >>> from gnncal.calibrators import number
    >>> number(above=0).expected, number(at_least=0, below=1).expected
    ('a positive number', 'a number in [0, 1)')

    """
    low, high = (at_least if above is None else above), (at_most if below is None else below)

    def holds(value: Any) -> bool:
        return (
            _is_number(value)
            and (low is None or (value >= low if above is None else value > low))
            and (high is None or (value <= high if below is None else value < high))
        )

    if low is not None and high is not None:
        brackets = ("[" if above is None else "(", "]" if below is None else ")")
        words = f"a number in {brackets[0]}{low:g}, {high:g}{brackets[1]}"
    elif low is not None:
        words = f"a number {'of at least' if above is None else 'above'} {low:g}"
    elif high is not None:
        words = f"a number {'of at most' if below is None else 'below'} {high:g}"
    else:
        words = "a finite number"
    return Constraint("a positive number" if above == 0 and high is None else words, holds)


def one_of(*words: str | bool | None) -> Constraint:
    """Return the constraint that a value is one of a few words, True, False or None.

    Parameters
    ----------
    *words : str, bool or None
        The allowed values.

    Examples
    --------
    >>> from gnncal.calibrators import one_of
    >>> one_of("in", "out", "both").expected
    "'in', 'out' or 'both'"

    """
    *others, last = map(repr, words)
    listed = f"{', '.join(others)} or {last}" if others else last
    kinds = (str, bool, np.bool_, type(None))  # 1 is not True
    return Constraint(listed, lambda value: isinstance(value, kinds) and value in words)


NONE = one_of(None)
FLAG = one_of(True, False)
SEED = integer(at_least=0, at_most=2**32 - 1) | NONE
TEXT = Constraint("text", lambda value: isinstance(value, str))


def tuple_of(what: str, entry: Constraint) -> Constraint:
    """Return the constraint that a value is a tuple, each entry of which fulfils another one."""
    return Constraint(
        f"a tuple of {what}",
        lambda value: isinstance(value, tuple) and all(map(entry.holds, value)),
    )


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; True and False do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond any float
        return False


Sizes = dict[str, int]
LARGEST_VALUE = 1e30  # no fit gets near it, and its products with logits still fit a float32
TOTAL_TOLERANCE = 1e-6
TERM = re.compile(r"([A-Za-z_]\w*)([+-]\d+)?")
SOLVER_STATE = {"converged_": FLAG, "n_iter_": integer(at_least=0)}


@dataclass(frozen=True)
class Array:
    """A constraint on an array that a fit learns: shape, range and order of its entries.

    Parameters
    ----------
    shape : str
        One word for each dimension: a number, ``K`` (the number of classes), or the name of an
        integer parameter; sums such as ``K-1`` are allowed. Any other name matches any size, the
        same wherever the name occurs. ``*`` matches any size.
    low, high : float
        Limits of the entries, included; ``high`` may be a word as in ``shape``. Default: ±1e30.
    whole, may_be_empty, may_be_nan : bool, default=False
        Whether entries must be whole numbers, whether sizes of such other names may be 0, and
        whether entries may be NaN.
    rising : {"rows", "first row"}, optional
        ``"rows"``: no row decreases. ``"first row"``: the first row strictly increases.
    total : float, optional
        Required sum of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import Array
    >>> learned = {"weights_": Array("K n_bins", low=0.0), "bias_": Array("K")}
    >>> learned["bias_"].check("bias_", np.zeros(2), {"K": 3})
    Traceback (most recent call last):
        ...
    gnncal.data.errors.InputError: bias_ has shape (2,); expected (3).

    """

    shape: str
    low: float = -LARGEST_VALUE
    high: float | str = LARGEST_VALUE
    whole: bool = False
    may_be_empty: bool = False
    may_be_nan: bool = False
    rising: Literal["rows", "first row"] | None = None
    total: float | None = None

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Raise an InputError unless the value fits; sizes of new names are added to ``sizes``.

        Parameters
        ----------
        name : str
            Name of the value in the message.
        value : object
            The value to check.
        sizes : dict of str to int
            Size of each name in ``shape``.

        """
        kinds, what = ("iu", "whole numbers") if self.whole else ("f", "numbers")
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
            raise InputError(f"{name} is {short_repr(value)}; expected an array of {what}.")
        terms = self.shape.split()
        for term, size in zip(terms, value.shape, strict=False):
            if term.isidentifier() and term not in sizes and (size or self.may_be_empty):
                sizes[term] = size
        expected = tuple(_size(term, sizes) for term in terms)
        fits = value.ndim == len(terms) and all(
            size == wanted or (wanted is None and size > 0)
            for size, wanted in zip(value.shape, expected, strict=True)
        )
        if not fits:
            words = ", ".join("any" if size is None else str(size) for size in expected)
            raise InputError(f"{name} has shape {value.shape}; expected ({words}).")
        high = _size(self.high, sizes) if isinstance(self.high, str) else self.high
        inside = (value >= self.low) & (value <= (np.inf if high is None else high))
        if self.may_be_nan:
            inside |= np.isnan(value)
        if not inside.all():
            raise InputError(
                f"{name} has entries that are not within {self.low:g} to {high:g}, such as "
                f"{short_repr(value[~inside][0])}."
            )
        if self.rising == "rows" and (np.diff(value, axis=-1) < 0).any():
            raise InputError(f"{name} has rows that are not increasing.")
        if self.rising == "first row" and (np.diff(value[0]) <= 0).any():
            raise InputError(f"the first row of {name} is not increasing.")
        if self.total is not None and abs(float(value.sum()) - self.total) > TOTAL_TOLERANCE:
            raise InputError(f"{name} sums to {float(value.sum()):g}; expected {self.total:g}.")


LearnedTable = Mapping[str, Any]  # of Constraint, LearnedTable, or what checks with sizes


def check_learned(table: LearnedTable, values: Any, sizes: Sizes, *, where: str = "it") -> None:
    """Raise unless the values have the table's names and each of them fits its entry."""
    if not isinstance(values, dict) or set(values) != set(table):
        names = sorted(values) if isinstance(values, dict) else short_repr(values)
        raise InputError(f"{where} holds {names} instead of {sorted(table)}.")
    for name, expected in table.items():
        if isinstance(expected, Mapping):
            check_learned(expected, values[name], sizes, where=name)
        elif isinstance(expected, Constraint):
            expected.check(name, values[name])
        else:
            expected.check(name, values[name], sizes)


def _size(term: str, sizes: Sizes) -> int | None:
    """Return the size of a word of the shape; None if any size is allowed."""
    if term.isdigit():
        return int(term)
    match = TERM.fullmatch(term)
    if match is None or match[1] not in sizes:
        return None
    return sizes[match[1]] + int(match[2] or 0)
