"""Every calibrator by name. A new method is one file and one line here.

``CALIBRATORS`` and ``PRESETS`` are the product's own. Those of the laboratory and of other packages
join them through entry points (``plugins.py``); :func:`every_calibrator` and :func:`class_of` know
them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.entropy import EntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import MultiClassIsotonic
from gnncal.calibrators.plugins import (
    Preset,
    declared_presets,
    load_plugin,
    package_of,
    plugin_names,
)
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.core.errors import InputError, require, shown
from gnncal.core.names import plain_name, suggestion

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
