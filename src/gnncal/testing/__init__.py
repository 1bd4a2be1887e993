"""Checks for what you write: the laws that gnncal holds its own calibrators to.

>>> import gnncal
>>> gnncal.testing.check_calibrator(gnncal.TemperatureScaling)  # silence: it keeps every law
"""

from gnncal.testing.check import check_calibrator
from gnncal.testing.law import Law
from gnncal.testing.laws import LAWS
from gnncal.testing.tasks import Task, random_task, small_task

__all__ = [
    "LAWS",
    "Law",
    "Task",
    "check_calibrator",
    "random_task",
    "small_task",
]
