"""Fitted methods as functions of nodes and numbers, for arrays and tensors alike.

``nodes`` has ``logits``, ``predictions``, ``entropy``, ``n_classes``, ``neighbours`` (a
:class:`gnncal.graph.neighbours.Neighbours`) and ``cached``, which computes a function of the nodes
at most once. Functions called ``..._temperature`` return T (n,), the others probabilities (n, K).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import log
from typing import Any, Self

from gnncal.data.backend import backend_of
from gnncal.data.probability import concentration, softmax
from gnncal.graph.graph import Side
from gnncal.math import structural as temperatures
from gnncal.math.structural import (
    centred,
    clip_log_temperature,
    describe_neighbourhoods,
    floored,
    log_temperature,
    log_temperature_variance,
    mean_confidence,
    quadrature_temperatures,
    redistribute_rest,
    scores,
)


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
    temperature : callable, optional
        Gives T of the arrays, if the function does not.
    hops : int, default=0
        Neighbours of how many hops a node depends on.

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
    temperature: Callable[..., Any] | None = None
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


def one_temperature(nodes: Any, base_temperature: Any) -> Any:
    """TS: the same T for every node."""
    return base_temperature * backend_of(nodes.logits).ones(nodes.logits)


def hts_temperature(
    nodes: Any, certain_temperature: Any, uncertain_temperature: Any, floor: Any = None
) -> Any:
    """HTS as the HoTS paper writes it."""
    return temperatures.entropy_temperature(
        nodes.entropy, certain_temperature, uncertain_temperature, floor
    )


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
    ratio = temperatures.power_ratio(numerator, temperatures.log_signal(h, K, epsilon), alpha)
    T = temperatures.power_law(ratio, base_temperature, beta)
    return T if limits is None else xp.minimum(xp.maximum(T, limits[0]), limits[1])


def _on_logits(function: Callable[..., Any], nodes: Any, /, **learned: Any) -> Any:
    return function(nodes.logits, **learned)


def structural_temperature(nodes: Any, **law: Any) -> Any:
    """The structural law; other numbers of a method are ignored."""
    log_T = _log_temperature(nodes, **law)
    return backend_of(log_T).exp(clip_log_temperature(log_T))


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
    described = nodes.cached(describe_neighbourhoods)
    return log_temperature(
        described.entropy,
        centred(described.covariates, centre),
        described.predictions,
        certain_temperature,
        uncertain_temperature,
        weights,
        class_offsets,
    )


def structural_scaled(nodes: Any, *, floor: Any, **law: Any) -> Any:
    """softmax(z / T) with the structural law, and the floor."""
    T = backend_of(nodes.logits).astype_like(structural_temperature(nodes, **law), nodes.logits)
    return floored(softmax(nodes.logits, T), floor)


def structural_free(nodes: Any, *, floor: Any, **learned: Any) -> Any:
    """The structural law with a bias for each class and what the neighbours say, and the floor."""
    return floored(_free_probabilities(nodes, **learned), floor)


def _free_probabilities(
    nodes: Any, bias: Any, neighbour_weight: Any, *, uses_neighbours: bool = True, **law: Any
) -> Any:
    xp = backend_of(nodes.logits)
    T = xp.astype_like(structural_temperature(nodes, **law), nodes.logits)
    said = nodes.cached(describe_neighbourhoods).mean_probs if uses_neighbours else None
    return softmax(
        scores(nodes.logits, T, xp.astype_like(bias, nodes.logits), neighbour_weight, said)
    )


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
    xp, described = backend_of(nodes.logits), nodes.cached(describe_neighbourhoods)
    variance = log_temperature_variance(
        described.entropy,
        centred(described.covariates, centre),
        described.predictions,
        law["certain_temperature"],
        law["uncertain_temperature"],
        covariance,
    )
    log_T = _log_temperature(nodes, centre=centre, **law)
    temperatures = quadrature_temperatures(log_T, variance, averaging)
    confidence = mean_confidence(
        nodes.logits, [xp.astype_like(T, nodes.logits) for T in temperatures]
    )
    q = _free_probabilities(nodes, centre=centre, uses_neighbours=uses_neighbours, **free)
    return floored(redistribute_rest(q, nodes.predictions, confidence), floor)


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
