"""Everything that a calibrator, a metric or a conformal score of your own is made of.

What it has stays: a change to it is announced in the changelog. Everything that is neither here
nor in another public module may change without notice. ``docs/plugins.md`` shows how the parts fit
together, and :mod:`gnncal.testing` checks what you made of them.
"""

from gnncal.calibrators.base import Calibrator, FitReport, TemperatureCalibrator
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
from gnncal.core.errors import GnncalWarning, InputError
from gnncal.core.graph import Graph
from gnncal.core.learned import SOLVER_TABLE, TEXT, Array, LearnedTable, OneEachClass
from gnncal.decisions.scores import ConformalScore
from gnncal.fitting.losses import TemperatureLoss, loss_and_residual
from gnncal.formulas.methods import Portable
from gnncal.formulas.probability import normalised_entropy, normalised_homophily
from gnncal.homophily.base import CannotLearnError, HomophilyEstimator
from gnncal.metrics.floor import NoiseFloor
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.table import Metric
from gnncal.nodes import Nodes
from gnncal.probability import keep_predictions, scaled_probabilities, softmax

__all__ = [
    "FLAG",
    "NONE",
    "SEED",
    "SOLVER_TABLE",
    "TEXT",
    "Array",
    "BoolArray",
    "Calibrator",
    "CannotLearnError",
    "ConformalScore",
    "Constraint",
    "FitReport",
    "FloatArray",
    "GnncalWarning",
    "Graph",
    "HomophilyEstimator",
    "InputError",
    "IntArray",
    "LearnedTable",
    "Metric",
    "Nodes",
    "NoiseFloor",
    "OneEachClass",
    "Outcomes",
    "Portable",
    "TemperatureCalibrator",
    "TemperatureLoss",
    "keep_predictions",
    "loss_and_residual",
    "normalised_entropy",
    "normalised_homophily",
    "number",
    "number_range",
    "one_of",
    "scaled_probabilities",
    "softmax",
    "whole_number",
]
