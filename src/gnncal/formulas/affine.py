"""Maps of logits or probabilities that the affine family is made of."""

from __future__ import annotations

from math import log
from typing import Any

from gnncal.backends import backend_of
from gnncal.formulas.probability import softmax

LOWEST_LOGARITHM = log(1.1754943508222875e-38)  # of the smallest normal float32: -87.3


def mixed_log_probabilities(z: Any, T: Any, uniform_weight: Any) -> Any:
    """SVS and SMS: x = ln[(1 - u) softmax(z / T) + u / K] with u = 1 / (n + 1)."""
    xp = backend_of(z)
    return xp.log(softmax(z, T) * (1.0 - uniform_weight) + uniform_weight / xp.width(z))


def affine_scores(x: Any, weight: Any, bias: Any) -> Any:
    """W x + b of each row, finite; a weight (K,) is the diagonal of W."""
    xp = backend_of(x)
    return xp.finite_(xp.product(x, weight) + bias)


def log_odds(z: Any) -> Any:
    """s = z_1 - z_0 of two classes, within the range of logarithms of a float32."""
    xp = backend_of(z)
    s = xp.shifted(z)  # whose difference cannot overflow
    return xp.minimum(xp.maximum(s[:, 1] - s[:, 0], LOWEST_LOGARITHM), -LOWEST_LOGARITHM)


def quadratic_score(s: Any, bias: Any, linear: Any, quadratic: Any) -> Any:
    """SVS and SMS with two classes: b + w_1 s + w_2 s^2, the logit of class 1."""
    return bias + linear * s + quadratic * s**2


def structured(z: Any, base_temperature: Any, uniform_weight: Any, weight: Any, bias: Any) -> Any:
    """SVS and SMS: softmax(W x + b) of the mixed log-probabilities x."""
    xp = backend_of(z)
    if len(bias) > 1:
        x = mixed_log_probabilities(z, base_temperature, uniform_weight)
        return softmax(affine_scores(x, weight, bias))
    score = quadratic_score(log_odds(z), bias, weight[0], weight[1])
    return softmax(xp.matrix([0.0 * score, score]))
