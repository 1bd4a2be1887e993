"""Metrics of probabilities: the table ``METRICS``, and functions with more options."""

from gnncal.metrics.binning import calibration_by_group, reliability_bins
from gnncal.metrics.calibration import expected_calibration_error
from gnncal.metrics.floor import calibration_floor
from gnncal.metrics.outcomes import Outcomes, clopper_pearson
from gnncal.metrics.ranking import risk_coverage_curve
from gnncal.metrics.table import METRICS, Metric
from gnncal.metrics.uncertainty import estimate_calibration_error

__all__ = [
    "METRICS",
    "Metric",
    "Outcomes",
    "calibration_by_group",
    "calibration_floor",
    "clopper_pearson",
    "estimate_calibration_error",
    "expected_calibration_error",
    "reliability_bins",
    "risk_coverage_curve",
]
