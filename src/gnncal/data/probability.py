"""Softmax, entropy and their relatives: functions of each row of logits (n, K)."""

from __future__ import annotations

from math import log
from typing import Any

from gnncal.data.backend import backend_of

SMALLEST_PROBABILITY = 1e-12  # a certain mistake costs 27.6 nats instead of infinity
LOWEST_SHIFTED_LOGIT = -1e4  # exp of it is 0 in every precision, and 0 * -1e4 is not NaN


def shifted(z: Any) -> Any:
    """Return the logits with row maximum 0: keeps exp from overflowing and cancels in the ratio."""
    return backend_of(z).shifted(z)


def softmax(z: Any, T: Any = None) -> Any:
    """p_ik = exp(z_ik / T_i) / sum_j exp(z_ij / T_i); T is (n,), one number, or 1."""
    xp = backend_of(z)
    scores = shifted(z)
    if T is not None:
        scores = xp.divide_(scores, xp.column(T))
    weights = xp.exp_(scores)
    return xp.divide_(weights, xp.column(xp.total(weights)))


def normalised_entropy(z: Any) -> Any:
    """Return e_i = -sum_k p_ik ln p_ik / ln K of softmax(z_i), in [0, 1]."""
    xp = backend_of(z)
    s = xp.maximum_(shifted(z), LOWEST_SHIFTED_LOGIT)
    weights = xp.exp(s)
    return entropy_of_sums(xp.total(weights), xp.row_dot(weights, s), xp.width(z))


def entropy_of_sums(mass: Any, energy: Any, n_classes: int) -> Any:
    """e = (ln M - S / M) / ln K, with M = sum_k e^{s_k} and S = sum_k e^{s_k} s_k."""
    xp = backend_of(mass)
    e = xp.as_float64(xp.log(mass) - energy / mass) / log(n_classes)
    return xp.minimum(xp.maximum(e, 0.0), 1.0)


def concentration(e: Any, n_classes: int, minimum: Any = 0.0) -> Any:
    """sqrt(2 K ln K (1 - e)), the norm of the centred logits near the uniform distribution."""
    xp = backend_of(e)
    return xp.sqrt(xp.maximum(1.0 - e, minimum) * (2.0 * n_classes * log(n_classes)))


def normalised_homophily(h: Any, n_classes: int) -> Any:
    """Return h~ = (K h - 1) / (K - 1): 0 in a random neighbourhood, 1 in a pure one."""
    return (n_classes * h - 1.0) / (n_classes - 1.0)


def homophily_of(normalised: Any, n_classes: int) -> Any:
    """h = (1 + (K - 1) h~) / K, the inverse of :func:`normalised_homophily`."""
    return (1.0 + (n_classes - 1.0) * normalised) / n_classes
