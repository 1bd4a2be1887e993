"""The method over tables that belongs to a calibrator."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.registry import name_of
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.temperature import EntropyScaling, TemperatureScaling
from gnncal.data.errors import InputError
from gnncal.scale.methods.base import ScaleMethod
from gnncal.scale.methods.entropy import ScaleEntropy, ScaleEntropyOnly, ScaleTemperature
from gnncal.scale.methods.hots import ScaleHoTS
from gnncal.scale.methods.structural import ScaleStructural

METHODS: dict[type[Calibrator], type[ScaleMethod[Any]]] = {
    TemperatureScaling: ScaleTemperature,
    EntropyScaling: ScaleEntropy,
    HoTS: ScaleHoTS,
    Structural: ScaleStructural,
}


def method_for(calibrator: Calibrator) -> ScaleMethod[Any]:
    """Return the method over tables that belongs to a calibrator."""
    if isinstance(calibrator, HoTS) and calibrator.without == "homophily":
        return ScaleEntropyOnly(calibrator)
    is_ablation = isinstance(calibrator, HoTS) and calibrator.without is not None
    if type(calibrator) not in METHODS or is_ablation:
        raise InputError(
            f"{name_of(calibrator)} works in memory only; at scale use one of ts, hts, hots, "
            "structural, structural-free."
        )
    return METHODS[type(calibrator)](calibrator)
