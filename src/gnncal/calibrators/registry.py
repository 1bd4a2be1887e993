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

from gnncal.calibrators.affine import StructuredMatrixScaling, StructuredVectorScaling
from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import FITTINGS, Calibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import MultiClassIsotonic
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.temperature import EntropyScaling, TemperatureScaling, Uncalibrated
from gnncal.data.checks import plain_name, suggestion
from gnncal.data.errors import InputError, require, shown, warn

DEFAULT_METHOD = "structural"
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
        keeps = kind().preserves_predictions  # lists of methods make one too
    except BaseException as error:
        return f"{kind.__name__}() raises {_said(error)}"
    if not isinstance(keeps, bool):
        return f"{kind.__name__} does not say whether it preserves_predictions"
    if kind.fitting not in FITTINGS:
        return f"its fitting is {kind.fitting!r}; expected one of {', '.join(FITTINGS)}"
    if kind.fitting == "iterative" and "protocol" not in inspect.signature(kind).parameters:
        return f"{kind.__name__} is iterative and has no parameter 'protocol'"
    return None


def _said(error: BaseException) -> str:
    """Return an error in a few words."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:LONGEST_REASON]}"


def _refuse(what: str, reason: str) -> None:
    warn(f"{what} is left out: {reason}. Rename, repair or uninstall it.")


def _distribution(entry_point: EntryPoint) -> tuple[str, str]:
    """Return name and version of the package that declares an entry point."""
    package = entry_point.dist
    return ("unknown", "") if package is None else (package.name, package.version)


CALIBRATORS: dict[str, type[Calibrator]] = {
    "uncalibrated": Uncalibrated,
    "ts": TemperatureScaling,
    "hts": EntropyScaling,
    "svs": StructuredVectorScaling,
    "sms": StructuredMatrixScaling,
    "irm": MultiClassIsotonic,
    "hots": HoTS,
    "structural": Structural,
    "auto": Auto,
}

# Names that stand for a class with some parameters set, and what that makes of it.
PRESETS: dict[str, Preset] = {
    "structural-free": Preset(
        Structural,
        {"keep_predictions": False},
        "The structural calibrator with predictions that may change.",
        "Use it where predictions may change. It has the lowest log loss of all methods here, "
        "because it lets the neighbours correct the model.",
    ),
    "structural-temperature": Preset(
        Structural,
        {"without": "remainder"},
        "The structural law alone: it divides all logits of a node by one number.",
        "Use it where each node must have one temperature, or as the ablation of structural that "
        "leaves the other classes' shares as they are.",
    ),
}
OWN_NAMES = (*CALIBRATORS, *PRESETS)
NO_PRESET: Mapping[str, Any] = {}

_FITTING = {
    "closed form": "in closed form",
    "convex": "convex and solved to its one minimum",
    "posterior": "the most probable one under a prior",
    "choice": "a choice among fits",
}


def every_calibrator() -> dict[str, type[Calibrator]]:
    """Return the class of every name: the product's own, then those that entry points declare."""
    names = [*OWN_NAMES, *plugin_names(OWN_NAMES)]
    return {name: kind for name in names if (kind := find_class(name)) is not None}


def list_calibrators() -> list[str]:
    """Return the names of all calibrators, as :func:`get_calibrator` takes them.

    Returns
    -------
    list of str
        Names such as ``"ts"`` and ``"structural"``, those of other packages included.

    Examples
    --------
    >>> from gnncal import list_calibrators
    >>> list_calibrators()[:3]
    ['uncalibrated', 'ts', 'hts']

    """
    return list(every_calibrator())


def find_name(name: str) -> str:
    """Return the name of a calibrator as the catalogue spells it."""
    plain = plain_name(name) if isinstance(name, str) else ""
    if find_class(plain) is None:
        known = every_calibrator()
        raise InputError(
            f"there is no calibrator {shown(name)}{suggestion(plain, known)}; choose one of "
            f"{', '.join(known)}."
        )
    return plain


def find_class(name: str) -> type[Calibrator] | None:
    """Return the class with exactly this name; only the package that has it is imported."""
    preset = find_preset(name)
    if preset is not None:
        return preset.kind
    found = CALIBRATORS.get(name) or load_plugin(name, OWN_NAMES)
    return None if isinstance(found, Preset) else found


def find_preset(name: str) -> Preset | None:
    """Return the preset with exactly this name, the product's own or one that is declared."""
    found = PRESETS.get(name) or (None if name in CALIBRATORS else load_plugin(name, OWN_NAMES))
    return found if isinstance(found, Preset) else None


def class_of(name: str) -> type[Calibrator]:
    """Return the class of a calibrator by name, spelt as people type it."""
    kind = find_class(find_name(name))
    assert kind is not None  # or find_name would have raised
    return kind


def get_calibrator(name: str, **params: Any) -> Calibrator:
    """Return a calibrator by its name.

    Parameters
    ----------
    name : str
        One of :func:`list_calibrators`. Case and ``_`` for ``-`` do not matter.
    **params : Any
        Parameters of the calibrator's constructor.

    Returns
    -------
    Calibrator
        A calibrator that is not fitted yet.

    Raises
    ------
    InputError
        If there is no such calibrator or parameter, or a value cannot be used.
    MissingExtraError
        If the calibrator needs PyTorch and it is not installed.

    Examples
    --------
    >>> from gnncal import get_calibrator
    >>> get_calibrator("HoTS", epsilon=0.1)
    HoTS(epsilon=0.1)

    """
    name = find_name(name)
    calibrator = class_of(name)
    preset = preset_of(name)
    for key in set(params) & set(preset):
        if params[key] != preset[key]:
            raise InputError(
                f"{name} is {calibrator.__name__} with {key}={preset[key]!r}, but {key} is "
                f"{params[key]!r}; leave it out, or choose another name."
            )
    params = {**preset, **params}
    allowed = calibrator._get_param_names()
    unknown = sorted(set(params) - set(allowed))
    if "protocol" in unknown and calibrator.fitting != "iterative":
        raise InputError(
            f"{name} has no protocol: its fit is {_FITTING[calibrator.fitting]}, so the paper's "
            "early-stopped protocol does not apply; leave protocol out."
        )
    if unknown:
        raise InputError(
            f"{name} has no parameter {unknown[0]!r}{suggestion(unknown[0], allowed)}; it takes "
            f"{', '.join(allowed) or 'none'}."
        )
    if calibrator.needs_torch:
        require("torch", extra="neural", purpose=name)
    made = calibrator(**params)
    made.check_params()
    return made


def preset_of(name: str) -> Mapping[str, Any]:
    """Return the parameters that a name in the catalogue sets."""
    preset = find_preset(name)
    return NO_PRESET if preset is None else preset.params


def name_of(calibrator: Calibrator) -> str:
    """Return the catalogue's name of a calibrator; of several the one that sets most."""
    params, kind = calibrator.get_params(deep=False), type(calibrator)
    defaults = inspect.signature(kind).parameters
    # With default parameters it is no preset, and no package need be imported to tell.
    is_plain = all(value is defaults[name].default for name, value in params.items())
    declared = {} if is_plain else declared_presets(OWN_NAMES)
    presets = {
        name: preset
        for name, preset in {**PRESETS, **declared}.items()
        if preset.kind is kind and all(params[key] == value for key, value in preset.params.items())
    }
    if presets:
        return max(presets, key=lambda name: len(presets[name].params))
    own = [name for name, each in CALIBRATORS.items() if each is kind]
    # Other packages are imported only if it is none of ours.
    for name in own or (n for n, each in every_calibrator().items() if each is kind):
        if not preset_of(name):
            return name
    raise InputError(
        f"{type(calibrator).__name__} is not one of gnncal's calibrators, nor does an installed "
        "package declare it; declare it as an entry point of the group gnncal.calibrators "
        "(docs/plugins.md)."
    )


def provider_of(name: str) -> str:
    """Return the package of a calibrator: ``"gnncal"``, or a name with its version."""
    return package_of(name, OWN_NAMES)


@dataclass(frozen=True)
class ParameterDescription:
    """One parameter of a constructor."""

    name: str
    default: Any
    expected: str  # what it may be; "" if anything


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
    parameters: tuple[ParameterDescription, ...]


def describe(name: str) -> MethodDescription:
    """Return the description of the calibrator with this name."""
    name = find_name(name)
    kind = class_of(name)
    preset = find_preset(name)
    given = {} if preset is None else preset.params
    made = kind(**given)
    first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return MethodDescription(
        name,
        kind.__name__,
        _plain(first) if preset is None else preset.summary,
        _advice(kind) if preset is None else preset.advice,
        made.preserves_predictions,
        made.needs_graph,
        kind.needs_torch,
        provider_of(name),
        tuple(
            ParameterDescription(
                parameter.name,
                parameter.default,
                kind.constraints[parameter.name].expected
                if parameter.name in kind.constraints
                else "",
            )
            for parameter in inspect.signature(kind).parameters.values()
            if parameter.name not in given
        ),
    )


def _advice(kind: type[Calibrator]) -> str:
    """Return the first paragraph of the docstring's notes, which says when to use the method."""
    documentation = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    _, _, notes = documentation.partition("\nNotes\n-----\n")
    return _plain(notes.partition("\n\n")[0])


def _plain(text: str) -> str:
    """Return a docstring's text on one line, without marks of code."""
    return " ".join(text.split()).replace("``", "")
