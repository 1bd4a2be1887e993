"""Which module stands for which calibrator. A method that gets one is one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnncal.calibrators.ablations import EntropyOnly, HomophilyOnly, HoTSAlphaOne
from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import every_calibrator
from gnncal.calibrators.dirichlet import DirichletCalibration
from gnncal.calibrators.ensemble import EnsembleTemperatureScaling
from gnncal.calibrators.entropy import EntropyScaling, LogEntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.ratio_binned import RatioBinnedScaling
from gnncal.calibrators.structural import StructuralLaw
from gnncal.calibrators.structural_graph import StructuralGraph
from gnncal.calibrators.structural_remainder import StructuralRemainder
from gnncal.calibrators.structural_vector import StructuralVector
from gnncal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.calibrators.vector import VectorScaling
from gnncal.core.errors import InputError
from gnncal.torch.affine import DirichletModule, MixtureModule, StructuredModule, VectorModule
from gnncal.torch.homophily import AlphaOneModule, HomophilyOnlyModule, HoTSModule
from gnncal.torch.module import CalibratorModule
from gnncal.torch.ratio_binned import RatioBinnedModule
from gnncal.torch.remainder import RemainderModule
from gnncal.torch.structural import LawModule, ScoresModule
from gnncal.torch.temperatures import (
    ConcentrationTemperature,
    EntropyTemperature,
    LogEntropyTemperature,
    OneTemperature,
)

MODULES: dict[type[Calibrator], Callable[[Any], CalibratorModule]] = {
    Uncalibrated: OneTemperature.of,
    TemperatureScaling: OneTemperature.of,
    EntropyScaling: EntropyTemperature.of,
    LogEntropyScaling: LogEntropyTemperature.of,
    EntropyOnly: ConcentrationTemperature.of,
    EnsembleTemperatureScaling: MixtureModule.of,
    VectorScaling: VectorModule.of,
    StructuredVectorScaling: StructuredModule.of,
    StructuredMatrixScaling: StructuredModule.of,
    DirichletCalibration: DirichletModule.of,
    HoTS: HoTSModule.of,
    HoTSAlphaOne: AlphaOneModule.of,
    HomophilyOnly: HomophilyOnlyModule.of,
    RatioBinnedScaling: RatioBinnedModule.of,
    StructuralLaw: LawModule.of,
    StructuralVector: ScoresModule.of,
    StructuralGraph: ScoresModule.of,
    StructuralRemainder: RemainderModule.of,
    Auto: lambda calibrator: to_module(calibrator.chosen()),
}


def to_module(calibrator: Calibrator) -> CalibratorModule:
    """Return the module of a fitted calibrator, which is what ``calibrator.to_torch()`` calls.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.

    Returns
    -------
    CalibratorModule
        A module whose buffers hold what was learned.

    Raises
    ------
    InputError
        If the method needs more than logits and edges.

    Examples
    --------
    >>> from gnncal import TemperatureScaling
    >>> from gnncal.torch import to_module
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> to_module(TemperatureScaling().fit(logits, labels))
    OneTemperature(n_classes=2, hops=0)

    """
    build = MODULES.get(type(calibrator))
    if build is None:
        known = [name for name, kind in every_calibrator().items() if kind in MODULES]
        raise InputError(
            f"{type(calibrator).__name__} cannot become a torch module of logits and edges; call "
            f"its predict_proba, or fit one of {', '.join(known)}."
        )
    return build(calibrator)
