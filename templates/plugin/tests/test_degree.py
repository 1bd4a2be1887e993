"""The calibrator keeps gnncal's laws and is found by its name."""

from gnncal_degree.degree import DegreeTemperature

import gnncal


def test_it_keeps_every_law():
    # A law that cannot hold: expected_failures={"the law's name": "the reason"}.
    gnncal.testing.check_calibrator(DegreeTemperature)


def test_gnncal_finds_it():
    assert isinstance(gnncal.get_calibrator("degree"), DegreeTemperature)
