"""Checks for what you write: the laws that gnncal holds its own calibrators, scores, metrics to.

>>> import gnncal
>>> gnncal.testing.check_calibrator(gnncal.TemperatureScaling)  # silence: it keeps every law
"""

from gnncal.testing.check import check_calibrator, check_metric, check_score
from gnncal.testing.law import Law
from gnncal.testing.laws import LAWS, METRIC_LAWS, SCORE_LAWS
from gnncal.testing.tasks import Task, random_task, small_task

__all__ = [
    "LAWS",
    "METRIC_LAWS",
    "SCORE_LAWS",
    "Law",
    "Task",
    "check_calibrator",
    "check_metric",
    "check_score",
    "random_task",
    "small_task",
]
