"""Metrics: ``(labels, probs, *, ...)`` in, numbers or small records out."""

from gnncal.metrics.binning import Cells, ReliabilityBins, reliability_bins
from gnncal.metrics.calibration import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    smooth_calibration_error,
)
from gnncal.metrics.floor import NoiseFloor, calibration_floor
from gnncal.metrics.groups import (
    GroupCells,
    calibration_by_group,
    degree_blocks,
    degree_stratified_ece,
    grouped_calibration_error,
)
from gnncal.metrics.risk_coverage import (
    RiskCoverage,
    aurc,
    risk_coverage_curve,
    selective_accuracy,
)
from gnncal.metrics.scoring import (
    accuracy,
    brier_score,
    negative_log_likelihood,
    prediction_change_rate,
)
from gnncal.metrics.uncertainty import CalibrationEstimate, estimate_calibration_error

__all__ = [
    "CalibrationEstimate",
    "Cells",
    "GroupCells",
    "NoiseFloor",
    "ReliabilityBins",
    "RiskCoverage",
    "accuracy",
    "aurc",
    "brier_score",
    "calibration_by_group",
    "calibration_floor",
    "classwise_calibration_error",
    "degree_blocks",
    "degree_stratified_ece",
    "estimate_calibration_error",
    "expected_calibration_error",
    "grouped_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "prediction_change_rate",
    "reliability_bins",
    "risk_coverage_curve",
    "selective_accuracy",
    "smooth_calibration_error",
]
