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
from gnncal.calibrators.base import Calibrator, PointwiseCalibrator, TemperatureCalibrator
from gnncal.calibrators.fit_report import FitReport
from gnncal.calibrators.homophily import Predictor
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.isotonic import MultiClassIsotonic
from gnncal.calibrators.registry import CALIBRATORS, PRESETS, Preset
from gnncal.calibrators.structural import Structural, StructuralTemperature
from gnncal.calibrators.temperature import (
    EntropyScaling,
    ParametricTemperature,
    TemperatureScaling,
    Uncalibrated,
)
from gnncal.data.arrays import backend_of
from gnncal.data.constraints import Array, Constraint, integer, number, one_of
from gnncal.data.probability import keep_predictions, logits_from_probabilities, softmax
from gnncal.math.formulas import Formula
from gnncal.math.losses import TemperatureLoss
from gnncal.math.solvers import Parameter, Solution, lbfgs, newton, solve_like_the_paper

__all__ = [
    "AffineCalibrator",
    "Array",
    "Calibrator",
    "Constraint",
    "FitReport",
    "Formula",
    "HoTS",
    "Parameter",
    "ParametricTemperature",
    "PointwiseCalibrator",
    "Solution",
    "Structural",
    "TemperatureCalibrator",
    "TemperatureLoss",
    "TemperatureScaling",
    "backend_of",
    "integer",
    "keep_predictions",
    "lbfgs",
    "logits_from_probabilities",
    "newton",
    "number",
    "one_of",
    "softmax",
    "solve_like_the_paper",
]

CALIBRATORS |= {
    "uncalibrated": Uncalibrated,
    "ts": TemperatureScaling,
    "hts": EntropyScaling,
    "svs": StructuredVectorScaling,
    "sms": StructuredMatrixScaling,
    "irm": MultiClassIsotonic,
    "hots": HoTS,
    "structural-temperature": StructuralTemperature,
    "structural": Structural,
    "auto": Auto,
}
# Names that stand for a class with some parameters set, and what that makes of it.
PRESETS |= {
    "hots-paper": Preset(
        HoTS,
        {"homophily": Predictor(), "protocol": "paper"},
        "HoTS as published: the paper's homophily predictor and early-stopped fit.",
        "Use it to reproduce the paper. It needs node features and train_nodes; hots needs "
        "neither and is fitted to convergence.",
    ),
    "structural-free": Preset(
        Structural,
        {"keep_predictions": False},
        "The structural method with a class bias and a vote of the neighbours.",
        "Use it if predictions may change, above all if the model was trained with class weights.",
    ),
}
