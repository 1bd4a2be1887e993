"""Random numbers of the tests: a seed for each test, and two profiles of Hypothesis.

``make test`` takes the quick profile, which is the same every time, ``make test-thorough`` the
thorough one. ``GNNCAL_TEST_SEED=1 make test`` takes other numbers, and other examples each time;
``PYTEST_ADDOPTS=--hypothesis-seed=1`` fixes these too.
"""

import gc
import os
import random
import sys
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

BASE_SEED = os.environ.get("GNNCAL_TEST_SEED", "")


@pytest.fixture(autouse=True)
def seeded(request):
    """Seed the global generators with the test's name: what it draws depends on nothing else."""
    seed = zlib.crc32(f"{BASE_SEED}{request.node.nodeid}".encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if "torch" in sys.modules:  # where a test imports it first, it has a seed of its own
        sys.modules["torch"].manual_seed(seed)


# The modules that tests import are a million objects that live until the end. Nothing of them is
# garbage, so it is not searched while they are imported, and they are not searched afterwards.
gc.disable()


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


settings.register_profile(
    "quick",
    derandomize=not BASE_SEED,
    deadline=None,  # a loaded machine is no defect
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "thorough",
    settings.get_profile("quick"),
    derandomize=False,
    max_examples=150,
    print_blob=True,
)
settings.load_profile("quick")
