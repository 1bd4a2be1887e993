"""Every calibrator by name. A new method is one file and one line here."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.ablations import EntropyOnly, HomophilyOnly, HoTSAlphaOne
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.ensemble import EnsembleTemperatureScaling
from gnncal.calibrators.entropy import EntropyScaling, LogEntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.neural.cagcn import CaGCN
from gnncal.calibrators.neural.gats import GATS
from gnncal.calibrators.neural.gets import GETS
from gnncal.calibrators.neural.wats import WATS
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.calibrators.vector import VectorScaling
from gnncal.core.errors import InputError, require

CALIBRATORS: dict[str, type[Calibrator]] = {
    "uncalibrated": Uncalibrated,
    "ts": TemperatureScaling,
    "vs": VectorScaling,
    "ets": EnsembleTemperatureScaling,
    "hts": EntropyScaling,
    "hts-log": LogEntropyScaling,
    "hots": HoTS,
    "entropy-only": EntropyOnly,
    "homophily-only": HomophilyOnly,
    "hots-alpha1": HoTSAlphaOne,
    "cagcn": CaGCN,
    "gats": GATS,
    "gets": GETS,
    "wats": WATS,
}


def list_calibrators() -> list[str]:
    """The names that :func:`get_calibrator` knows."""
    return list(CALIBRATORS)


def get_calibrator(name: str, **params: Any) -> Calibrator:
    """A calibrator by name, with its constructor's parameters."""
    try:
        calibrator = CALIBRATORS[name]
    except KeyError:
        known = ", ".join(CALIBRATORS)
        raise InputError(f"there is no calibrator {name!r}; choose one of {known}.") from None
    allowed = calibrator._get_param_names()
    unknown = sorted(set(params) - set(allowed))
    if unknown:
        raise InputError(
            f"{name} has no parameter {unknown[0]!r}; it takes {', '.join(allowed) or 'none'}."
        )
    if calibrator.needs_torch:
        require("torch", extra="neural", purpose=name)
    return calibrator(**params)


def name_of(calibrator: Calibrator) -> str:
    """The catalogue's name of a calibrator."""
    return next(name for name, kind in CALIBRATORS.items() if kind is type(calibrator))
