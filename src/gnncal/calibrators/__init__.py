"""Calibrators behind ``fit`` and ``predict_proba``, and what one of your own is made of.

``docs/plugins.md`` shows how the parts fit together; :mod:`gnncal.testing` checks what you made of
them. The methods of :mod:`gnncal_lab` are made of nothing else.
"""

from gnncal.calibrators.affine import (
    AffineCalibrator,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator, FitReport, TemperatureCalibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import MultiClassIsotonic
from gnncal.calibrators.own_logits import OwnLogitsCalibrator
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.calibrators.registry import Preset
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.temperature import EntropyScaling, TemperatureScaling, Uncalibrated
from gnncal.data.backend import backend_of
from gnncal.data.constraints import Array, Constraint, choice, number, whole_number
from gnncal.data.predictions import keep_predictions, logits_from_probabilities, softmax
from gnncal.math.formulas import Portable
from gnncal.math.losses import TemperatureLoss
from gnncal.math.solvers import Parameter, Solution, lbfgs, newton, solve_like_the_paper

__all__ = [
    "AffineCalibrator",
    "Array",
    "Auto",
    "Calibrator",
    "Constraint",
    "EntropyScaling",
    "FitReport",
    "HoTS",
    "MultiClassIsotonic",
    "OwnLogitsCalibrator",
    "Parameter",
    "ParametricTemperature",
    "Portable",
    "Preset",
    "Solution",
    "Structural",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureCalibrator",
    "TemperatureLoss",
    "TemperatureScaling",
    "Uncalibrated",
    "backend_of",
    "choice",
    "keep_predictions",
    "lbfgs",
    "logits_from_probabilities",
    "newton",
    "number",
    "softmax",
    "solve_like_the_paper",
    "whole_number",
]
