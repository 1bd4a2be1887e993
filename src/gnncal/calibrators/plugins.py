"""Calibrators in other people's packages, found through the entry points ``gnncal.calibrators``.

A package declares them in its ``pyproject.toml``, and gnncal needs no change::

    [project.entry-points."gnncal.calibrators"]
    my-method = "my_package.my_module:MyCalibrator"

Names are read from the metadata of installed packages, once. A class is imported when somebody
asks for it. A broken package only causes a warning.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from gnncal.calibrators.base import FITTINGS, Calibrator
from gnncal.core.errors import warn
from gnncal.core.names import plain_name

GROUP = "gnncal.calibrators"
# What these names mean in `gnncal bench`; a test compares them with its tables.
RESERVED = frozenset(
    {"all", "paper", "few", "hots-release", "hots-predictor", "hots-cross-fitted"}
    | {"hots-agreement", "hots-clamped", "hots-agreement-clamped"}
)
LONGEST_REASON = 300  # characters of an error that a warning shows
_under_test: dict[str, type[Calibrator]] = {}


def plugin_names(ours: Collection[str]) -> list[str]:
    """Return the names that other packages declare, except those that gnncal itself uses."""
    return [*_under_test, *_declared(frozenset(ours))]


def load_plugin(name: str, ours: Collection[str]) -> type[Calibrator] | None:
    """Return the class behind a name; None, after a warning, if it cannot be used."""
    if name in _under_test:
        return _under_test[name]
    entry_point = _declared(frozenset(ours)).get(name)
    return None if entry_point is None else _load(entry_point)


def package_of(name: str, ours: Collection[str]) -> str:
    """Return the name and version of the package that a calibrator comes from."""
    entry_point = _declared(frozenset(ours)).get(name)
    return "gnncal" if entry_point is None else " ".join(_distribution(entry_point))


def plugin_versions() -> dict[str, str]:
    """Return the versions of the packages that declare calibrators, by package."""
    return dict(_distribution(entry_point) for entry_point in entry_points(group=GROUP))


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
    for entry_point in sorted(entry_points(group=GROUP), key=lambda e: (_distribution(e), e.name)):
        name, (package, _) = plain_name(entry_point.name), _distribution(entry_point)
        what = f"the calibrator {name!r} of the package {package}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            _refuse(what, "a name has letters, digits and hyphens only")
        elif name in ours or name in RESERVED:
            _refuse(what, "gnncal uses that name")
        elif name in declared:
            other, _ = _distribution(declared[name])
            _refuse(what, f"{other} has this name too")
        else:
            declared[name] = entry_point
    return declared


@cache
def _load(entry_point: EntryPoint) -> type[Calibrator] | None:
    package, _ = _distribution(entry_point)
    what = f"the calibrator {plain_name(entry_point.name)!r} of the package {package}"
    try:
        with redirect_stdout(sys.stderr):  # its prints are no output of a program that uses it
            kind = entry_point.load()
            reason = why_unusable(kind)
    except BaseException as error:  # whatever a stranger's module does, gnncal goes on
        _refuse(what, f"it cannot be imported ({_said(error)})")
        return None
    if reason is not None:
        _refuse(what, reason)
        return None
    return kind


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
