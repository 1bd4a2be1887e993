"""Kinds of neighbourhood that a node of given homophily can have, and the posterior they lead to.

The block model of the paper fixes the share h of neighbours of a node's own class. The other
neighbours can still be spread over the other classes in many ways, and there can be more or fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import multinomial, poisson

from gnncal.data.arrays import FloatArray, IntArray
from gnncal_lab.simulation.csbm import CSBM

DEGREE_MASS = 1e-6  # degrees that are rarer than this are left out


@dataclass(frozen=True)
class Neighbourhoods:
    """The kinds of neighbourhood that nodes of one homophily can have."""

    weight: FloatArray  # (n_kinds,) how often each kind occurs, sums to one
    degree: FloatArray  # (n_kinds,)
    share: FloatArray  # (n_kinds, K, K) class of the node, class of a neighbour; rows sum to one
    shape: IntArray  # (n_kinds,) what can be seen of a kind without knowing which class is which


def balanced(model: CSBM, homophily: float) -> Neighbourhoods:
    """The paper's assumption: expected degree, other neighbours equally of every other class."""
    k = model.n_classes
    share = np.full((1, k, k), (1.0 - homophily) / (k - 1))
    np.einsum("tcc->tc", share)[:] = homophily
    return Neighbourhoods(np.ones(1), np.array([model.mean_degree]), share, np.zeros(1, int))


def one_other(model: CSBM, homophily: float) -> Neighbourhoods:
    """All other neighbours have the class c + r (modulo K), r drawn uniformly from 1 to K - 1."""
    k = model.n_classes
    eye = np.eye(k)
    share = np.stack(
        [homophily * eye + (1.0 - homophily) * np.roll(eye, r, axis=1) for r in range(1, k)]
    )
    degree = np.full(k - 1, model.mean_degree)
    return Neighbourhoods(np.full(k - 1, 1.0 / (k - 1)), degree, share, np.zeros(k - 1, int))


def two_shapes(model: CSBM, homophily: float) -> Neighbourhoods:
    """Half of the nodes are `balanced`, half have `one_other` class; the two are told apart."""
    first, second = balanced(model, homophily), one_other(model, homophily)
    return Neighbourhoods(
        np.concatenate([first.weight / 2.0, second.weight / 2.0]),
        np.concatenate([first.degree, second.degree]),
        np.concatenate([first.share, second.share]),
        np.concatenate([first.shape, second.shape + 1]),
    )


def drawn(model: CSBM, homophily: float) -> Neighbourhoods:
    """Exactly h d of d neighbours have the node's class; each other draws one of the others."""
    k, degree = model.n_classes, round(model.mean_degree)
    same = round(homophily * degree)
    other = degree - same
    # every way to write `other` as an ordered sum of K - 1 counts: K - 2 bars between the stars
    bars = np.array(list(combinations(range(other + k - 2), k - 2))).reshape(-1, k - 2)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=-1)
    edges[:, -1] = other + k - 2
    counts = np.diff(edges, axis=1) - 1  # (n_kinds, K - 1) of class c + 1, c + 2, ...
    relative = np.concatenate([np.full((len(counts), 1), same), counts], axis=1) / degree
    share = np.stack([np.roll(relative, c, axis=1) for c in range(k)], axis=1)
    weight = multinomial.pmf(counts, other, np.full(k - 1, 1.0 / (k - 1)))
    _, shape = np.unique(np.sort(counts, axis=1), axis=0, return_inverse=True)
    return Neighbourhoods(
        weight / weight.sum(), np.full(len(counts), float(degree)), share, shape.ravel()
    )


def degrees_vary(model: CSBM, homophily: float) -> Neighbourhoods:
    """Poisson degrees; the composition is `balanced` and at its expected value for each."""
    degree = np.arange(1.0, poisson.isf(DEGREE_MASS, model.mean_degree) + 1.0)
    weight = poisson.pmf(degree, model.mean_degree)
    share = np.repeat(balanced(model, homophily).share, degree.size, axis=0)
    return Neighbourhoods(weight / weight.sum(), degree, share, np.arange(degree.size))


def hub(model: CSBM, homophily: float) -> Neighbourhoods:
    """All other neighbours have class 0; those of class 0 itself are balanced over the others."""
    share = np.array(balanced(model, homophily).share)
    share[0, 1:] = homophily * np.eye(model.n_classes)[1:]
    share[0, 1:, 0] += 1.0 - homophily
    return Neighbourhoods(np.ones(1), np.array([model.mean_degree]), share, np.zeros(1, int))


def span_coordinates(means: FloatArray) -> FloatArray:
    """Centred class means m, shape (K, K - 1), in coordinates of the space that they span."""
    centred = means - means.mean(axis=0)
    basis = np.linalg.svd(centred, full_matrices=False)[2][: len(means) - 1]
    return np.asarray(centred @ basis.T)


def aggregate_means(kinds: Neighbourhoods, means: FloatArray) -> FloatArray:
    """(m_c + d sum_k share_ck m_k) / (d + 1) for each kind and class, (n_kinds, K, K - 1)."""
    degree = kinds.degree[:, None, None]
    return (means + degree * (kinds.share @ means)) / (degree + 1.0)


def log_joint(
    x: FloatArray, centres: FloatArray, variance: FloatArray, weight: FloatArray
) -> FloatArray:
    """Return ln P(kind) p(x | kind, class) up to a constant of the row, (n, n_kinds, K)."""
    cross = np.einsum("nf,tcf->ntc", x, centres)
    square = np.einsum("nf,nf->n", x, x)[:, None, None] + np.einsum("tcf,tcf->tc", centres, centres)
    v = variance[:, None]
    return np.log(weight)[:, None] - (square / 2.0 - cross) / v - x.shape[1] / 2.0 * np.log(v)
