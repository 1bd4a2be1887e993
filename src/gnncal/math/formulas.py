"""Formulas of methods for arrays and tensors alike, and fitted methods as functions of nodes.

``nodes`` has ``logits``, ``predictions``, ``entropy``, ``n_classes``, ``neighbours`` (a
:class:`gnncal.graph.neighbours.Neighbours`) and ``cached``, which computes a function of the nodes
at most once. Functions called ``..._temperature`` return T (n,), the others probabilities (n, K).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log, nan
from typing import Any, Self

from gnncal.data.arrays import backend_of
from gnncal.data.probability import concentration, normalised_homophily, shifted, softmax
from gnncal.graph.graph import Side


@dataclass(frozen=True)
class Formula:
    """A fitted calibrator that any backend can run: a function of nodes, and what was learned.

    ``Calibrator.as_formula`` returns one; ``to_torch()`` makes a module of it.

    Parameters
    ----------
    function : callable
        Gets nodes, then the arrays and the settings by name. It may use what NumPy and torch
        spell alike: operators, and the methods of both kinds of arrays.
    arrays, settings : mapping
        What was learned, and plain values.
    is_temperature : bool, default=True
        Whether the function gives T (n_nodes,), and not probabilities (n_nodes, n_classes).
    keeps_predictions : bool, default=True
        Whether predictions stay.
    hops : int, default=0
        A node depends on the nodes within this many hops, along edges in both directions, and on
        all edges among them.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import Nodes
    >>> from gnncal.calibrators import Formula
    >>> def linear(nodes, certain, uncertain):
    ...     return certain + (uncertain - certain) * nodes.entropy
    >>> Formula(linear, {"certain": 1.0, "uncertain": 3.0})(Nodes(np.zeros((2, 3))))
    array([3., 3.])

    """

    function: Callable[..., Any]
    arrays: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_temperature: bool = True
    keeps_predictions: bool = True
    hops: int = 0
    side: Side = "both"

    @classmethod
    def of_logits(
        cls, function: Callable[..., Any], arrays: Mapping[str, Any], **others: Any
    ) -> Self:
        """Return the formula of a function that looks at a node's own logits alone.

        Parameters
        ----------
        function : callable
            Gets logits (n_nodes, n_classes) in place of nodes.
        arrays : mapping of str to float or ndarray
            What was learned.
        **others : Any
            The other parameters of ``Formula``.

        """
        return cls(partial(_on_logits, function), arrays, **others)

    def __call__(self, nodes: Any) -> Any:
        """Return T or the probabilities of these nodes."""
        return self.function(nodes, **self.arrays, **self.settings)


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
# Three temperatures stand for the posterior of ln T: places in standard deviations, and weights
# (the Gauss-Hermite rule, exact for polynomials up to degree five).
QUADRATURE_PLACES = (0.0, 3.0**0.5, -(3.0**0.5))
QUADRATURE_WEIGHTS = (2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0)
SMALLEST_SUM = 1e-30  # of probabilities; a smaller one is none
LOWEST_LOGIT = -1e30  # divided by any temperature it still fits a float32


@dataclass(frozen=True)
class Neighbourhood:
    """Every node's prediction and what its neighbours say about it; formulas take it for nodes."""

    logits: Any  # (n_nodes, n_classes)
    predictions: Any  # (n_nodes,)
    entropy: Any  # (n_nodes,) normalised entropy of the node's own prediction
    covariates: Any  # (n_nodes, 6) in the order of COVARIATES; four are NaN without neighbours
    mean_probs: Any  # (n_nodes, n_classes) of the neighbours; uniform without neighbours

    def take(self, rows: Any) -> Neighbourhood:
        """Return what is known of some of the nodes."""
        return Neighbourhood(**{name: values[rows] for name, values in vars(self).items()})

    @property
    def n_classes(self) -> int:
        """Number of columns of the logits."""
        return int(self.logits.shape[1])

    def cached(self, function: Any) -> Neighbourhood:
        """Return the neighbourhoods, which is all that is asked of them."""
        assert function is describe_neighbourhoods
        return self


def describe_neighbourhoods(nodes: Any) -> Neighbourhood:
    """Look at the senders and receivers of each node together."""
    xp, neighbours, n_classes = backend_of(nodes.logits), nodes.neighbours, nodes.n_classes
    predictions, e = nodes.predictions, nodes.entropy
    probs = softmax(nodes.logits)
    confidence = xp.as_float64(xp.take_class(probs, predictions))
    means = neighbours.mean(xp.with_columns(probs, [e, confidence]), "both")
    del probs  # of size nodes x classes
    is_alone = neighbours.counts("both") == 0
    mean_probs = xp.fill_(means[:, :n_classes], is_alone, 1.0 / n_classes)
    of_neighbours = [
        normalised_homophily(xp.as_float64(xp.take_class(mean_probs, predictions)), n_classes),
        normalised_homophily(neighbours.class_mean(mean_probs, predictions, "both"), n_classes),
        xp.as_float64(means[:, n_classes]),
        confidence - xp.as_float64(means[:, n_classes + 1]),
    ]
    of_neighbours = [xp.where(is_alone, nan, values) for values in of_neighbours]
    degrees = [neighbours.in_degree, neighbours.out_degree]
    logarithms = [xp.log1p(degree) / DEGREE_SCALE for degree in degrees]
    covariates = xp.matrix([*of_neighbours, *logarithms])
    return Neighbourhood(nodes.logits, predictions, e, covariates, mean_probs)


def law_rows(nodes: Any, centre: Any) -> tuple[Any, Any, Any]:
    """Return what the structural law looks at: e, s less its typical values, and predictions."""
    described = nodes.cached(describe_neighbourhoods)
    return described.entropy, centred(described.covariates, centre), described.predictions


def centred(s: Any, centre: Any) -> Any:
    """Return s less its typical values; a node without neighbours has a typical neighbourhood."""
    return backend_of(s).nan_to_zero(s - centre)


def log_temperature(
    e: Any, s: Any, predictions: Any, certain: Any, uncertain: Any, weights: Any, offsets: Any
) -> Any:
    """ln T of each node, without limits; s is centred."""
    xp = backend_of(e)
    base = xp.log(entropy_temperature(e, certain, uncertain))
    return base + xp.matmul(s, weights) + xp.lookup(offsets, predictions)


def clip_log_temperature(log_T: Any) -> Any:
    """Return ln T within the range of temperatures."""
    xp = backend_of(log_T)
    return xp.minimum(xp.maximum(log_T, -LOG_TEMPERATURE), LOG_TEMPERATURE)


def log_temperature_variance(
    e: Any, s: Any, predictions: Any, certain: Any, uncertain: Any, covariance: Any
) -> Any:
    """Variance of each node's ln T, from the covariance of (ln T_c, ln T_u, w, o); s is centred."""
    xp = backend_of(e)
    share = entropy_temperature(e, certain, 0.0) / entropy_temperature(e, certain, uncertain)
    slopes = [share, 1.0 - share, *xp.columns(s)]  # of ln T by all but the offsets
    p, x = len(slopes), xp.matrix(slopes)
    variance = xp.lookup(covariance[p:, p:].diagonal(), predictions)
    for i, slope in enumerate(slopes):
        crossed = xp.lookup(2.0 * covariance[i, p:], predictions)
        variance = variance + slope * (xp.matmul(x, covariance[i, :p]) + crossed)
    return xp.maximum(variance, 0.0)


def quadrature_temperatures(log_T: Any, variance: Any, averaging: Any) -> list[Any]:
    """Return the temperatures (n,) whose confidences are averaged; ln T is without limits."""
    xp = backend_of(log_T)
    spread = xp.sqrt(averaging * variance)
    return [xp.exp(clip_log_temperature(log_T + place * spread)) for place in QUADRATURE_PLACES]


def quadrature_mean(values: Sequence[Any]) -> Any:
    """Return the mean of what three temperatures give, each with its weight."""
    return sum(weight * each for weight, each in zip(QUADRATURE_WEIGHTS, values, strict=True))


def log_neighbours(mean_probs: Any) -> Any:
    """ln(p̄ + delta), kept away from ln 0."""
    return backend_of(mean_probs).log(mean_probs + FLOOR)


def scores(z: Any, T: Any, bias: Any, neighbour_weight: Any = None, mean_probs: Any = None) -> Any:
    """z / T + b + gamma ln(p̄ + delta), for logits of any size; without p̄ only z / T + b."""
    xp = backend_of(z)
    scaled = xp.add_(scaled_logits(z, T), bias)
    if mean_probs is None:
        return scaled
    return xp.add_(scaled, neighbour_weight * log_neighbours(mean_probs))


def floored(probs: Any, floor: Any) -> Any:
    """Give each class at least its floor (n_classes,): (1 - its sum) p + floor."""
    floor = backend_of(probs).astype_like(floor, probs)
    return (1.0 - floor.sum()) * probs + floor


def scaled_logits(z: Any, T: Any) -> Any:
    """z / T with row maximum 0, finite for logits of any size."""
    xp = backend_of(z)
    return xp.divide_(xp.maximum_(shifted(z), LOWEST_LOGIT), xp.column(T))


def redistribute_rest(probs: Any, predictions: Any, confidence: Any) -> Any:
    r"""Give each predicted class its confidence c, and the others the rest, none of them more."""
    xp = backend_of(probs)
    q = xp.with_class(probs, predictions, 0.0)
    share = xp.minimum(xp.column(rest_scale(q, confidence)) * q, xp.column(confidence))
    empty = xp.with_class(xp.as_number(share <= 0.0, q), predictions, 0.0)
    missing = xp.maximum(1.0 - confidence - xp.total(share), 0.0)
    share = xp.add_(share, empty * xp.column(missing / xp.maximum(xp.total(empty), 1.0)))
    share = xp.with_class(share, predictions, confidence)
    return xp.divide_(share, xp.column(xp.total(share)))


def rest_scale(q: Any, confidence: Any) -> Any:
    """Return lambda; q is zero at the predicted class."""
    xp = backend_of(q)
    total = xp.total(q)
    # A sum that is only rounding leaves nothing to divide.
    scale = (1.0 - confidence) / xp.maximum(total, SMALLEST_SUM)
    scale = xp.where(total > SMALLEST_SUM, scale, 0.0)
    is_short = scale * xp.largest(q) > confidence
    return xp.where_lazy(is_short, _scale_with_full_classes, [q, confidence], scale)


def _scale_with_full_classes(q: Any, confidence: Any) -> Any:
    """Return lambda for which the classes min(lambda q, c) sum to 1 - c."""
    xp = backend_of(q)
    tails, c = xp.sum_without_top(q), xp.column(confidence)
    factors = (1.0 - c - xp.column_index(q) * c) / xp.maximum(tails, SMALLEST_SUM)
    return xp.largest(xp.where(tails > SMALLEST_SUM, factors, 0.0))


def one_temperature(nodes: Any, base_temperature: Any) -> Any:
    """TS: the same T for every node."""
    return base_temperature * backend_of(nodes.logits).ones(nodes.logits)


def hts_temperature(
    nodes: Any, certain_temperature: Any, uncertain_temperature: Any, floor: Any = None
) -> Any:
    """HTS as the HoTS paper writes it."""
    return entropy_temperature(nodes.entropy, certain_temperature, uncertain_temperature, floor)


def hots_temperature(
    nodes: Any,
    base_temperature: Any,
    beta: Any,
    alpha: Any,
    epsilon: Any,
    minimum_certainty: Any,
    isolated_homophily: Any,
    *,
    side: Side,
    limits: tuple[float, float] | None,
) -> Any:
    """HoTS with the neighbours' support as homophily."""
    xp, K = backend_of(nodes.logits), nodes.n_classes
    share = nodes.neighbours.class_mean(softmax(nodes.logits), nodes.predictions, side)
    h = xp.where(nodes.neighbours.counts(side) == 0, isolated_homophily, share)
    numerator = concentration(nodes.entropy, K, minimum_certainty)
    ratio = power_ratio(numerator, log_signal(h, K, epsilon), alpha)
    T = power_law(ratio, base_temperature, beta)
    return T if limits is None else xp.minimum(xp.maximum(T, limits[0]), limits[1])


def _on_logits(function: Callable[..., Any], nodes: Any, /, **learned: Any) -> Any:
    return function(nodes.logits, **learned)


def structural_temperature(nodes: Any, **law: Any) -> Any:
    """T of the structural law, as precise as the logits; other numbers of a method are ignored."""
    log_T, xp = _log_temperature(nodes, **law), backend_of(nodes.logits)
    return xp.astype_like(xp.exp(clip_log_temperature(log_T)), nodes.logits)


def _log_temperature(
    nodes: Any,
    certain_temperature: Any,
    uncertain_temperature: Any,
    weights: Any,
    class_offsets: Any,
    centre: Any,
    **_: Any,
) -> Any:
    """ln T of the structural law, without limits."""
    certain, uncertain = certain_temperature, uncertain_temperature
    return log_temperature(*law_rows(nodes, centre), certain, uncertain, weights, class_offsets)


def structural_scaled(nodes: Any, *, floor: Any, **law: Any) -> Any:
    """softmax(z / T) with the structural law, and the floor."""
    return floored(softmax(nodes.logits, structural_temperature(nodes, **law)), floor)


def structural_free(nodes: Any, *, floor: Any, **learned: Any) -> Any:
    """The structural law with a bias for each class and what the neighbours say, and the floor."""
    return floored(_free_probabilities(nodes, **learned), floor)


def _free_probabilities(
    nodes: Any, bias: Any, neighbour_weight: Any, *, uses_neighbours: bool = True, **law: Any
) -> Any:
    z, xp = nodes.logits, backend_of(nodes.logits)
    T = structural_temperature(nodes, **law)
    said = nodes.cached(describe_neighbourhoods).mean_probs if uses_neighbours else None
    return softmax(scores(z, T, xp.astype_like(bias, z), neighbour_weight, said))


def structural(
    nodes: Any,
    *,
    centre: Any,
    covariance: Any,
    averaging: Any,
    floor: Any,
    uses_neighbours: bool = True,
    **learned: Any,
) -> Any:
    """The mean confidence of the law under its posterior; the free method divides the rest."""
    free = {name[5:]: value for name, value in learned.items() if name.startswith("free_")}
    law = {name: value for name, value in learned.items() if not name.startswith("free_")}
    z, xp = nodes.logits, backend_of(nodes.logits)
    ends = law["certain_temperature"], law["uncertain_temperature"]
    variance = log_temperature_variance(*law_rows(nodes, centre), *ends, covariance)
    log_T = _log_temperature(nodes, centre=centre, **law)
    temperatures = quadrature_temperatures(log_T, variance, averaging)
    largest = [xp.largest(softmax(z, xp.astype_like(T, z))) for T in temperatures]
    q = _free_probabilities(nodes, centre=centre, uses_neighbours=uses_neighbours, **free)
    return floored(redistribute_rest(q, nodes.predictions, quadrature_mean(largest)), floor)


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
