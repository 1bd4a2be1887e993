"""Checks for what you write: the laws that gnncal holds its own calibrators to.

>>> import gnncal
>>> gnncal.testing.check_calibrator(gnncal.calibrators.TemperatureScaling)  # it keeps every law
"""

from gnncal.testing.laws import LAWS, check_calibrator
from gnncal.testing.tasks import random_task

__all__ = ["LAWS", "check_calibrator", "random_task"]
