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
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.core.constraints import Constraint, choice, number, whole_number
from gnncal.core.learned import Array
from gnncal.fitting.losses import TemperatureLoss
from gnncal.fitting.parameters import Parameter
from gnncal.fitting.protocols import solve_like_the_paper
from gnncal.fitting.solvers import Solution, lbfgs, newton
from gnncal.formulas.methods import Portable
from gnncal.probability import keep_predictions, logits_from_probabilities, softmax

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
