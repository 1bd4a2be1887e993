"""Short training loops: the laws hold after any number of epochs."""

import pytest

from gnncal.math import solvers as protocols
from gnncal_lab.methods import simi_mailbox
from gnncal_lab.methods.neural import base as neural
from tests.contract.cases import EPOCHS


@pytest.fixture(autouse=True, scope="module")
def short_paper_loops():
    with pytest.MonkeyPatch.context() as patch:
        for module in (protocols, neural):
            patch.setattr(module, "PAPER_EPOCHS", EPOCHS)
        patch.setattr(simi_mailbox, "PUBLISHED_EPOCHS", EPOCHS)
        yield
