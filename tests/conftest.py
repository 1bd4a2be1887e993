"""Two Hypothesis profiles: a quick one that is the same every time, and a thorough search.

``make test`` takes the quick one, ``make test-thorough`` the other.
"""

import gc

from hypothesis import HealthCheck, settings

# The modules that tests import are a million objects that live until the end. Nothing of them is
# garbage, so it is not searched while they are imported, and they are not searched afterwards.
gc.disable()


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


settings.register_profile(
    "quick",
    derandomize=True,
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
