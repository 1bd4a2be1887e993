"""Short training loops: the laws hold after any number of epochs."""

import pytest

from gnncal.math.solvers import solve_like_the_paper
from gnncal_lab.methods import simi_mailbox
from gnncal_lab.methods.neural import base as neural
from tests.contract.cases import EPOCHS


@pytest.fixture(autouse=True, scope="module")
def short_paper_loops():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(solve_like_the_paper.__kwdefaults__, "max_epochs", EPOCHS)
        patch.setattr(neural, "PAPER_EPOCHS", EPOCHS)
        patch.setattr(simi_mailbox, "PUBLISHED_EPOCHS", EPOCHS)
        yield
