"""Calibrators behind ``fit`` and ``predict_proba``, and what one of your own is made of.

``docs/plugins.md`` shows how the parts fit together; :mod:`gnncal.testing` checks what you made of
them.
"""

from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator, FitReport, TemperatureCalibrator
from gnncal.calibrators.entropy import EntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import MultiClassIsotonic
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import FLAG, NONE, SEED, Constraint, choice, number, whole_number
from gnncal.core.learned import Array, LearnedTable
from gnncal.fitting.losses import TemperatureLoss
from gnncal.formulas.methods import Portable
from gnncal.formulas.probability import normalised_entropy
from gnncal.probability import (
    keep_predictions,
    logits_from_probabilities,
    scaled_probabilities,
    softmax,
)

__all__ = [
    "FLAG",
    "NONE",
    "SEED",
    "Array",
    "Auto",
    "Calibrator",
    "Constraint",
    "EntropyScaling",
    "FitReport",
    "FloatArray",
    "HoTS",
    "IntArray",
    "LearnedTable",
    "MultiClassIsotonic",
    "Portable",
    "Structural",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureCalibrator",
    "TemperatureLoss",
    "TemperatureScaling",
    "Uncalibrated",
    "choice",
    "keep_predictions",
    "logits_from_probabilities",
    "normalised_entropy",
    "number",
    "scaled_probabilities",
    "softmax",
    "whole_number",
]
