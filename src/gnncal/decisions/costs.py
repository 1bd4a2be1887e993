"""What mistakes and people cost: the cheapest action for each node, and what all of them cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray, as_numpy
from gnncal.core.errors import InputError, shown
from gnncal.decisions.actions import ACT, ACTIONS, CLEAR, REVIEW
from gnncal.decisions.recalibration import Cells, Recalibration

LARGEST_COST = 1e100  # its square still fits a float64


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
        Cost of a person who looks at a node and then decides rightly. Default: nobody can.

    Examples
    --------
    >>> from gnncal.decisions import Costs
    >>> costs = Costs(missed=500, false_alarm=20, review=3)
    >>> costs.cheapest([0.001, 0.1, 0.9])
    array(['clear', 'review', 'act'], dtype='<U6')

    """

    missed: Any
    false_alarm: Any
    review: Any = None

    def cheapest(self, p: Any) -> Any:
        """Return the action with the lowest expected cost for each node.

        Parameters
        ----------
        p : array_like of shape (n_nodes,)
            Probability of the positive class.

        Returns
        -------
        ndarray of str of shape (n_nodes,)
            ``"act"``, ``"clear"`` or ``"review"``.

        Raises
        ------
        InputError
            If a cost is no number of at least 0, or has another length than ``p``.

        """
        chance = as_numpy(p).astype(np.float64)
        return ACTIONS[cheapest_actions(self.checked(chance.size), chance)]

    def checked(self, n_nodes: int) -> Costs:
        """Return the costs as float64, each a number or an array of this length.

        Parameters
        ----------
        n_nodes : int
            Number of nodes.

        Returns
        -------
        Costs
            The same costs; without a person's cost it is infinite.

        Raises
        ------
        InputError
            If a cost is no number of at least 0, or has another length.

        """
        review = np.inf if self.review is None else _checked("review", self.review, n_nodes)
        return Costs(
            _checked("missed", self.missed, n_nodes),
            _checked("false_alarm", self.false_alarm, n_nodes),
            review,
        )

    @property
    def is_same_for_all(self) -> bool:
        """Whether every cost is one number for all nodes."""
        return all(np.ndim(cost) == 0 for cost in vars(self).values())

    def of(self, nodes: IntArray) -> Costs:
        """Return the costs of some of the nodes.

        Parameters
        ----------
        nodes : ndarray of int
            Rows.

        Returns
        -------
        Costs
            Numbers as they are, arrays restricted.

        """
        parts = {
            name: value[nodes]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and value.ndim
        }
        return replace(self, **parts)


@dataclass(frozen=True)
class Amount:
    """A total that is expected, with an interval.

    Attributes
    ----------
    expected : float
        The mean.
    low, high : float
        Ends of the interval; the level is that of the policy.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy, Costs
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> policy = ClassPolicy(1, costs=Costs(missed=5, false_alarm=1)).fit(probs, labels)
    >>> total = policy.outlook_.costs.policy
    >>> total.low < total.expected < total.high
    True

    """

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class CostOutlook:
    """What a policy is expected to cost on some nodes, beside what else could be done.

    Attributes
    ----------
    policy : Amount
        The cheapest action for each node.
    nothing : Amount
        Every node is cleared.
    review_all : Amount or None
        A person looks at every node; None if nobody can.
    model : Amount
        The model as it was: act on the nodes that it predicts to be positive, clear the others.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ClassPolicy, Costs
    >>> p = np.random.default_rng(0).beta(0.3, 2, size=2000)
    >>> labels = (np.random.default_rng(1).random(2000) < p).astype(int)
    >>> probs = np.column_stack([1 - p, p])
    >>> policy = ClassPolicy(1, costs=Costs(missed=5, false_alarm=1)).fit(probs, labels)
    >>> costs = policy.outlook_.costs
    >>> costs.policy.expected < costs.model.expected < costs.nothing.expected
    True

    """

    policy: Amount
    nothing: Amount
    review_all: Amount | None
    model: Amount


def cheapest_actions(costs: Costs, p: FloatArray) -> IntArray:
    """Return the code of the cheapest action; a person looks only where that is cheaper."""
    chance = np.clip(p, 0.0, 1.0)
    act, clear = (1.0 - chance) * costs.false_alarm, chance * costs.missed
    automatic = np.where(act < clear, ACT, CLEAR)
    return np.where(np.minimum(act, clear) <= costs.review, automatic, REVIEW)


def cost_of(costs: Costs, actions: IntArray, is_positive: Any) -> FloatArray:
    """Return what each node costs, (n_nodes,), its class being known."""
    missed, false_alarm = costs.missed * is_positive, costs.false_alarm * (1 - is_positive)
    review = np.broadcast_to(costs.review, actions.shape)
    return np.select([actions == ACT, actions == CLEAR], [false_alarm, missed], review)


def expect_costs(
    costs: Costs,
    p: FloatArray,
    actions: IntArray,
    predicted: Any,
    recalibration: Recalibration,
    level: float,
) -> CostOutlook:
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
    return CostOutlook(
        policy=total(actions),
        nothing=total(CLEAR * everyone),
        review_all=total(REVIEW * everyone) if np.isfinite(costs.review).all() else None,
        model=total(np.where(predicted, ACT, CLEAR)),
    )


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
            f"the cost {name} is {shown(value)}; expected a number or one number for each node."
        )
    if array.ndim == 1 and array.size != n_nodes:
        raise InputError(
            f"the cost {name} has {array.size:,} values for {n_nodes:,} nodes; pass one for each "
            "node, or one number for all."
        )
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InputError(f"the cost {name} has values that are negative or not finite.")
    if (array > LARGEST_COST).any():
        raise InputError(
            f"the cost {name} is {array.max():g}, above {LARGEST_COST:g}; give all costs in a "
            "larger unit."
        )
    return array.astype(np.float64) if array.ndim else float(array)
