"""What a fitted calibrator still does after it was saved, and with labels known in advance."""

import pytest

from gnncal.testing.laws import SERVING
from tests.contract.cases import every_case_of, hold

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@every_case_of(SERVING)
def test_serving(law, make):
    hold(law, make)
