"""Every experiment once, at its small size."""

import pytest

from gnncal.simulation.experiments.catalogue import EXPERIMENTS, run_experiment


@pytest.fixture(scope="session")
def records():
    return {name: run_experiment(name, small=True) for name in EXPERIMENTS}
