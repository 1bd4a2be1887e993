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
N_CELLS = 200  # of nodes with nearly equal probabilities, which are counted together
MOST_STEPS, SMALLEST_STEP, TOLERANCE = 50, 1e-6, 1e-9


@dataclass(frozen=True, eq=False)
class Costs:
    """What each mistake costs, and what it costs to have a person look at a node.

    To act on a positive and to clear a negative cost nothing. Each cost is a number, or an array
    with a value for each node, such as the amount of its transaction.

    Parameters
    ----------
    missed : float or array_like of shape (n_nodes,)
        Cost of clearing a positive.
    false_alarm : float or array_like of shape (n_nodes,)
        Cost of acting on a negative.
    review : float or array_like of shape (n_nodes,), optional
        Cost of a person who looks at a node and decides rightly. Default: no review is possible.

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
        review, is_open = np.inf, self.review is None or np.array_equal(self.review, np.inf)
        if not is_open:
            review = _checked("review", self.review, n_nodes)
        return Costs(
            _checked("missed", self.missed, n_nodes),
            _checked("false_alarm", self.false_alarm, n_nodes),
            review,
        )

    @property
    def _is_same_for_all(self) -> bool:
        """Whether every cost is one number for all nodes."""
        return all(np.ndim(cost) == 0 for cost in vars(self).values())

    def _of(self, nodes: IntArray) -> Costs:
        """Return the costs of some of the nodes."""
        parts = {
            name: value[nodes]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and value.ndim
        }
        return replace(self, **parts)


@dataclass(frozen=True)
class Amount:
    """A total that is expected, with an interval."""

    expected: float
    low: float
    high: float


def cheapest_actions(costs: Costs, p: FloatArray) -> IntArray:
    """Return the code of the cheapest action; a person looks only where that is cheaper."""
    automatic, cost = cheapest_automatic(costs, p)
    return np.where(cost <= costs.review, automatic, REVIEW)


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


def expect_costs(
    costs: Costs,
    p: FloatArray,
    actions: IntArray,
    predicted: BoolArray,
    recalibration: Recalibration,
    level: float,
) -> dict[str, Amount]:
    """Return the expected totals; ``predicted`` (n_nodes,) are the positives of the model."""
    generator = np.random.default_rng(0)
    cells = Cells.of(p)
    chances = recalibration.draws(cells.p, generator)
    luck = generator.standard_normal(len(chances))

    def total(chosen: IntArray) -> Amount:
        # A node costs its cost as a negative, and more or less by the weight if it is positive.
        base = cost_of(costs, chosen, np.zeros(p.size, dtype=np.int64))
        weights = cost_of(costs, chosen, np.ones(p.size, dtype=np.int64)) - base
        mean = base.sum() + chances @ cells.sums(weights)
        spread = np.sqrt((chances * (1.0 - chances)) @ cells.sums(weights**2))
        return amount(mean + spread * luck, level)

    everyone = np.ones(p.size, dtype=np.int64)
    totals = {"cost": total(actions), "cost of doing nothing": total(CLEAR * everyone)}
    if np.isfinite(costs.review).all():
        totals["cost of reviewing everyone"] = total(REVIEW * everyone)
    return {**totals, "cost of the model as it was": total(np.where(predicted, ACT, CLEAR))}


def expect_budget(
    p: FloatArray,
    reviewed: BoolArray,
    acted: BoolArray,
    recalibration: Recalibration,
    level: float,
) -> dict[str, Amount]:
    """Return the expected precision of the reviews, and the recall with what is acted on."""
    generator = np.random.default_rng(0)
    cells = Cells.of(p)
    chances = recalibration.draws(cells.p, generator)

    def hits(chosen: BoolArray) -> FloatArray:
        """Draw the number of positives among these nodes under each map."""
        counts = cells.sums(chosen.astype(np.float64)).astype(np.int64)
        here = counts > 0
        return generator.binomial(counts[here], chances[:, here]).sum(axis=1).astype(np.float64)

    reviewed_hits, n = hits(reviewed), int(reviewed.sum())
    caught = reviewed_hits + hits(acted)
    positives = caught + hits(~reviewed & ~acted)
    recall = np.divide(caught, positives, out=np.ones_like(caught), where=positives > 0)
    return {"precision": amount(reviewed_hits / max(n, 1), level), "recall": amount(recall, level)}


def amount(draws: FloatArray, level: float) -> Amount:
    """Return the mean of draws and the interval between their outer quantiles."""
    tail = 0.5 * (1.0 - level)
    low = np.quantile(draws, tail, method="lower")
    high = np.quantile(draws, 1.0 - tail, method="higher")
    return Amount(float(draws.mean()), float(low), float(high))


def cost_thresholds(costs: Costs) -> tuple[float, float]:
    """Return from which probability up to act, and up to which to clear, at these three numbers."""
    missed, false_alarm, review = costs.missed, costs.false_alarm, costs.review
    even = false_alarm / (false_alarm + missed) if false_alarm + missed else 0.0
    act = max(even, 1.0 - review / false_alarm) if false_alarm else 0.0
    clear = min(even, review / missed) if missed else 1.0
    return act, clear


def _checked(name: str, value: Any, n_nodes: int) -> Any:
    array = as_numpy(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise InputError(
            f"the cost {name} is {short_repr(value)}; expected a number or one number for each "
            "node."
        )
    if array.ndim == 1 and array.size != n_nodes:
        raise InputError(
            f"the cost {name} has {array.size:,} values for {n_nodes:,} nodes; pass one for each "
            "node, or one number for all."
        )
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InputError(f"the cost {name} has values that are negative or not finite.")
    if (array > MOST_COST).any():
        raise InputError(
            f"the cost {name} is above {MOST_COST:g}, so that sums would lose the other costs; "
            "pass costs in larger units."
        )
    return array.astype(np.float64) if array.ndim else float(array)


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
    line = SLOPE**2 * np.outer(KNOTS, KNOTS)
    return np.add.reduce([*parts, line, JITTER * np.eye(KNOTS.size)])


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


def misfit(p: FloatArray, is_positive: BoolArray) -> float:
    """Return the p-value of labels as unlikely as these if the probabilities were right."""
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    design = np.column_stack([np.ones_like(inside), logit(inside)])
    gradient = design.T @ (is_positive - inside)
    information = (design.T * (inside * (1 - inside))) @ design
    return float(chdtrc(2, gradient @ np.linalg.pinv(information) @ gradient))
