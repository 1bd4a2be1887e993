"""Metrics of probabilities: ``(labels, probs, *, ...)`` in, numbers or small records out."""

from gnncal.metrics.binning import DEFAULT_BINS, Cells, ReliabilityBins, reliability_bins
from gnncal.metrics.calibration import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    smooth_calibration_error,
)
from gnncal.metrics.error_detection import error_aupr, error_auroc
from gnncal.metrics.floor import NoiseFloor, calibration_floor, degree_floor
from gnncal.metrics.groups import (
    GroupCells,
    calibration_by_group,
    degree_blocks,
    degree_ece,
    grouped_calibration_error,
)
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.positive import (
    positive_bins,
    positive_brier_score,
    positive_calibration_error,
    positive_floor,
)
from gnncal.metrics.proportions import clopper_pearson
from gnncal.metrics.retrieval import (
    average_precision,
    positive_auroc,
    precision_among_top,
    recall_among_top,
    recall_at_precision,
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
from gnncal.metrics.table import METRICS, Metric, measure
from gnncal.metrics.uncertainty import CalibrationEstimate, estimate_calibration_error

__all__ = [
    "DEFAULT_BINS",
    "METRICS",
    "CalibrationEstimate",
    "Cells",
    "GroupCells",
    "Metric",
    "NoiseFloor",
    "Outcomes",
    "ReliabilityBins",
    "RiskCoverage",
    "accuracy",
    "aurc",
    "average_precision",
    "brier_score",
    "calibration_by_group",
    "calibration_floor",
    "classwise_calibration_error",
    "clopper_pearson",
    "degree_blocks",
    "degree_ece",
    "degree_floor",
    "error_aupr",
    "error_auroc",
    "estimate_calibration_error",
    "expected_calibration_error",
    "grouped_calibration_error",
    "maximum_calibration_error",
    "measure",
    "negative_log_likelihood",
    "positive_auroc",
    "positive_bins",
    "positive_brier_score",
    "positive_calibration_error",
    "positive_floor",
    "precision_among_top",
    "prediction_change_rate",
    "recall_among_top",
    "recall_at_precision",
    "reliability_bins",
    "risk_coverage_curve",
    "selective_accuracy",
    "smooth_calibration_error",
]
