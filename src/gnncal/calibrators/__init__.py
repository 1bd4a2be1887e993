"""What calibrators are made of: their bases, parameters, learned numbers, losses and solvers.

Everything that a method of another package needs is here or in the top level; ``docs/plugins.md``
shows how the parts fit together, and :mod:`gnncal.testing` checks what you made of them. The
methods of :mod:`gnncal_lab` use nothing else.
"""

from gnncal.backends import backend_of
from gnncal.calibrators.affine import AffineCalibrator
from gnncal.calibrators.base import Calibrator, FitReport, TemperatureCalibrator
from gnncal.calibrators.own_logits import OwnLogitsCalibrator
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.calibrators.plugins import Preset
from gnncal.calibrators.temperature import best_temperature
from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.constraints import (
    FLAG,
    NONE,
    SEED,
    Constraint,
    number,
    number_range,
    one_of,
    whole_number,
)
from gnncal.core.errors import warn
from gnncal.core.graph import Side
from gnncal.core.learned import (
    SOLVER_TABLE,
    TEXT,
    Array,
    LearnedTable,
    OneEachClass,
    check_recalled_nodes,
)
from gnncal.fitting.adam import Objective, adam
from gnncal.fitting.losses import TemperatureLoss, loss_and_residual
from gnncal.fitting.parameters import TEMPERATURE_RANGE, Parameter
from gnncal.fitting.protocols import (
    PROTOCOLS,
    Protocol,
    check_protocol,
    solve_like_the_paper,
    warn_unless_converged,
)
from gnncal.fitting.solvers import Solution, lbfgs, newton
from gnncal.formulas.methods import Portable, of_logits
from gnncal.formulas.probability import normalised_entropy, normalised_homophily, softmax
from gnncal.probability import keep_predictions, log_losses, scaled_probabilities

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
    "BoolArray",
    "Calibrator",
    "Constraint",
    "FitReport",
    "FloatArray",
    "IntArray",
    "LearnedTable",
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
    "TemperatureCalibrator",
    "TemperatureLoss",
    "adam",
    "backend_of",
    "best_temperature",
    "check_protocol",
    "check_recalled_nodes",
    "keep_predictions",
    "lbfgs",
    "log_losses",
    "loss_and_residual",
    "newton",
    "normalised_entropy",
    "normalised_homophily",
    "number",
    "number_range",
    "of_logits",
    "one_of",
    "scaled_probabilities",
    "softmax",
    "solve_like_the_paper",
    "warn",
    "warn_unless_converged",
    "whole_number",
]
