"""What a fit learns, as a table by attribute that a saved file is checked against.

Shapes are written as words: ``Array("K hidden")`` has one row for each class and as many columns
as the parameter ``hidden`` says. ``K`` is the number of classes; a name that is no parameter
stands for one size, the same wherever it occurs; ``*`` stands for any size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gnncal.core.constraints import FLAG, Constraint, whole_number
from gnncal.core.errors import InputError, shown

Sizes = dict[str, int]
LARGEST_VALUE = 1e30  # no fit gets near it, and its products with logits still fit a float32
TOTAL_TOLERANCE = 1e-6
TERM = re.compile(r"([A-Za-z_]\w*)([+-]\d+)?")

TEXT = Constraint("text", lambda value: isinstance(value, str))
SOLVER_TABLE = {"converged_": FLAG, "n_iter_": whole_number(at_least=0)}


@dataclass(frozen=True)
class Array:
    """An array of numbers that a fit learns: its shape, the range of its entries, what else holds.

    Parameters
    ----------
    shape : str
        One word for each dimension: a number, ``K`` for the number of classes, the name of a
        parameter, or such a name with a number added, as in ``K-1``. Another name stands for one
        size, the same wherever it occurs; ``*`` stands for any size.
    low, high : float
        Smallest and largest entry; ``high`` may be a word as in ``shape``. Default: -1e30, 1e30.
    whole : bool, default=False
        Whether entries are whole numbers.
    may_be_empty, may_be_nan : bool, default=False
        Whether a free size may be 0, and whether entries may be NaN.
    rising : {"rows", "first row"}, optional
        What must rise; the first row strictly.
    total : float, optional
        What the entries sum to.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import Array
    >>> learned = {"weights_": Array("K n_bins", low=0.0), "bias_": Array("K")}
    >>> learned["bias_"].check("bias_", np.zeros(2), {"K": 3})
    Traceback (most recent call last):
        ...
    gnncal.core.errors.InputError: bias_ has shape (2,); expected (3).

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
        """Check a value; sizes that occur for the first time are remembered.

        Parameters
        ----------
        name : str
            What the message calls it.
        value : object
            The value.
        sizes : dict of str to int
            What the words of the shape stand for.

        Raises
        ------
        InputError
            If the value does not fit.

        """
        kinds = "iu" if self.whole else "f"
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
            what = "whole numbers" if self.whole else "numbers"
            raise InputError(f"{name} is {shown(value)}; expected an array of {what}.")
        self._check_shape(name, value, sizes)
        self._check_entries(name, value, sizes)

    def _check_shape(self, name: str, value: npt.NDArray[Any], sizes: Sizes) -> None:
        terms = self.shape.split()
        if value.ndim == len(terms):
            for term, size in zip(terms, value.shape, strict=True):
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

    def _check_entries(self, name: str, value: npt.NDArray[Any], sizes: Sizes) -> None:
        high = _size(self.high, sizes) if isinstance(self.high, str) else self.high
        inside = (value >= self.low) & (value <= (np.inf if high is None else high))
        if self.may_be_nan:
            inside |= np.isnan(value)
        if not inside.all():
            raise InputError(
                f"{name} has entries that are not within {self.low:g} to {high:g}, such as "
                f"{shown(value[~inside][0])}."
            )
        if self.rising == "rows" and (np.diff(value, axis=-1) < 0).any():
            raise InputError(f"{name} has rows that do not rise.")
        if self.rising == "first row" and (np.diff(value[0]) <= 0).any():
            raise InputError(f"the first row of {name} does not rise.")
        if self.total is not None and abs(float(value.sum()) - self.total) > TOTAL_TOLERANCE:
            raise InputError(f"{name} sums to {float(value.sum()):g}; expected {self.total:g}.")


@dataclass(frozen=True)
class OneEachClass:
    """A tuple with one array for each class; their free sizes may differ.

    Parameters
    ----------
    array : Array
        What each of the arrays is.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.core.learned import Array, OneEachClass
    >>> steps = OneEachClass(Array("2 n_steps", rising="first row"))
    >>> steps.check("steps_", (np.array([[0.0, 1.0], [0.2, 0.9]]),) * 3, {"K": 3})

    """

    array: Array

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Check a value.

        Parameters
        ----------
        name : str
            What the message calls it.
        value : object
            The value.
        sizes : dict of str to int
            What the words of the shape stand for; ``K`` must be there.

        Raises
        ------
        InputError
            If the value does not fit.

        """
        if not isinstance(value, tuple) or len(value) != sizes["K"]:
            raise InputError(f"{name} is {shown(value)}; expected {sizes['K']} arrays.")
        for c, part in enumerate(value):
            self.array.check(f"{name}[{c}]", part, dict(sizes))


LearnedTable = Mapping[str, Any]  # of Constraint, Array, OneEachClass or LearnedTable


def sizes_of(parameters: Mapping[str, Any], n_classes: int) -> Sizes:
    """Return the sizes that are known before any array: parameters and the number of classes."""
    whole = {name: value for name, value in parameters.items() if type(value) is int}
    return {**whole, "K": n_classes}


def check_learned(table: LearnedTable, values: Any, sizes: Sizes, *, where: str = "it") -> None:
    """Raise unless the values have the table's names and each of them fits its entry."""
    if not isinstance(values, dict) or set(values) != set(table):
        names = sorted(values) if isinstance(values, dict) else shown(values)
        raise InputError(f"{where} holds {names} instead of {sorted(table)}.")
    for name, expected in table.items():
        if isinstance(expected, Mapping):
            check_learned(expected, values[name], sizes, where=name)
        elif isinstance(expected, Constraint):
            expected.check(name, values[name])
        else:
            expected.check(name, values[name], sizes)


def _size(term: str, sizes: Sizes) -> int | None:
    """Return the size that a word stands for; None if it may be any."""
    if term.isdigit():
        return int(term)
    match = TERM.fullmatch(term)
    if match is None or match[1] not in sizes:
        return None
    return sizes[match[1]] + int(match[2] or 0)
