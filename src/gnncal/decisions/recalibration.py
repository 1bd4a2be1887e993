r"""What held-out nodes say about a probability: how far it may be from the truth, and in which way.

The chance q of the class given a probability p of it is taken to be

.. math:: \mathrm{logit}\, q = \mathrm{logit}\, p + f(\mathrm{logit}\, p)

with a smooth function f, which is 0 where the probabilities are right. The prior of f is a Gaussian
process around 0: a constant, a slow and a quick part. How far from right the probabilities may
be is open too: a few sizes of f are weighed by how well each foretells the labels of the held-out
nodes. For each size the posterior is normal around its mode (Laplace). A probability of exactly 0
or 1, as step functions give it, has no log-odds: what it is worth is known from the labels of such
nodes alone, and its chance has a beta distribution. Expected numbers of hits and costs are averages
over all of this, so their intervals have the uncertainty of the calibration in them, and the luck
of the draw beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, softmax

from gnncal.core.arrays import BoolArray, FloatArray, IntArray

EDGE = 9.0  # log-odds; f stays as it is beyond, where probabilities are surer than 1 in 8,000
KNOTS = np.linspace(-EDGE, EDGE, 19)  # f is linear between them
PARTS = ((1.0, np.inf), (1.0, 3.0), (0.6, 1.0))  # size and length, in log-odds, of each part of f
SIZES = (0.3, 1.0, 3.0)  # of f, times its parts: from nearly right to class-weighted
JITTER = 1e-6  # makes the covariance of nearly equal knots invertible
EXPECTED_WRONG = 0.25  # of nodes with probability 1, as far as no label says more; of those with
# probability 0 it is so much less as the class is rare. It counts as much as two labels.
LOWEST = 1e-9  # of numbers that are divided by, or whose logarithm is taken
N_DRAWS = 1000
N_CELLS = 200  # of nodes with nearly equal probabilities, which are counted together
MOST_STEPS, SMALLEST_STEP, TOLERANCE = 50, 1e-6, 1e-9


@dataclass(frozen=True)
class Recalibration:
    """The posterior of the map from a probability to the chance of the class."""

    weights: FloatArray  # (n_sizes,) of the sizes of f
    modes: FloatArray  # (n_sizes, n_knots) f at the knots
    roots: FloatArray  # (n_sizes, n_knots, n_knots) triangular, of its covariance
    of_zero: tuple[float, float]  # of the beta distribution of the chance at probability 0
    of_one: tuple[float, float]  # and at 1

    @classmethod
    def of(cls, p: FloatArray, is_positive: BoolArray) -> Recalibration:
        """Find the posterior on calibration nodes that the probabilities have not seen."""
        is_open = (p > 0) & (p < 1)
        odds, prior = logit(p[is_open]), _prior_covariance()
        features, labels = _between_knots(odds), is_positive[is_open]
        fits = [_laplace(odds, features, labels, size**2 * prior) for size in SIZES]
        modes, covariances, evidence = zip(*fits, strict=True)
        roots = np.linalg.cholesky(np.array(covariances))
        zeros, ones, rate = is_positive[p <= 0], is_positive[p >= 1], max(float(p.mean()), LOWEST)
        wrong, right = 2 * EXPECTED_WRONG, 2 * (1 - EXPECTED_WRONG)
        of_zero = (wrong + zeros.sum(), right / rate + (~zeros).sum())
        of_one = (right + ones.sum(), wrong + (~ones).sum())
        return cls(softmax(evidence), np.array(modes), roots, of_zero, of_one)

    def draws(self, p: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return chances of nodes with these probabilities, (N_DRAWS, n), one map in each row."""
        odds = logit(np.where((p > 0) & (p < 1), p, 0.5))
        size = generator.choice(self.weights.size, size=N_DRAWS, p=self.weights)
        normal = generator.standard_normal((N_DRAWS, KNOTS.size, 1))
        f = self.modes[size] + (self.roots[size] @ normal)[..., 0]
        chances = expit(odds + f @ _between_knots(odds).T)
        chances[:, p <= 0] = generator.beta(*self.of_zero, size=(N_DRAWS, 1))
        chances[:, p >= 1] = generator.beta(*self.of_one, size=(N_DRAWS, 1))
        return chances


def _laplace(
    odds: FloatArray, features: FloatArray, is_positive: BoolArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return mode and covariance of the posterior, and the log evidence of this prior."""
    precision = np.linalg.inv(prior)

    def loss(at: FloatArray) -> float:
        z = odds + features @ at
        return float(np.logaddexp(0, z).sum() - z[is_positive].sum() + at @ precision @ at / 2)

    f = np.zeros(KNOTS.size)
    value = loss(f)
    for _ in range(MOST_STEPS):
        chance = expit(odds + features @ f)
        gradient = features.T @ (chance - is_positive) + precision @ f
        hessian = (features.T * (chance * (1 - chance))) @ features + precision
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while (new := loss(f - size * step)) > value and size > SMALLEST_STEP:
            size /= 2
        f, gain, value = f - size * step, value - new, new
        if gain < TOLERANCE * (1 + abs(value)):
            break
    volumes = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(hessian)[1]
    return f, np.linalg.inv(hessian), float(0.5 * volumes - value)


def _prior_covariance() -> FloatArray:
    apart = KNOTS[:, None] - KNOTS
    parts = [size**2 * np.exp(-0.5 * (apart / length) ** 2) for size, length in PARTS]
    return np.add.reduce([*parts, JITTER * np.eye(KNOTS.size)])


@dataclass(frozen=True)
class Cells:
    """Nodes in cells of nearly equal probability, so that millions cost no more than hundreds."""

    p: FloatArray  # (n_cells,) mean probability
    of_node: IntArray  # (n_nodes,) the cell of each node

    @classmethod
    def of(cls, p: FloatArray) -> Cells:
        """Divide nodes by rank; equal probabilities never part."""
        values, inverse, counts = np.unique(p, return_inverse=True, return_counts=True)
        if values.size <= N_CELLS:
            return cls(values, inverse)
        middle = np.cumsum(counts) - counts / 2  # rank of each value
        # Half of the cells by rank, half by log-odds: the rare sure ones get cells of their own.
        odds = np.clip(logit(np.clip(values, LOWEST, 1 - LOWEST)), -EDGE, EDGE)
        span = max(odds[-1] - odds[0], 1e-12)
        half = N_CELLS // 2
        key = np.floor(half * middle / p.size) + np.floor(half * (odds - odds[0]) / span)
        apart = (np.diff(key, prepend=key[0]) > 0) | (values >= 1)
        apart[1] |= values[0] <= 0
        cell = np.cumsum(apart)
        total = np.bincount(cell, weights=counts * values)
        return cls(total / np.bincount(cell, weights=counts), cell[inverse])

    def sums(self, weights: FloatArray) -> FloatArray:
        """Return the sum of the nodes' weights in each cell, (n_cells,)."""
        sums = np.bincount(self.of_node, weights=weights, minlength=self.p.size)
        return sums.astype(np.float64, copy=False)


def _between_knots(odds: FloatArray) -> FloatArray:
    """Return how much each knot counts at these log-odds, (n, n_knots)."""
    place = (np.clip(odds, -EDGE, EDGE) + EDGE) / (KNOTS[1] - KNOTS[0])
    return np.maximum(1.0 - np.abs(place[:, None] - np.arange(KNOTS.size)), 0.0)
