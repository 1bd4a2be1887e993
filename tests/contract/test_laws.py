"""Every calibrator, held to every law."""

import pytest

from gnncal.testing.laws import LAWS, a_planted_temperature_is_recovered
from tests.contract.cases import CASES, every_case_of, hold, method_of
from tests.contract.exceptions import EXCEPTIONS

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def test_every_exception_names_a_law_and_a_calibrator_that_there_are():
    assert set(EXCEPTIONS) <= {law.name for law in LAWS}
    known = {*CASES, *map(method_of, CASES)}
    assert {name for law in EXCEPTIONS.values() for name in law} <= known


def trained_for_long(make):
    calibrator = make()
    return calibrator.set_params(max_epochs=200) if calibrator.needs_torch else calibrator


@every_case_of(LAWS)
def test_a_calibrator_keeps_the_laws(law, make):
    learns = law is a_planted_temperature_is_recovered
    hold(law, (lambda: trained_for_long(make)) if learns else make)
