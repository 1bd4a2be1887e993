"""Temperatures of published methods: functions of entropy, homophily and the fitted parameters."""

from __future__ import annotations

from typing import Any

from gnncal.backends import backend_of
from gnncal.formulas.probability import normalised_homophily

SMALLEST_ENTROPY = 1e-8  # ln of it is finite, and float32 entropies are no finer
SMALLEST_TEMPERATURE = 0.006737946999085467  # e^-5: below, softmax saturates or ties
FLOAT32_DIGITS = 5  # the same for sums of float32
RATIO_DIGITS = 9  # of a ratio times the number of bins: sums in another order fall into one bin


def entropy_temperature(e: Any, certain: Any, uncertain: Any, floor: Any = None) -> Any:
    """HTS as the HoTS paper writes it: T = (1 - e) T_0 + e T_1, not below the release's floor."""
    T = (1.0 - e) * certain + e * uncertain
    return T if floor is None else backend_of(e).maximum(T, floor)


def log_entropy(e: Any) -> Any:
    """Return ln e, finite at e = 0."""
    xp = backend_of(e)
    return xp.log(xp.maximum(e, SMALLEST_ENTROPY))


def log_entropy_temperature(log_e: Any, slope: Any, intercept: Any) -> Any:
    """HTS as its authors define it: T = softplus(w ln e + b)."""
    xp = backend_of(log_e)
    return xp.maximum(xp.softplus(slope * log_e + intercept), SMALLEST_TEMPERATURE)


def log_signal(h: Any, n_classes: int, epsilon: Any) -> Any:
    """ln(|h~| + epsilon), the homophily signal of HoTS."""
    xp = backend_of(h)
    return xp.log(xp.absolute(normalised_homophily(h, n_classes)) + epsilon)


def power_ratio(numerator: Any, log_signal: Any, alpha: Any) -> Any:
    """c / (|h~| + epsilon)^alpha, from c and ln(|h~| + epsilon).

    HoTS has c = sqrt(2 K ln K (1 - e)). Its ablations fix a part: c = 1 without the entropy,
    alpha = 0 without homophily, alpha = 1 in the first order of the theory.
    """
    return numerator * backend_of(log_signal).exp(-alpha * log_signal)


def power_law(ratio: Any, base: Any, beta: Any) -> Any:
    """HoTS: T = T_base + beta c / (|h~| + epsilon)^alpha, from the ratio."""
    return base + beta * ratio


def ratio_bin(ratio: Any, n_bins: int, digits: int = RATIO_DIGITS) -> Any:
    """RBS: the bin b of each ratio in (b/B, (b+1)/B]; the first one contains 0."""
    xp = backend_of(ratio)
    edge = xp.ceil(xp.rounded(ratio * n_bins, digits))
    return xp.minimum(xp.maximum(edge - 1, 0), n_bins - 1)
