"""What every calibrator returns: finite probabilities in the right form, and the right errors."""

import pytest

from gnncal.testing.laws import PROBABILITIES
from tests.contract.cases import every_case_of, hold

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@every_case_of(PROBABILITIES)
def test_probabilities(law, make):
    hold(law, make)
