"""Every calibrator by name. A new method is one file and one line here.

Calibrators of other packages join them (``plugins.py``). ``CALIBRATORS`` are gnncal's own; everyone
else asks :func:`every_calibrator` or :func:`class_of`, which know those of others too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.beta import BetaCalibration
from gnncal.calibrators.dirichlet import DirichletCalibration
from gnncal.calibrators.ensemble import EnsembleTemperatureScaling
from gnncal.calibrators.entropy import EntropyScaling, LogEntropyScaling
from gnncal.calibrators.histogram import HistogramBinning
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import IsotonicCalibration, MultiClassIsotonic
from gnncal.calibrators.matrix import MatrixScaling
from gnncal.calibrators.neural.cagcn import CaGCN
from gnncal.calibrators.neural.gats import GATS
from gnncal.calibrators.neural.gets import GETS
from gnncal.calibrators.neural.wats import WATS
from gnncal.calibrators.order_invariant import OrderInvariant
from gnncal.calibrators.platt import PlattScaling
from gnncal.calibrators.plugins import load_plugin, package_of, plugin_names
from gnncal.calibrators.ratio_binned import RatioBinnedScaling
from gnncal.calibrators.simi_mailbox import SimiMailbox
from gnncal.calibrators.spline import SplineCalibration
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.calibrators.vector import VectorScaling
from gnncal.core.errors import InputError, require, shown
from gnncal.core.names import plain_name, suggestion


class Preset(NamedTuple):
    """Parameters that a name sets, what the calibrator then is, and when to use it."""

    params: Mapping[str, Any]
    summary: str
    advice: str


CALIBRATORS: dict[str, type[Calibrator]] = {
    "uncalibrated": Uncalibrated,
    "ts": TemperatureScaling,
    "vs": VectorScaling,
    "ets": EnsembleTemperatureScaling,
    "hts": EntropyScaling,
    "hts-log": LogEntropyScaling,
    "svs": StructuredVectorScaling,
    "sms": StructuredMatrixScaling,
    "matrix": MatrixScaling,
    "dirichlet": DirichletCalibration,
    "order-invariant": OrderInvariant,
    "platt": PlattScaling,
    "beta": BetaCalibration,
    "isotonic": IsotonicCalibration,
    "irm": MultiClassIsotonic,
    "histogram": HistogramBinning,
    "spline": SplineCalibration,
    "rbs": RatioBinnedScaling,
    "simi-mailbox": SimiMailbox,
    "structural": Structural,
    "structural-free": Structural,
    "structural-temperature": Structural,
    "structural-vector": Structural,
    "auto": Auto,
    "hots": HoTS,
    "entropy-only": HoTS,
    "homophily-only": HoTS,
    "hots-alpha1": HoTS,
    "cagcn": CaGCN,
    "gats": GATS,
    "gets": GETS,
    "wats": WATS,
}

# Names that stand for a class with some parameters set, and what that makes of it.
PRESETS: dict[str, Preset] = {
    "structural-free": Preset(
        {"keep_predictions": False},
        "The structural calibrator with predictions that may change.",
        "Use it where predictions may change. It has the lowest log loss of all methods here, "
        "because it lets the neighbours correct the model.",
    ),
    "structural-temperature": Preset(
        {"without": "remainder"},
        "The structural law alone: an ablation that divides all logits of a node by one number.",
        "Use it where each node must have one temperature, or as the ablation of structural that "
        "leaves the other classes' shares as they are.",
    ),
    "structural-vector": Preset(
        {"keep_predictions": False, "without": "neighbours"},
        "The structural law and a bias for each class: an ablation of structural-free.",
        "Use it where predictions may change, but the neighbours should not outvote the model.",
    ),
    "entropy-only": Preset(
        {"without": "homophily"},
        "HoTS without homophily: a temperature from the entropy alone.",
        "Use it as the ablation of HoTS without homophily. With few calibration nodes it does "
        "better than hots does.",
    ),
    "homophily-only": Preset(
        {"without": "entropy"},
        "HoTS without the entropy: a temperature from homophily alone.",
        "Use it as the ablation of HoTS without entropy.",
    ),
    "hots-alpha1": Preset(
        {"without": "exponent"},
        "HoTS with the exponent fixed at 1, the first order of the theory.",
        "Use it as the ablation of HoTS with its exponent fixed at one.",
    ),
}
NO_PRESET: Mapping[str, Any] = {}

_FITTING = {
    "closed form": "in closed form",
    "convex": "convex and solved to its one minimum",
    "posterior": "the most probable one under a prior",
    "choice": "a choice among fits",
}


def every_calibrator() -> dict[str, type[Calibrator]]:
    """Return every calibrator by name: gnncal's own, then those of other packages."""
    loaded = {name: load_plugin(name, CALIBRATORS) for name in plugin_names(CALIBRATORS)}
    return CALIBRATORS | {name: kind for name, kind in loaded.items() if kind is not None}


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
    ['uncalibrated', 'ts', 'vs']

    """
    return list(every_calibrator())


def find_name(name: str) -> str:
    """Return the name of a calibrator as the catalogue spells it.

    Case and ``_`` for ``-`` do not matter: ``"HOTS"`` is hots, ``"entropy_only"`` entropy-only.
    """
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
    return CALIBRATORS.get(name) or load_plugin(name, CALIBRATORS)


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
    return PRESETS[name].params if name in PRESETS else NO_PRESET


def name_of(calibrator: Calibrator) -> str:
    """Return the catalogue's name of a calibrator; of several the one that sets most."""
    params = calibrator.get_params(deep=False)

    def names(known: Mapping[str, type[Calibrator]]) -> list[str]:
        return [
            name
            for name, kind in known.items()
            if kind is type(calibrator)
            and all(params[key] == value for key, value in preset_of(name).items())
        ]

    # The packages of others are imported only if it is none of ours.
    matching = names(CALIBRATORS) or names(every_calibrator())
    if matching:
        return max(matching, key=lambda name: len(preset_of(name)))
    raise InputError(
        f"{type(calibrator).__name__} is not one of gnncal's calibrators, nor does an installed "
        "package declare it; declare it as an entry point of the group gnncal.calibrators "
        "(docs/plugins.md)."
    )


def provider_of(name: str) -> str:
    """Return the package of a calibrator: ``"gnncal"``, or a name with its version."""
    return package_of(name, CALIBRATORS)
