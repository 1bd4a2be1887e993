"""Appendix A.4: under class symmetry the best temperature depends on the graph through h only.

Every node of class c has a share h of neighbours of its own class. What the paper assumes beyond
that, and what each world here changes, is how the other neighbours are spread over the other
classes, how many neighbours there are, and how far apart the class means are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import f_oneway

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.data.probability import softmax
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import Estimate, check_seeds, over_seeds
from gnncal_lab.simulation.neighbourhoods import (
    Neighbourhoods,
    aggregate_means,
    balanced,
    degrees_vary,
    drawn,
    hub,
    log_joint,
    one_other,
    span_coordinates,
    two_shapes,
)
from gnncal_lab.simulation.streams import stream
from gnncal_lab.simulation.symmetric_head import HeadRecord, symmetric_head

MODEL = CSBM(separation=1.0)
HOMOPHILY = (0.3, 0.5, 0.7, 0.9)
HEAD_SIZES = (500, 2_000, 8_000, 32_000)
CLOSE_MEANS = 0.5  # cosine between the means of the two classes that are moved together


@dataclass(frozen=True)
class SufficiencyWorld:
    """One set of assumptions: the best temperature at each homophily, and what it leaves."""

    description: str
    symmetric: bool  # whether exchanging classes leaves the world as it is
    tau: Estimate  # (n_levels,) best inverse temperature by h
    tau_of_class: Estimate  # (n_levels, K) the same for the nodes of one class
    class_p_value: FloatArray  # (n_levels,) that all classes have the same, analysis of variance
    lost: Estimate  # (n_levels,) nats from softmax(tau s) to the posterior given scores and h
    lost_by_law: Estimate  # (n_levels,) the same with tau = Gamma(h) / v
    gained_by_shape: Estimate  # (n_levels,) nats that a temperature by h and shape gains


@dataclass(frozen=True)
class SufficiencyRecord:
    """Worlds of equal homophily that differ in everything else."""

    model: CSBM
    n_nodes: int  # at each homophily, for each seed
    n_seeds: int
    homophily: FloatArray  # (n_levels,)
    law: FloatArray  # (n_levels,) Gamma(h) / v
    worlds: dict[str, SufficiencyWorld]
    head: HeadRecord  # the linear classifier that the statement starts from


def sufficiency(
    *,
    model: CSBM = MODEL,
    homophily: tuple[float, ...] = HOMOPHILY,
    n_nodes: int = 10_000,
    n_seeds: int = 10,
    head_sizes: tuple[int, ...] = HEAD_SIZES,
) -> SufficiencyRecord:
    """Test whether a temperature needs only h, and what each assumption contributes."""
    check_seeds(n_seeds)
    _check(model, homophily)
    means, close = span_coordinates(model.class_means), span_coordinates(_close_means(model))
    makers: dict[str, tuple[str, bool, Callable[[CSBM, float], Neighbourhoods], FloatArray]] = {
        "as assumed": ("other neighbours balanced over the other classes", True, balanced, means),
        "classes drawn": ("each other neighbour draws its class", True, drawn, means),
        "one other class": ("all other neighbours of one class, at random", True, one_other, means),
        "two shapes": ("half as assumed, half with one other class", True, two_shapes, means),
        "degrees vary": ("Poisson degrees", True, degrees_vary, means),
        "hub class": ("all other neighbours of class 0", False, hub, means),
        "unequal means": ("the means of two classes closer together", False, balanced, close),
    }
    return SufficiencyRecord(
        model=model,
        n_nodes=n_nodes,
        n_seeds=n_seeds,
        homophily=np.array(homophily),
        law=model.bayes.inverse_temperature(homophily),
        worlds={
            name: _world(
                model, homophily, make, m, n_nodes, n_seeds, description=text, symmetric=same
            )
            for name, (text, same, make, m) in makers.items()
        },
        head=symmetric_head(model, homophily, head_sizes, n_seeds),
    )


def common_tau(scores: FloatArray, target: FloatArray, reach: float) -> float:
    """Solve mean E_p[s] = mean target for tau in [-reach, reach], p = softmax(tau s)."""

    def excess(tau: float) -> float:
        return float((np.einsum("nk,nk->n", softmax(tau * scores), scores) - target).mean())

    if excess(-reach) >= 0:
        return -reach
    return reach if excess(reach) <= 0 else float(brentq(excess, -reach, reach, xtol=1e-10))


def _world(
    model: CSBM,
    homophily: tuple[float, ...],
    make: Callable[[CSBM, float], Neighbourhoods],
    means: FloatArray,
    n_nodes: int,
    n_seeds: int,
    *,
    description: str,
    symmetric: bool,
) -> SufficiencyWorld:
    k = model.n_classes
    found = np.array(
        [
            [_level(model, h, make(model, h), means, n_nodes, seed) for h in homophily]
            for seed in range(n_seeds)
        ]
    )  # (n_seeds, n_levels, 4 + K)
    by_class = found[:, :, 4:]
    return SufficiencyWorld(
        description=description,
        symmetric=symmetric,
        tau=over_seeds(found[:, :, 0]),
        tau_of_class=over_seeds(by_class),
        class_p_value=np.array(
            [
                f_oneway(*(by_class[:, level, c] for c in range(k))).pvalue
                for level in range(len(homophily))
            ]
        ),
        lost=over_seeds(found[:, :, 1]),
        lost_by_law=over_seeds(found[:, :, 2]),
        gained_by_shape=over_seeds(found[:, :, 3]),
    )


def _level(
    model: CSBM,
    homophily: float,
    kinds: Neighbourhoods,
    means: FloatArray,
    n_nodes: int,
    seed: int,
) -> FloatArray:
    """The best tau; nats lost by it and by the law, gained by shape; the best tau of each class."""
    generator = stream(f"sufficiency {homophily:g}", seed)
    labels = generator.integers(model.n_classes, size=n_nodes)
    kind = generator.choice(kinds.weight.size, size=n_nodes, p=kinds.weight)
    variance = model.sigma**2 / (kinds.degree + 1.0)
    centres = aggregate_means(kinds, means)
    noise = generator.normal(size=(n_nodes, means.shape[1]))
    x = centres[kind, labels] + np.sqrt(variance[kind])[:, None] * noise
    scores = x @ means.T / np.sqrt((means**2).sum(axis=1).mean())
    joint = log_joint(x, centres, variance, kinds.weight)
    posterior = softmax(logsumexp(joint, axis=1))

    law = float(model.bayes.inverse_temperature(homophily))
    reach = 3.0 * float(model.bayes.inverse_temperature(1.0))
    tau = _best(scores, posterior, reach)
    by_class = [
        common_tau(scores[labels == c], scores[labels == c, c], reach)
        for c in range(model.n_classes)
    ]
    gained = _gained_by_shape(scores, joint, kinds.shape, kind, tau, reach)
    lost = _divergence(posterior, scores, tau), _divergence(posterior, scores, law)
    return np.array([tau, *lost, gained, *by_class])


def _gained_by_shape(
    scores: FloatArray,
    joint: FloatArray,
    shape: IntArray,
    kind: IntArray,
    tau: float,
    reach: float,
) -> float:
    """Return what the best temperature of each shape gains over the common one, nats per node."""
    gained = 0.0
    for each in np.unique(shape[kind]):
        rows = shape[kind] == each
        known = softmax(logsumexp(joint[rows][:, shape == each], axis=1))
        own = _best(scores[rows], known, reach)
        gained += rows.mean() * (
            _divergence(known, scores[rows], tau) - _divergence(known, scores[rows], own)
        )
    return float(gained)


def _best(scores: FloatArray, posterior: FloatArray, reach: float) -> float:
    """Return the one tau whose expected log loss under the posterior is lowest."""
    return common_tau(scores, np.einsum("nk,nk->n", posterior, scores), reach)


def _divergence(posterior: FloatArray, scores: FloatArray, tau: float) -> float:
    """Return the mean KL from the posterior to softmax(tau s), in nats."""
    used = softmax(tau * scores)
    tiny = np.finfo(float).tiny  # p ln p is 0 where p is
    logs = np.log(np.maximum(posterior, tiny)) - np.log(np.maximum(used, tiny))
    return float(np.einsum("nk,nk->n", posterior, logs).mean())


def _close_means(model: CSBM) -> FloatArray:
    """Return the model's class means, the second turned towards the first."""
    means = np.array(model.class_means)
    first, second = means[0], means[1]
    turned = CLOSE_MEANS * first + np.sqrt(1.0 - CLOSE_MEANS**2) * second
    means[1] = turned * (np.linalg.norm(second) / np.linalg.norm(turned))
    return means


def _check(model: CSBM, homophily: tuple[float, ...]) -> None:
    if model.n_classes < 3:
        raise InputError(
            "n_classes is 2, so all other neighbours have the one other class; take a model with "
            "at least 3 classes."
        )
    model.bayes.check_positive(homophily)
    same = np.array(homophily) * model.mean_degree
    if model.mean_degree < 1 or not np.allclose(
        [*same, model.mean_degree], np.round([*same, model.mean_degree])
    ):
        raise InputError(
            f"a mean degree of {model.mean_degree:g} does not give whole numbers of equal "
            f"neighbours at homophily {', '.join(f'{h:g}' for h in homophily)}; take homophily in "
            "steps of 1 / degree."
        )
