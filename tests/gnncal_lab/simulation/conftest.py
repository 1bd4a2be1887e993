"""Every experiment at its small size, computed when a test first asks for it."""

import pytest

from gnncal_lab.pages.csbm.experiments import get_experiment


class Records(dict):
    def __missing__(self, name):
        self[name] = get_experiment(name).run(small=True)
        return self[name]


@pytest.fixture(scope="session")
def records():
    return Records()
