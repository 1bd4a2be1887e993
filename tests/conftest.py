"""Hypothesis is deterministic and never judges speed."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "laws",
    derandomize=True,
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("laws")
