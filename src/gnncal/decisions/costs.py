r"""Costs and budgets: the cheapest action of each node, and what to expect of all of them.

What is expected rests on how far a probability may be from the truth. The chance q of the class
given a probability p of it is taken to be

.. math:: \mathrm{logit}\, q = \mathrm{logit}\, p + f(\mathrm{logit}\, p)

with a smooth function f, which is 0 where the probabilities are right. The prior of f is a Gaussian
process around 0: a constant, a slope, a slow and a quick part. A few sizes of f are weighed by how
well each foretells the labels of the calibration nodes; for each the posterior is normal around its
mode (Laplace). A probability of exactly 0 or 1 has no log-odds: its chance has a beta distribution.
Expected numbers of hits and costs are averages over all of this and over the luck of the draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, expit, logit, softmax

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.errors import InputError, short_repr

ACTIONS = np.array(["act", "clear", "review", "decide"])  # codes 0 to 3
ACT, CLEAR, REVIEW, DECIDE = range(4)
MOST_COST = 1e15  # sums of larger ones lose the small
EDGE = 9.0  # log-odds; f stays as it is beyond, where probabilities are surer than 1 in 8,000
KNOTS = np.linspace(-EDGE, EDGE, 19)  # f is linear between them
PARTS = ((1.0, np.inf), (1.0, 3.0), (0.6, 1.0))  # size and length, in log-odds, of each part of f
SLOPE = 1.0  # of a line in f, which is what probabilities that are too sure or too timid need
SIZES = (0.3, 1.0, 3.0)  # of f, times its parts: from nearly right to class-weighted
JITTER = 1e-6  # makes the covariance of nearly equal knots invertible
EXPECTED_WRONG = 0.25  # of nodes with probability 1, as far as no label says more; of those with
# probability 0 it is so much less as the class is rare. It counts as much as two labels.
LOWEST = 1e-9  # of numbers that are divided by, or whose logarithm is taken
N_DRAWS = 1000
N_CELLS = 200  # of nearly equal probabilities: millions of nodes cost no more than hundreds
MOST_STEPS, SMALLEST_STEP, TOLERANCE = 50, 1e-6, 1e-9


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs of errors and reviews, each one number or one value per node.

    Parameters
    ----------
    missed, false_alarm : float or array_like of shape (n_nodes,)
        Cost of clearing a node of the positive class, and of acting on a node of another class.
    review : float or array_like of shape (n_nodes,), optional
        Cost of a review, assumed to be correct. Default: no reviews; with a budget, free reviews.

    Examples
    --------
    >>> from gnncal.decisions import Costs, Policy
    >>> policy = Policy(positive="fraud", costs=Costs(missed=500, false_alarm=20, review=3))

    """

    missed: Any
    false_alarm: Any
    review: Any = None

    def _checked(self, n_nodes: int) -> Costs:
        """Return the costs as float64, each a number or an array of this length."""
        checked: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "review" and (value is None or np.array_equal(value, np.inf)):
                checked[name] = np.inf
                continue
            array = as_numpy(value)
            has_shape = array.dtype.kind in "iuf" and array.shape in ((), (n_nodes,))
            if not has_shape or not ((array >= 0) & (array <= MOST_COST)).all():
                raise InputError(
                    f"the cost {name} is {short_repr(value)}; expected a number from 0 to "
                    f"{MOST_COST:g}, or one for each of the {n_nodes:,} nodes."
                )
            checked[name] = array.astype(np.float64) if array.ndim else float(array)
        return Costs(**checked)

    @property
    def _is_same_for_all(self) -> bool:
        """Whether every cost is one number for all nodes."""
        return all(np.ndim(cost) == 0 for cost in vars(self).values())

    def _of(self, nodes: IntArray) -> Costs:
        """Return the costs of some of the nodes."""
        return replace(self, **{n: v[nodes] for n, v in vars(self).items() if np.ndim(v)})


@dataclass(frozen=True)
class Estimate:
    """An expected total or share, with an interval."""

    expected: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: FloatArray, level: float) -> Estimate:
        """Return the mean of draws and the interval between their outer quantiles."""
        tail = 0.5 * (1.0 - level)
        low = np.quantile(draws, tail, method="lower")
        high = np.quantile(draws, 1.0 - tail, method="higher")
        return cls(float(draws.mean()), float(low), float(high))


def cheapest_automatic(costs: Costs, p: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cheaper of acting and clearing, and what it is expected to cost."""
    chance = np.clip(p, 0.0, 1.0)
    act, clear = (1.0 - chance) * costs.false_alarm, chance * costs.missed
    return np.where(act < clear, ACT, CLEAR), np.minimum(act, clear)


def cost_of(costs: Costs, actions: IntArray, is_positive: Any) -> FloatArray:
    """Return what each node costs, (n_nodes,), its class being known."""
    missed, false_alarm = costs.missed * is_positive, costs.false_alarm * (1 - is_positive)
    review = np.broadcast_to(costs.review, actions.shape)
    return np.select([actions == ACT, actions == CLEAR], [false_alarm, missed], review)


def cost_thresholds(costs: Costs) -> tuple[float, float]:
    """Return from which probability up to act, and up to which to clear, at these three numbers."""
    missed, false_alarm, review = costs.missed, costs.false_alarm, costs.review
    even = false_alarm / (false_alarm + missed) if false_alarm + missed else 0.0
    act = max(even, 1.0 - review / false_alarm) if false_alarm else 0.0
    clear = min(even, review / missed) if missed else 1.0
    return act, clear


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
        odds, labels = logit(p[is_open]), is_positive[is_open]
        apart = KNOTS[:, None] - KNOTS
        parts = [size**2 * np.exp(-0.5 * (apart / length) ** 2) for size, length in PARTS]
        line, jitter = SLOPE**2 * np.outer(KNOTS, KNOTS), JITTER * np.eye(KNOTS.size)
        prior = np.add.reduce([*parts, line, jitter])
        fits = [_laplace(odds, _between_knots(odds), labels, size**2 * prior) for size in SIZES]
        modes, covariances, evidence = zip(*fits, strict=True)
        roots = np.linalg.cholesky(np.array(covariances))
        zeros, ones, rate = is_positive[p <= 0], is_positive[p >= 1], max(float(p.mean()), LOWEST)
        wrong, right = 2 * EXPECTED_WRONG, 2 * (1 - EXPECTED_WRONG)
        of_zero = (wrong + zeros.sum(), right / rate + (~zeros).sum())
        of_one = (right + ones.sum(), wrong + (~ones).sum())
        return cls(softmax(evidence), np.array(modes), roots, of_zero, of_one)

    def draws(self, nodes: FloatArray) -> tuple[FloatArray, IntArray, np.random.Generator]:
        """Return chances of cells of nodes, (N_DRAWS, n_cells), each node's cell, and the luck."""
        generator, (p, cell) = np.random.default_rng(0), _cells(nodes)
        odds = logit(np.where((p > 0) & (p < 1), p, 0.5))
        size = generator.choice(self.weights.size, size=N_DRAWS, p=self.weights)
        normal = generator.standard_normal((N_DRAWS, KNOTS.size, 1))
        f = self.modes[size] + (self.roots[size] @ normal)[..., 0]
        chances = expit(odds + f @ _between_knots(odds).T)
        chances[:, p <= 0] = generator.beta(*self.of_zero, size=(N_DRAWS, 1))
        chances[:, p >= 1] = generator.beta(*self.of_one, size=(N_DRAWS, 1))
        return chances, cell, generator

    def expect_costs(
        self, costs: Costs, p: FloatArray, actions: IntArray, predicted: BoolArray, level: float
    ) -> dict[str, Estimate]:
        """Return the expected totals; ``predicted`` (n_nodes,) are the positives of the model."""
        chances, cell, generator = self.draws(p)
        luck = generator.standard_normal(len(chances))
        zeros, ones = np.zeros(p.size, dtype=np.int64), np.ones(p.size, dtype=np.int64)

        def total(chosen: IntArray) -> Estimate:
            # A node costs its cost as a negative, and more or less by the weight if it is positive.
            base = cost_of(costs, chosen, zeros)
            weights = cost_of(costs, chosen, ones) - base
            mean = base.sum() + chances @ np.bincount(cell, weights)
            spread = np.sqrt((chances * (1.0 - chances)) @ np.bincount(cell, weights**2))
            least, most = (base + bound(weights, 0.0) for bound in (np.minimum, np.maximum))
            return Estimate.of((mean + spread * luck).clip(least.sum(), most.sum()), level)

        totals = {"cost": total(actions), "cost of doing nothing": total(CLEAR * ones)}
        if np.isfinite(costs.review).all():
            totals["cost of reviewing everyone"] = total(REVIEW * ones)
        return {**totals, "cost of the raw model": total(np.where(predicted, ACT, CLEAR))}

    def expect_budget(self, p: FloatArray, actions: IntArray, level: float) -> dict[str, Estimate]:
        """Return the expected precision of the reviews, and the recall with what is acted on."""
        chances, cell, generator = self.draws(p)

        def hits(chosen: BoolArray) -> FloatArray:
            """Draw the number of positives among these nodes under each map."""
            counts = np.bincount(cell[chosen], minlength=chances.shape[1])
            here = counts > 0
            return generator.binomial(counts[here], chances[:, here]).sum(axis=1).astype(np.float64)

        reviewed, n = hits(actions == REVIEW), int((actions == REVIEW).sum())
        caught = reviewed + hits(actions == ACT)
        positives = caught + hits((actions != REVIEW) & (actions != ACT))
        recall = np.divide(caught, positives, out=np.ones_like(caught), where=positives > 0)
        shares = {"precision": reviewed / max(n, 1), "recall": recall}
        return {name: Estimate.of(draws, level) for name, draws in shares.items()}


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


def _between_knots(odds: FloatArray) -> FloatArray:
    """Return how much each knot counts at these log-odds, (n, n_knots)."""
    place = (np.clip(odds, -EDGE, EDGE) + EDGE) / (KNOTS[1] - KNOTS[0])
    return np.maximum(1.0 - np.abs(place[:, None] - np.arange(KNOTS.size)), 0.0)


def _cells(p: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return mean probabilities of cells of nearly equal nodes, and the cell of each node."""
    values, inverse, counts = np.unique(p, return_inverse=True, return_counts=True)
    if values.size <= N_CELLS:
        return values, inverse
    middle = np.cumsum(counts) - counts / 2  # rank of each value
    # Half of the cells by rank, half by log-odds: the rare sure ones get cells of their own.
    odds = np.clip(logit(np.clip(values, LOWEST, 1 - LOWEST)), -EDGE, EDGE)
    span, half = max(odds[-1] - odds[0], 1e-12), N_CELLS // 2
    key = np.floor(half * middle / p.size) + np.floor(half * (odds - odds[0]) / span)
    apart = (np.diff(key, prepend=key[0]) > 0) | (values >= 1)
    apart[1] |= values[0] <= 0
    cell = np.cumsum(apart)
    total = np.bincount(cell, weights=counts * values)
    return total / np.bincount(cell, weights=counts), cell[inverse]


def misfit(p: FloatArray, is_positive: BoolArray) -> float:
    """Return the p-value of labels as unlikely as these if the probabilities were right."""
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    design = np.column_stack([np.ones_like(inside), logit(inside)])
    gradient = design.T @ (is_positive - inside)
    information = (design.T * (inside * (1 - inside))) @ design
    return float(chdtrc(2, gradient @ np.linalg.pinv(information) @ gradient))
