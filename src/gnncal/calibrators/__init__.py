"""Calibrators behind ``fit`` and ``predict_proba``, and what one of your own is made of.

``docs/plugins.md`` shows how the parts fit together; :mod:`gnncal.testing` checks what you made of
them. The methods of :mod:`gnncal_lab` are made of nothing else.
"""

from gnncal.backends import backend_of
from gnncal.calibrators.affine import AffineCalibrator
from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator, FitReport, TemperatureCalibrator
from gnncal.calibrators.entropy import EntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import MultiClassIsotonic
from gnncal.calibrators.own_logits import OwnLogitsCalibrator
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.calibrators.plugins import Preset
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.structured import StructuredMatrixScaling, StructuredVectorScaling
from gnncal.calibrators.temperature import TemperatureScaling, best_temperature
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.constraints import FLAG, NONE, SEED, Constraint, choice, number, whole_number
from gnncal.core.graph import Side
from gnncal.core.learned import (
    SOLVER_TABLE,
    TEXT,
    Array,
    LearnedTable,
    OneEachClass,
)
from gnncal.fitting.adam import Objective
from gnncal.fitting.losses import TemperatureLoss, loss_and_residual
from gnncal.fitting.parameters import TEMPERATURE_RANGE, Parameter
from gnncal.fitting.protocols import (
    PROTOCOLS,
    Protocol,
    solve_like_the_paper,
)
from gnncal.fitting.solvers import Solution, lbfgs, newton
from gnncal.formulas.methods import Portable, of_logits
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
    "PROTOCOLS",
    "SEED",
    "SOLVER_TABLE",
    "TEMPERATURE_RANGE",
    "TEXT",
    "AffineCalibrator",
    "Array",
    "Auto",
    "BoolArray",
    "Calibrator",
    "Constraint",
    "EntropyScaling",
    "FitReport",
    "FloatArray",
    "HoTS",
    "IntArray",
    "LearnedTable",
    "MultiClassIsotonic",
    "Objective",
    "OneEachClass",
    "OwnLogitsCalibrator",
    "Parameter",
    "ParametricTemperature",
    "Portable",
    "Preset",
    "Protocol",
    "Side",
    "Solution",
    "Structural",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureCalibrator",
    "TemperatureLoss",
    "TemperatureScaling",
    "Uncalibrated",
    "backend_of",
    "best_temperature",
    "choice",
    "keep_predictions",
    "lbfgs",
    "logits_from_probabilities",
    "loss_and_residual",
    "newton",
    "normalised_entropy",
    "number",
    "of_logits",
    "scaled_probabilities",
    "softmax",
    "solve_like_the_paper",
    "whole_number",
]
