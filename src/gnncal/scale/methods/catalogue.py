"""Every method over tables, by the calibrator it belongs to."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.ablations import EntropyOnly
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import name_of
from gnncal.calibrators.entropy import EntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.ratio_binned import RatioBinnedScaling
from gnncal.calibrators.structural import StructuralLaw
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.core.errors import InputError
from gnncal.scale.methods.base import ScaleMethod
from gnncal.scale.methods.entropy import ScaleEntropy, ScaleEntropyOnly, ScaleTemperature
from gnncal.scale.methods.hots import ScaleHoTS
from gnncal.scale.methods.ratio_binned import ScaleRatioBinned
from gnncal.scale.methods.structural import ScaleStructural

METHODS: dict[type[Calibrator], type[ScaleMethod[Any]]] = {
    TemperatureScaling: ScaleTemperature,
    EntropyScaling: ScaleEntropy,
    EntropyOnly: ScaleEntropyOnly,
    HoTS: ScaleHoTS,
    StructuralLaw: ScaleStructural,
    RatioBinnedScaling: ScaleRatioBinned,
}


def method_for(calibrator: Calibrator) -> ScaleMethod[Any]:
    """Return the method over tables that belongs to a calibrator."""
    if type(calibrator) not in METHODS:
        raise InputError(
            f"{name_of(calibrator)} works in memory only; at scale use one of "
            f"{', '.join(name_of(kind()) for kind in METHODS)}."
        )
    return METHODS[type(calibrator)](calibrator)
