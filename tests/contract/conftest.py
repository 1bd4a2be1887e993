"""Short training loops: the laws hold after any number of epochs."""

import pytest

from gnncal.calibrators import simi_mailbox
from gnncal.fitting import protocols
from tests.contract.cases import EPOCHS


@pytest.fixture(autouse=True, scope="module")
def short_paper_loops():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "PAPER_EPOCHS", EPOCHS)
        patch.setattr(simi_mailbox, "PUBLISHED_EPOCHS", EPOCHS)
        yield
