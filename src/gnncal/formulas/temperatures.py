"""Temperatures of published methods: functions of entropy, homophily and the fitted parameters."""

from __future__ import annotations

from typing import Any

from gnncal.backends import backend_of
from gnncal.formulas.probability import normalised_homophily


def entropy_temperature(e: Any, certain: Any, uncertain: Any, floor: Any = None) -> Any:
    """HTS as the HoTS paper writes it: T = (1 - e) T_0 + e T_1, not below the release's floor."""
    T = (1.0 - e) * certain + e * uncertain
    return T if floor is None else backend_of(e).maximum(T, floor)


def log_signal(h: Any, n_classes: int, epsilon: Any) -> Any:
    """ln(|h~| + epsilon), the homophily signal of HoTS."""
    xp = backend_of(h)
    return xp.log(xp.absolute(normalised_homophily(h, n_classes)) + epsilon)


def power_ratio(numerator: Any, log_signal: Any, alpha: Any) -> Any:
    """c / (|h~| + epsilon)^alpha, from c and ln(|h~| + epsilon)."""
    return numerator * backend_of(log_signal).exp(-alpha * log_signal)


def power_law(ratio: Any, base: Any, beta: Any) -> Any:
    """HoTS: T = T_base + beta c / (|h~| + epsilon)^alpha, from the ratio."""
    return base + beta * ratio
