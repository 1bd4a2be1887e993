"""What must not matter to a fit: hidden labels, order, a constant, fitting twice, the caller."""

import pytest

from gnncal.testing.laws import INVARIANCE
from tests.contract.cases import every_case_of, hold

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@every_case_of(INVARIANCE)
def test_invariance(law, make):
    hold(law, make)
