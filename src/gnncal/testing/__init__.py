"""Tests for your own calibrators: laws that every calibrator must satisfy.

>>> import gnncal
>>> gnncal.testing.check_calibrator(gnncal.calibrators.TemperatureScaling)  # no error: all hold
"""

from gnncal.testing.laws import LAWS, check_calibrator
from gnncal.testing.tasks import random_task

__all__ = ["LAWS", "check_calibrator", "random_task"]
