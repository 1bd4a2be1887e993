"""A constructor parameter that cannot be used is named before any work is done."""

import pytest

from gnncal.testing.laws import PARAMETERS
from tests.contract.cases import every_case_of, hold

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@every_case_of(PARAMETERS)
def test_parameters(law, make):
    hold(law, make)
