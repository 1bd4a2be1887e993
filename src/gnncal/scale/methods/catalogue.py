"""Every method over tables, by the name of its calibrator."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import name_of
from gnncal.core.errors import InputError
from gnncal.scale.methods.base import ScaleMethod
from gnncal.scale.methods.entropy import ScaleEntropy, ScaleEntropyOnly, ScaleTemperature
from gnncal.scale.methods.hots import ScaleHoTS
from gnncal.scale.methods.ratio_binned import ScaleRatioBinned
from gnncal.scale.methods.structural import ScaleStructural

METHODS: dict[str, type[ScaleMethod[Any]]] = {
    "ts": ScaleTemperature,
    "hts": ScaleEntropy,
    "entropy-only": ScaleEntropyOnly,
    "hots": ScaleHoTS,
    "structural": ScaleStructural,
    "structural-free": ScaleStructural,
    "structural-temperature": ScaleStructural,
    "structural-vector": ScaleStructural,
    "rbs": ScaleRatioBinned,
}


def method_for(calibrator: Calibrator) -> ScaleMethod[Any]:
    """Return the method over tables that belongs to a calibrator."""
    name = name_of(calibrator)
    if name not in METHODS:
        raise InputError(f"{name} works in memory only; at scale use one of {', '.join(METHODS)}.")
    return METHODS[name](calibrator)
