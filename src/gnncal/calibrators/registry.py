"""Calibrators by name: the product's own, and those that other packages declare."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.data.checks import plain_name, suggestion
from gnncal.data.errors import InputError, require, short_repr, warn

DEFAULT_METHOD = "structural"
GROUP = "gnncal.calibrators"
OURS = "gnncal"  # the distribution that this package and its laboratory come in
LONGEST_REASON = 300  # characters of an error that a warning shows


@dataclass(frozen=True)
class Preset:
    """A class by its name, with what the name sets of its parameters."""

    kind: type[Calibrator]
    params: Mapping[str, Any]
    summary: str = ""
    advice: str = ""  # when to use it


# The product's own names. The package's __init__.py fills them in, so that a method such as auto
# can look others up here.
CALIBRATORS: dict[str, type[Calibrator]] = {}
PRESETS: dict[str, Preset] = {}


def every_calibrator() -> dict[str, type[Calibrator]]:
    """Return the class of every name: the product's own, then those that entry points declare."""
    names = [*CALIBRATORS, *PRESETS, *_declared()]
    return {name: found.kind for name in names if (found := find(name)) is not None}


def list_calibrators() -> list[str]:
    """Return the names of all calibrators, those of other packages included.

    Examples
    --------
    >>> from gnncal import list_calibrators
    >>> list_calibrators()[:3]
    ['uncalibrated', 'ts', 'hts']

    """
    return list(every_calibrator())


def find(name: Any) -> Preset | None:
    """Return what has exactly this name; None, after a warning, if its package is broken."""
    if name in PRESETS:
        return PRESETS[name]
    kind = CALIBRATORS.get(name)
    if kind is None and name in _declared():
        kind = _load(_declared()[name])
    return None if kind is None else Preset(kind, {})


def resolve(name: Any) -> tuple[str, Preset]:
    """Return a name as people type it in the catalogue's spelling, and what it stands for."""
    plain = plain_name(name) if isinstance(name, str) else ""
    found = find(plain)
    if found is None:
        known = every_calibrator()
        raise InputError(
            f"unknown calibrator {short_repr(name)}{suggestion(plain, known)}; choose one of "
            f"{', '.join(known)}."
        )
    return plain, found


def get_calibrator(name: str, **params: Any) -> Calibrator:
    """Return a calibrator by its name, not fitted yet.

    Parameters
    ----------
    name : str
        One of :func:`list_calibrators`. Case and ``_`` for ``-`` do not matter.
    **params : Any
        Parameters of the calibrator's constructor.

    Examples
    --------
    >>> from gnncal import get_calibrator
    >>> get_calibrator("HoTS", epsilon=0.1)
    HoTS(epsilon=0.1)

    """
    return make(*resolve(name), params)


def make(name: str, preset: Preset, params: Mapping[str, Any]) -> Calibrator:
    """Return the calibrator of a resolved name, its parameters checked."""
    kind, given = preset.kind, preset.params
    for key in set(params) & set(given):
        if not _is_same(params[key], given[key]):
            raise InputError(
                f"{name} is {kind.__name__} with {key}={given[key]!r}, but {key} is "
                f"{params[key]!r}; leave it out, or choose another name."
            )
    allowed = sorted(inspect.signature(kind).parameters)
    unknown = sorted(set(params) - set(allowed))
    if unknown:
        raise InputError(
            f"{name} has no parameter {unknown[0]!r}{suggestion(unknown[0], allowed)}; it takes "
            f"{', '.join(allowed) or 'none'}."
        )
    if kind.needs_torch:
        require("torch", extra="neural", purpose=name)
    made = kind(**{**given, **params})
    made.check_params()
    return made


def name_of(calibrator: Calibrator) -> str:
    """Return the catalogue's name of a calibrator."""
    kind, params = type(calibrator), calibrator.get_params(deep=False)
    for name in chain(PRESETS, CALIBRATORS, _declared()):  # others are imported after ours
        found = find(name)
        if found is None or found.kind is not kind:
            continue
        if all(_is_same(params.get(key), value) for key, value in found.params.items()):
            return name
    raise InputError(
        f"{kind.__name__} is not one of gnncal's calibrators, nor does an installed package "
        "declare it; declare it as an entry point of the group gnncal.calibrators "
        "(docs/plugins.md)."
    )


def provider_of(name: str) -> str:
    """Return ``"gnncal"``, or name and version of the package that a calibrator comes from."""
    entry_point = _declared().get(name)
    if entry_point is None or _distribution(entry_point)[0] == OURS:
        return OURS
    return " ".join(_distribution(entry_point))


@contextmanager
def temporarily_registered(kind: type[Calibrator]) -> Iterator[None]:
    """Let a class that no package declares be saved and loaded, as the contract demands."""
    name = f"under-test-{plain_name(kind.__name__)}"  # no name that a package may have
    CALIBRATORS[name] = kind
    try:
        yield
    finally:
        del CALIBRATORS[name]


@cache
def _declared() -> dict[str, EntryPoint]:
    """Return what packages declare, none of it imported; the first package keeps a name."""
    declared: dict[str, EntryPoint] = {}

    def order(each: EntryPoint) -> tuple[bool, tuple[str, str], str]:
        package = _distribution(each)
        return package[0] != OURS, package, each.name  # no other package takes a name from ours

    for entry_point in sorted(entry_points(group=GROUP), key=order):
        name = plain_name(entry_point.name)
        is_ours = name in CALIBRATORS or name in PRESETS
        if is_ours or name in declared:
            other = OURS if is_ours else _distribution(declared[name])[0]
            _warn_skipped(entry_point, f"{other} has that name too")
        else:
            declared[name] = entry_point
    return declared


@cache
def _load(entry_point: EntryPoint) -> type[Calibrator] | None:
    try:
        with redirect_stdout(sys.stderr):  # its prints must not mix with the output of the program
            found: type[Calibrator] = entry_point.load()
            fault = class_fault(found)
    except BaseException as error:  # whatever a stranger's module does, gnncal goes on
        fault = f"it cannot be imported ({_format_error(error)})"
    if fault is None:
        return found
    _warn_skipped(entry_point, fault)
    return None


def class_fault(kind: object) -> str | None:
    """Return why a class cannot be used as a calibrator, or None if it can."""
    if not (isinstance(kind, type) and issubclass(kind, Calibrator)):
        return f"{kind!r} is not a subclass of gnncal.Calibrator"
    try:
        keeps = kind().preserves_predictions  # lists of methods make one too
    except BaseException as error:  # an abstract method, a parameter without a default, ...
        return f"{kind.__name__}() raises {_format_error(error)}"
    return None if isinstance(keeps, bool) else "preserves_predictions is not a bool"


def _format_error(error: BaseException) -> str:
    """Return an error in a few words."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:LONGEST_REASON]}"


def _warn_skipped(entry_point: EntryPoint, reason: str) -> None:
    name, package = plain_name(entry_point.name), _distribution(entry_point)[0]
    warn(
        f"the calibrator {name!r} of the package {package} is left out: {reason}. Rename, repair "
        "or uninstall it."
    )


def _distribution(entry_point: EntryPoint) -> tuple[str, str]:
    """Return name and version of the package that declares an entry point."""
    package = entry_point.dist
    return ("unknown", "") if package is None else (package.name, package.version)


@dataclass(frozen=True)
class MethodDescription:
    """A calibrator as a list of methods shows it."""

    name: str
    class_name: str
    summary: str
    advice: str  # when to use it; "" if the docstring has no notes
    preserves_predictions: bool
    needs_graph: bool
    needs_torch: bool
    package: str  # "gnncal", or name and version of the package that provides it
    parameters: tuple[dict[str, Any], ...]  # name, default and what it is expected to be


def describe(name: str) -> MethodDescription:
    """Return the description of the calibrator with this name."""
    name, preset = resolve(name)
    kind, made = preset.kind, preset.kind(**preset.params)
    documentation = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    # The first paragraph of the notes says when to use the method.
    notes = documentation.partition("\nNotes\n-----\n")[2].partition("\n\n")[0]
    expected = {key: constraint.expected for key, constraint in kind.constraints.items()}
    return MethodDescription(
        name,
        kind.__name__,
        preset.summary or _on_one_line(documentation.partition("\n\n")[0]),
        preset.advice or _on_one_line(notes),
        made.preserves_predictions,
        made.needs_graph,
        kind.needs_torch,
        provider_of(name),
        tuple(
            {"name": p.name, "default": p.default, "expected": expected.get(p.name, "")}
            for p in inspect.signature(kind).parameters.values()
            if p.name not in preset.params
        ),
    )


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)  # an array is never a preset's value


def _on_one_line(text: str) -> str:
    """Return a docstring's text on one line, without marks of code."""
    return " ".join(text.split()).replace("``", "")
