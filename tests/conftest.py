"""Two Hypothesis profiles: a quick one that is the same every time, and a thorough search.

``make test`` takes the quick one, ``make test-thorough`` the other.
"""

from hypothesis import HealthCheck, settings

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
