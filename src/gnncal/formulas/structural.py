r"""The structural law and what is built on it.

.. math:: \ln T_i = \ln[T_c (1 - e_i) + T_u e_i] + w \cdot s_i + o_{\hat y_i}

.. math:: p_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + \delta))
"""

from __future__ import annotations

from typing import Any

from gnncal.backends import backend_of
from gnncal.formulas.probability import normalised_homophily, shifted, softmax

COVARIATES = (
    "support",  # normalised mean probability that the neighbours give to the predicted class
    "two_hop_support",  # the same among the neighbours' neighbours
    "neighbour_entropy",  # mean entropy of the neighbours' predictions
    "relative_confidence",  # confidence minus the neighbours' mean confidence
    "log_in_degree",  # ln(1 + in-degree) / 4
    "log_out_degree",  # ln(1 + out-degree) / 4
)
DEGREE_SCALE = 4.0  # brings the logarithm of a degree to the size of the others
LOG_TEMPERATURE = 5.0  # |ln T| stays below: beyond it softmax saturates or ties
FLOOR = 0.02  # delta: what a class gets if no neighbour gives it probability
SMALLEST_SUM = 1e-30  # of probabilities; a smaller one is none
LOWEST_LOGIT = -1e30  # divided by any temperature it still fits a float32


def covariates(
    *,
    support: Any,
    two_hop_support: Any,
    neighbour_entropy: Any,
    confidence: Any,
    neighbour_confidence: Any,
    in_degree: Any,
    out_degree: Any,
    n_classes: int,
) -> Any:
    """s, (n, 6), from what the neighbours give: shares in [0, 1], means and degrees."""
    xp = backend_of(support)
    return xp.matrix(
        [
            normalised_homophily(support, n_classes),
            normalised_homophily(two_hop_support, n_classes),
            neighbour_entropy,
            confidence - neighbour_confidence,
            xp.log1p(in_degree) / DEGREE_SCALE,
            xp.log1p(out_degree) / DEGREE_SCALE,
        ]
    )


def log_temperature(
    e: Any, s: Any, predictions: Any, certain: Any, uncertain: Any, weights: Any, offsets: Any
) -> Any:
    """ln T of each node, without limits; s is centred."""
    xp = backend_of(e)
    base = xp.log(certain * (1.0 - e) + uncertain * e)
    return base + xp.weighted(s, weights) + xp.of_class(offsets, predictions)


def limited(log_T: Any) -> Any:
    """Return ln T within the range of temperatures."""
    xp = backend_of(log_T)
    return xp.minimum(xp.maximum(log_T, -LOG_TEMPERATURE), LOG_TEMPERATURE)


def log_neighbours(mean_probs: Any) -> Any:
    """ln(p̄ + delta), kept away from ln 0."""
    return backend_of(mean_probs).log(mean_probs + FLOOR)


def scores(z: Any, T: Any, bias: Any, neighbour_weight: Any, mean_probs: Any) -> Any:
    """z / T + b + gamma ln(p̄ + delta), for logits of any size."""
    xp = backend_of(z)
    moved = xp.maximum_(shifted(z), LOWEST_LOGIT)
    return xp.divide_(moved, xp.column(T)) + bias + neighbour_weight * log_neighbours(mean_probs)


def divided_rest(probs: Any, predictions: Any, confidence: Any) -> Any:
    r"""Give each predicted class its confidence c, and the others the rest, none of them more.

    The others get min(lambda q, c), with q what ``probs`` gives them. The largest are at the
    limit first, so lambda is the largest of (1 - c - m c) / (sum of all but the m largest q) over
    m = 0, 1, ... Classes of probability zero share what no other class may take.
    """
    xp = backend_of(probs)
    q = xp.with_class(probs, predictions, 0.0)
    limit = xp.column(confidence)
    tails, m = xp.tails(q), xp.numbered(q)
    # A sum that is only rounding leaves nothing to divide.
    factor = (1.0 - limit - m * limit) / xp.maximum(tails, SMALLEST_SUM)
    factor = xp.largest(xp.where(tails > SMALLEST_SUM, factor, 0.0 * factor))
    share = xp.minimum(xp.column(xp.maximum(factor, 0.0)) * q, limit)
    empty = xp.with_class(xp.as_number(q <= 0.0, q), predictions, 0.0)
    missing = xp.maximum(1.0 - confidence - xp.total(share), 0.0)
    share = share + empty * xp.column(missing / xp.maximum(xp.total(empty), 1.0))
    share = xp.with_class(share, predictions, confidence)
    return xp.divide_(share, xp.column(xp.total(share)))


__all__ = ["COVARIATES", "covariates", "limited", "log_temperature", "scores", "softmax"]
