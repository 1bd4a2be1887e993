"""Untrusted JSON, read as what the fields of a record say it is.

The annotations of a record are the whole description of a file::

    @dataclass(frozen=True)
    class Cost:
        method: str
        seconds: Annotated[float, number(at_least=0)]

``read_as(Cost, value)`` gives a ``Cost``, or an InputError that names the first entry that does
not fit, what it is, and what was expected. Entries that the record does not have are ignored, so
files can grow. An annotation is ``str``, ``int``, ``float``, ``bool``, ``Any``, a ``Literal``, a
list, tuple, mapping, dataclass or TypedDict of such, or one of them ``| None``.
``Annotated`` adds constraints of :mod:`gnncal.data.constraints` and :class:`Entries`.

NaN and infinity are null in the files that gnncal writes. A ``float`` therefore reads null as NaN;
one with limits does not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gnncal.data.constraints import Constraint, integer, number
from gnncal.data.errors import InputError, short_repr

T = TypeVar("T")
Reader = Callable[[Any], Any]  # gives the value of its kind, or raises a Mismatch
DEEPEST = 16  # lists and objects within each other, where any value may stand
LARGEST_COUNT = 2**63 - 1
LARGEST_NUMBER = 1e30  # nothing that is measured gets near it, and products of two are finite

ROUNDING = 1e-6  # by which a share that is a sum of many numbers may leave its range

Count = Annotated[int, integer(at_least=0)]
Amount = Annotated[float, number(at_least=0)]
Share = Annotated[
    float, Constraint("a number in [0, 1]", lambda value: -ROUNDING <= value <= 1 + ROUNDING)
]


@dataclass(frozen=True, eq=False)
class Entries:
    """What some entries of an object must be where they are present; others may be anything."""

    kinds: Mapping[str, Any]


class Mismatch(Exception):  # noqa: N818 - it never leaves this file
    """A value is not what it should be; the place is found on the way out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem, self.place = problem, ""

    @classmethod
    def of(cls, value: Any, expected: str) -> Mismatch:
        """Return the mismatch of a value with what was expected."""
        return cls(f"is {_short(value)}; expected {expected}")

    def within(self, place: str) -> Mismatch:
        """Return itself with one more step of the place where it is."""
        self.place = place + self.place
        return self


def read_as(kind: type[T], value: Any) -> T:
    """Return a value of :mod:`json` as a kind, or raise an InputError about its first mistake."""
    try:
        return cast(T, _reader(cast(Any, kind))(value))
    except Mismatch as wrong:
        place = wrong.place.removeprefix(".") or "it"
        raise InputError(f"{place} {wrong.problem}.") from None


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; one that is none, or far too deep, is an InputError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else error
        raise InputError(f"it is not JSON ({reason}).") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


@cache
def _reader(kind: Any) -> Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is Annotated:
        return _with_conditions(_reader(arguments[0]), kind.__metadata__)
    if origin is Literal:
        words = " or ".join(map(repr, arguments))
        return _checked(lambda value: isinstance(value, str) and value in arguments, words)
    if origin in (Union, UnionType):
        (other,) = (part for part in arguments if part is not NoneType)
        read = _reader(other)
        return lambda value: None if value is None else read(value)
    if is_dataclass(kind) or is_typeddict(kind):
        return _record(kind)
    if origin in (list, Sequence):
        return _list(_reader(arguments[0]), list)
    if origin is tuple:
        return _list(_reader(arguments[0]), tuple)
    if origin in (dict, Mapping):
        return _mapping(_reader(arguments[1]))
    raise TypeError(f"a value of JSON cannot be read as {kind}")


def _checked(holds: Callable[[Any], bool], expected: str) -> Reader:
    def read(value: Any) -> Any:
        if not holds(value):
            raise Mismatch.of(value, expected)
        return value

    return read


def _with_conditions(read: Reader, conditions: Sequence[Constraint | Entries]) -> Reader:
    constraints = [each for each in conditions if isinstance(each, Constraint)]
    entries = {
        name: _reader(kind)
        for each in conditions
        if isinstance(each, Entries)
        for name, kind in each.kinds.items()
    }

    def read_and_check(value: Any) -> Any:
        typed = read(value)
        for constraint in constraints:
            if not constraint.holds(typed):
                raise Mismatch.of(value, constraint.expected)
        for name in entries.keys() & typed.keys() if entries else ():
            typed[name] = _within(f".{name}", entries[name], typed[name])
        return typed

    return read_and_check


def _record(kind: Any) -> Reader:
    readers = {name: _reader(k) for name, k in get_type_hints(kind, include_extras=True).items()}
    if is_typeddict(kind):
        required = kind.__required_keys__
    else:
        readers = {field.name: readers[field.name] for field in fields(kind)}
        required = {
            field.name
            for field in fields(kind)
            if field.default is MISSING and field.default_factory is MISSING
        }

    places = {name: f".{name}" for name in readers}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch.of(value, "an object")
        for name in readers:
            if name in required and name not in value:
                raise Mismatch("is missing").within(f".{name}")
        return kind(
            **{n: _within(places[n], each, value[n]) for n, each in readers.items() if n in value}
        )

    return read


def _list(read: Reader, kind: type) -> Reader:
    def read_all(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch.of(value, "a list")
        try:
            return kind(map(read, value))
        except Mismatch:  # which is rare, so only then is the place looked for
            return kind(_within(f"[{i}]", read, entry) for i, entry in enumerate(value))

    return read_all


def _mapping(read: Reader) -> Reader:
    def read_all(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch.of(value, "an object")
        return {_text(key): _within(f".{key}", read, entry) for key, entry in value.items()}

    return read_all


def _within(place: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except Mismatch as wrong:
        raise wrong.within(place if len(place) < 80 else f"{place[:77]}...") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Mismatch.of(value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates: no file can hold it
        raise Mismatch.of(value, "text that is Unicode") from None
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) > LARGEST_COUNT:
        raise Mismatch.of(value, "a whole number of at most 64 bits")
    return value


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if type(value) is int and abs(value) <= LARGEST_COUNT:
        return float(value)
    if type(value) is not float or not abs(value) <= LARGEST_NUMBER:
        raise Mismatch.of(value, "a number of ordinary size")
    return value


def _anything(value: Any, depth: int = 0) -> Any:
    """Return any value of JSON that is not absurd; a number stays of the kind that it is."""
    if depth > DEEPEST:
        raise Mismatch("is nested too deeply")
    if isinstance(value, dict):
        return {_text(key): _anything(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_anything(entry, depth + 1) for entry in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int:
        return _whole(value)
    if type(value) is not float or not math.isfinite(value):
        raise Mismatch.of(value, "a finite number")
    return value


def _short(value: Any) -> str:
    """Return a value as a message shows it; what may be deep is only named."""
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return "an object"
    if type(value) is int and abs(value) > LARGEST_COUNT:
        return "a whole number of more than 64 bits"
    return "null" if value is None else short_repr(value)


PLAIN: dict[Any, Reader] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _checked(lambda value: isinstance(value, bool), "true or false"),
    Any: _anything,
}
