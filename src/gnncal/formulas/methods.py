"""Fitted methods as functions of nodes and numbers, for arrays and tensors alike.

``nodes`` has ``logits``, ``predictions``, ``entropy``, ``n_classes``, ``neighbours`` (a
:class:`gnncal.backends.neighbours.Neighbours`) and ``once``, which computes a function of the nodes
at most once. Functions called ``..._temperature`` return T (n,), the others probabilities (n, K).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from gnncal.backends import backend_of
from gnncal.core.graph import Side
from gnncal.formulas import temperatures
from gnncal.formulas.probability import concentration, softmax
from gnncal.formulas.structural import (
    centred,
    describe_neighbourhoods,
    divided_rest,
    floored,
    limited,
    log_temperature,
    log_temperature_variance,
    mean_confidence,
    scores,
    three_temperatures,
)


@dataclass(frozen=True)
class Portable:
    """A fitted calibrator that any backend can run: a function of nodes, and what was learned.

    ``Calibrator._portable`` returns one; ``to_torch()`` makes a module of it.

    Parameters
    ----------
    function : callable
        Gets nodes, then the arrays and the settings by name. It may use what NumPy and torch
        spell alike: operators, and the methods of both kinds of arrays.
    arrays : mapping of str to float or ndarray
        What was learned.
    settings : mapping of str to object, optional
        Plain values.
    is_temperature : bool, default=True
        Whether the function gives T (n_nodes,), and not probabilities (n_nodes, n_classes).
    keeps_predictions : bool, default=True
        Whether predictions stay.
    temperature : callable, optional
        Gives T of the arrays, if the function does not.
    hops : int, default=0
        Neighbours of how many hops a node depends on.
    side : {"in", "out", "both"}, default="both"
        Which neighbours these are.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import Nodes
    >>> from gnncal.calibrators import Portable
    >>> def linear(nodes, certain, uncertain):
    ...     return certain + (uncertain - certain) * nodes.entropy
    >>> Portable(linear, {"certain": 1.0, "uncertain": 3.0})(Nodes(np.zeros((2, 3))))
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
        """Return the portable form of a function that looks at a node's own logits alone.

        Parameters
        ----------
        function : callable
            Gets logits (n_nodes, n_classes) in place of nodes.
        arrays : mapping of str to float or ndarray
            What was learned.
        **others : Any
            The other parameters of ``Portable``.

        Returns
        -------
        Portable
            The function of nodes, with what was learned.

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
    uses_homophily: bool,
    side: Side,
    uses_entropy: bool,
    limits: tuple[float, float] | None,
) -> Any:
    """HoTS and its ablations, with the neighbours' support as homophily."""
    xp, e, K = backend_of(nodes.logits), nodes.entropy, nodes.n_classes
    numerator = concentration(e, K, minimum_certainty) if uses_entropy else 1.0 + 0.0 * e
    signal = 0.0 * e
    if uses_homophily:
        share = nodes.neighbours.class_mean(softmax(nodes.logits), nodes.predictions, side)
        is_alone = nodes.neighbours.counts(side) == 0
        h = xp.where(is_alone, isolated_homophily, share)
        signal = temperatures.log_signal(h, K, epsilon)
    ratio = temperatures.power_ratio(numerator, signal, alpha)
    T = temperatures.power_law(ratio, base_temperature, beta)
    return T if limits is None else xp.minimum(xp.maximum(T, limits[0]), limits[1])


def _on_logits(function: Callable[..., Any], nodes: Any, /, **learned: Any) -> Any:
    return function(nodes.logits, **learned)


def structural_temperature(nodes: Any, **law: Any) -> Any:
    """The structural law; other numbers of a method are ignored."""
    log_T = _log_temperature(nodes, **law)
    return backend_of(log_T).exp(limited(log_T))


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
    described = nodes.once(describe_neighbourhoods)
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
    T = backend_of(nodes.logits).like(structural_temperature(nodes, **law), nodes.logits)
    return floored(softmax(nodes.logits, T), floor)


def structural_free(nodes: Any, *, floor: Any, **learned: Any) -> Any:
    """The structural law with a bias for each class and what the neighbours say, and the floor."""
    return floored(_free_probabilities(nodes, **learned), floor)


def _free_probabilities(
    nodes: Any, bias: Any, neighbour_weight: Any, *, uses_neighbours: bool = True, **law: Any
) -> Any:
    xp = backend_of(nodes.logits)
    T = xp.like(structural_temperature(nodes, **law), nodes.logits)
    said = nodes.once(describe_neighbourhoods).mean_probs if uses_neighbours else None
    return softmax(scores(nodes.logits, T, xp.like(bias, nodes.logits), neighbour_weight, said))


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
    xp, described = backend_of(nodes.logits), nodes.once(describe_neighbourhoods)
    variance = log_temperature_variance(
        described.entropy,
        centred(described.covariates, centre),
        described.predictions,
        law["certain_temperature"],
        law["uncertain_temperature"],
        covariance,
    )
    log_T = _log_temperature(nodes, centre=centre, **law)
    temperatures = three_temperatures(log_T, variance, averaging)
    confidence = mean_confidence(nodes.logits, [xp.like(T, nodes.logits) for T in temperatures])
    q = _free_probabilities(nodes, centre=centre, uses_neighbours=uses_neighbours, **free)
    return floored(divided_rest(q, nodes.predictions, confidence), floor)
