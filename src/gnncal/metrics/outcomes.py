"""The input of metrics: labels and probabilities of the evaluated nodes, checked once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from scipy.special import betaincinv

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_labels, check_positive, check_probs, check_used_labels
from gnncal.data.constraints import number
from gnncal.data.errors import InputError

Result = TypeVar("Result")


class Outcomes:
    """Labels and probabilities of the evaluated nodes: the argument of every metric.

    Parameters
    ----------
    in_degree : array_like of shape (n_nodes,), optional
        In-degree of each node, for the degree-stratified ECE.
    is_checked : bool, default=False
        Whether labels and probabilities are valid already; True skips the checks.

    Examples
    --------
    >>> from gnncal.metrics import Outcomes
    >>> outcomes = Outcomes([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    >>> outcomes.confidence, outcomes.correct
    (array([0.9, 0.8]), array([1., 0.]))

    """

    def __init__(
        self,
        labels: Any,
        probs: Any,
        in_degree: Any = None,
        *,
        positive: int | None = None,
        is_checked: bool = False,
    ) -> None:
        self.probs: FloatArray = probs if is_checked else check_probs(probs)
        n, n_classes = self.probs.shape
        self.labels: IntArray = labels
        self.in_degree = in_degree
        self.positive = positive
        if not is_checked:
            given = check_labels(labels, n)
            self.labels = check_used_labels(given, np.arange(n), n_classes, "labels")
            if positive is not None:
                self.positive = check_positive(positive, n_classes, None)
        self._results: dict[Callable[[Outcomes], Any], Any] = {}

    def cached(self, function: Callable[[Outcomes], Result]) -> Result:
        """Return ``function(outcomes)``, computed at most once.

        Parameters
        ----------
        function : callable
            A function of an ``Outcomes``.

        """
        if function not in self._results:
            self._results[function] = function(self)
        return cast(Result, self._results[function])

    @cached_property
    def predictions(self) -> IntArray:
        """Most probable class of each node, shape (n_nodes,)."""
        return self.probs.argmax(axis=1)

    @cached_property
    def confidence(self) -> FloatArray:
        """Largest probability of each node in float64, shape (n_nodes,)."""
        every = np.arange(len(self.probs))
        return self.probs[every, self.predictions].astype(np.float64)

    @cached_property
    def correct(self) -> FloatArray:
        """1.0 where the most probable class is the label, else 0.0; shape (n_nodes,)."""
        return (self.predictions == self.labels).astype(np.float64)

    @cached_property
    def positive_probability(self) -> FloatArray:
        """Probability of the positive class in float64, shape (n_nodes,)."""
        return np.minimum(self.probs[:, self._view].astype(np.float64), 1.0)

    @cached_property
    def is_positive(self) -> FloatArray:
        """1.0 where the label is the positive class, else 0.0; shape (n_nodes,)."""
        return (self.labels == self._view).astype(np.float64)

    @property
    def _view(self) -> int:
        if self.positive is None:
            raise InputError("no positive class is given; pass its number as positive.")
        return self.positive


def clopper_pearson(
    successes: Any, trials: Any, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper ends of exact confidence intervals for proportions.

    If trials are independent, an interval contains the true proportion with a probability of at
    least ``level``. The ends are NaN where there are no trials.

    Parameters
    ----------
    successes, trials : array_like of int
        Numbers of successes and of trials, of any shape.
    level : float, default=0.95
        Confidence level of the two-sided interval.

    References
    ----------
    Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial" (Biometrika 1934).

    Examples
    --------
    >>> from gnncal.metrics import clopper_pearson
    >>> low, high = clopper_pearson([0, 8], [0, 10])
    >>> low.round(3), high.round(3)
    (array([  nan, 0.444]), array([  nan, 0.975]))

    """
    number(above=0, below=1).check("level", level)
    hits, n = np.broadcast_arrays(np.asarray(successes), np.asarray(trials))
    if (hits < 0).any() or (hits > n).any():
        raise InputError("successes has entries below 0 or above trials; expected 0 to trials.")
    tail = 0.5 * (1.0 - level)
    high = np.where(hits < n, betaincinv(hits + 1.0, np.maximum(n - hits, 1), 1.0 - tail), 1.0)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1.0, tail), 0.0)
    return np.where(n == 0, np.nan, low), np.where(n == 0, np.nan, high)
