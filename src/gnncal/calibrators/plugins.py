"""Calibrators and presets of other packages, found through entry points.

A package declares them in its ``pyproject.toml``, and gnncal needs no change::

    [project.entry-points."gnncal.calibrators"]
    my-method = "my_package.my_module:MyCalibrator"

    [project.entry-points."gnncal.presets"]
    my-variant = "my_package.my_module:MY_VARIANT"

The comparison methods of :mod:`gnncal_lab` come through the same door. Names are read from the
metadata of installed packages, once. A class is imported when somebody asks for it. A broken
package only causes a warning.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gnncal.calibrators.base import FITTINGS, Calibrator
from gnncal.core.errors import warn
from gnncal.core.names import plain_name

GROUP = "gnncal.calibrators"
PRESETS_GROUP = "gnncal.presets"
OURS = "gnncal"  # the distribution that this package and its laboratory come in
LONGEST_REASON = 300  # characters of an error that a warning shows
_under_test: dict[str, type[Calibrator]] = {}


@dataclass(frozen=True)
class Preset:
    """A name for a calibrator with some of its parameters set.

    Parameters
    ----------
    kind : type
        The calibrator's class.
    params : mapping of str to object
        Parameters of its constructor that the name sets.
    summary : str
        What the calibrator then is, in one sentence.
    advice : str, default=""
        When to use it.

    Examples
    --------
    >>> from gnncal import HoTS
    >>> from gnncal.calibrators import Preset
    >>> Preset(HoTS, {"epsilon": 0.1}, "HoTS with a stronger stabiliser.").params
    {'epsilon': 0.1}

    """

    kind: type[Calibrator]
    params: Mapping[str, Any]
    summary: str
    advice: str = ""


def plugin_names(ours: Collection[str]) -> list[str]:
    """Return the names that entry points declare, except those that gnncal itself uses."""
    return [*_under_test, *_declared(frozenset(ours))]


def load_plugin(name: str, ours: Collection[str]) -> type[Calibrator] | Preset | None:
    """Return the class or preset behind a name; None, after a warning, if it cannot be used."""
    if name in _under_test:
        return _under_test[name]
    entry_point = _declared(frozenset(ours)).get(name)
    return None if entry_point is None else _load(entry_point)


def declared_presets(ours: Collection[str]) -> dict[str, Preset]:
    """Return the presets that entry points declare, by name."""
    loaded = {
        name: _load(entry_point)
        for name, entry_point in _declared(frozenset(ours)).items()
        if entry_point.group == PRESETS_GROUP
    }
    return {name: preset for name, preset in loaded.items() if isinstance(preset, Preset)}


def package_of(name: str, ours: Collection[str]) -> str:
    """Return ``"gnncal"``, or name and version of the package that a calibrator comes from."""
    entry_point = _declared(frozenset(ours)).get(name)
    if entry_point is None or _distribution(entry_point)[0] == OURS:
        return OURS
    return " ".join(_distribution(entry_point))


@contextmanager
def known_while_tested(kind: type[Calibrator]) -> Iterator[None]:
    """Let a class that no package declares be saved and loaded, as the contract demands."""
    name = f"under-test-{plain_name(kind.__name__)}"  # no name that a package may have
    _under_test[name] = kind
    try:
        yield
    finally:
        del _under_test[name]


@cache
def _declared(ours: frozenset[str]) -> dict[str, EntryPoint]:
    """Return the entry points by name; of two with one name the first package keeps it."""
    declared: dict[str, EntryPoint] = {}
    found = [*entry_points(group=GROUP), *entry_points(group=PRESETS_GROUP)]
    for entry_point in sorted(found, key=_rank):
        name, (package, _) = plain_name(entry_point.name), _distribution(entry_point)
        what = f"the calibrator {name!r} of the package {package}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            _refuse(what, "a name has letters, digits and hyphens only")
        elif name in ours:
            _refuse(what, "gnncal uses that name")
        elif name in declared:
            other, _ = _distribution(declared[name])
            _refuse(what, "gnncal uses that name" if other == OURS else f"{other} has it too")
        else:
            declared[name] = entry_point
    return declared


def _rank(entry_point: EntryPoint) -> tuple[Any, ...]:
    """Sort by package, our own first: nobody takes a name from it."""
    package = _distribution(entry_point)
    return package[0] != OURS, package, entry_point.group, entry_point.name


@cache
def _load(entry_point: EntryPoint) -> type[Calibrator] | Preset | None:
    package, _ = _distribution(entry_point)
    what = f"the calibrator {plain_name(entry_point.name)!r} of the package {package}"
    try:
        with redirect_stdout(sys.stderr):  # its prints are no output of a program that uses it
            found = entry_point.load()
            is_preset = entry_point.group == PRESETS_GROUP
            reason = why_no_preset(found) if is_preset else why_unusable(found)
    except BaseException as error:  # whatever a stranger's module does, gnncal goes on
        _refuse(what, f"it cannot be imported ({_said(error)})")
        return None
    if reason is not None:
        _refuse(what, reason)
        return None
    return found


def why_no_preset(preset: object) -> str | None:
    """Return why something cannot be used as a preset, or None if it can."""
    if not isinstance(preset, Preset):
        return f"{preset!r} is no gnncal.calibrators.Preset"
    unknown = sorted(set(preset.params) - set(inspect.signature(preset.kind).parameters))
    if unknown:
        return f"{preset.kind.__name__} has no parameter {unknown[0]!r}"
    return why_unusable(preset.kind)


def why_unusable(kind: object) -> str | None:
    """Return why a class cannot be used as a calibrator, or None if it can."""
    if not (isinstance(kind, type) and issubclass(kind, Calibrator)):
        return f"{kind!r} is no subclass of gnncal.Calibrator"
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        return f"{kind.__name__} does not define {missing}"
    required = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
    ]
    if required:
        return f"the parameter {required[0]!r} of {kind.__name__} has no default"
    try:
        sides = (kind, kind())  # lists of methods make one too
        keeps = [getattr(each, "preserves_predictions", None) for each in sides]
    except BaseException as error:
        return f"{kind.__name__}() raises {_said(error)}"
    if not isinstance(keeps[0], bool | property) or not isinstance(keeps[1], bool):
        return f"{kind.__name__} does not say whether it preserves_predictions"
    if not isinstance(kind.__doc__, str | None):
        return f"the docstring of {kind.__name__} is no text"
    for parameter in inspect.signature(kind).parameters.values():
        repr(parameter.default)  # lists of methods show it, so it must not raise
    if kind.fitting not in FITTINGS:
        return f"its fitting is {kind.fitting!r}; expected one of {', '.join(FITTINGS)}"
    if kind.fitting == "iterative" and "protocol" not in inspect.signature(kind).parameters:
        return f"{kind.__name__} is iterative and has no parameter 'protocol'"
    return None


def _said(error: BaseException) -> str:
    """Return an error in a few words, even where it cannot say anything itself."""
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = "which cannot be shown"
    words = words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}..."
    return f"{type(error).__name__}: {words}"


def _refuse(what: str, reason: str) -> None:
    message = f"{what} is left out: {reason}. Rename, repair or uninstall it."
    warn(message)


def _distribution(entry_point: EntryPoint) -> tuple[str, str]:
    """Return name and version of the package that declares an entry point."""
    package = entry_point.dist
    return ("unknown", "") if package is None else (package.name, package.version)
