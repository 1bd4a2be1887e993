"""Maps of logits or probabilities that the affine family and ETS are made of."""

from __future__ import annotations

from typing import Any

from gnncal.backends import backend_of
from gnncal.formulas.probability import softmax

SMALLEST_NORMAL = 1.1754943508222875e-38  # of float32; a probability whose logarithm is -87.3


def log_probabilities(z: Any) -> Any:
    """Dirichlet calibration's x = ln softmax(z), finite."""
    xp = backend_of(z)
    return xp.log(xp.maximum(softmax(z), SMALLEST_NORMAL))


def mixed_log_probabilities(z: Any, T: Any, uniform_weight: Any) -> Any:
    """SVS and SMS: x = ln[(1 - u) softmax(z / T) + u / K] with u = 1 / (n + 1)."""
    xp = backend_of(z)
    return xp.log(softmax(z, T) * (1.0 - uniform_weight) + uniform_weight / xp.width(z))


def log_odds(z: Any) -> Any:
    """s = z_1 - z_0 of two classes, within the range of logarithms of a float32."""
    xp = backend_of(z)
    limit = 87.33654475055310
    return xp.minimum(xp.maximum(z[:, 1] - z[:, 0], -limit), limit)


def quadratic_score(s: Any, bias: Any, linear: Any, quadratic: Any) -> Any:
    """SVS and SMS with two classes: b + w_1 s + w_2 s^2, the logit of class 1."""
    return bias + linear * s + quadratic * s**2


def mixture(z: Any, T: Any, weights: Any) -> Any:
    """ETS: w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K, rows normalised."""
    xp = backend_of(z)
    mixed = weights[0] * softmax(z, T) + weights[1] * softmax(z) + weights[2] / xp.width(z)
    return xp.divide_(mixed, xp.column(xp.total(mixed)))
