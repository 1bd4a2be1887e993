"""Short training loops: the laws hold after any number of epochs."""

import pytest

from gnncal.fitting import protocols
from tests.contract.cases import EPOCHS


@pytest.fixture(autouse=True, scope="module")
def short_paper_loops():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "PAPER_EPOCHS", EPOCHS)
        yield
