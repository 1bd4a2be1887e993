"""Decisions by group: thresholds, and a guarantee, for each value of a column."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, as_numpy
from gnncal.data.checks import check_nodes, check_probs
from gnncal.data.errors import InputError
from gnncal.data.estimator import check_is_fitted, clone
from gnncal.decisions.policy import Policy
from gnncal.decisions.sets import ConformalClassifier


class ByGroup:
    """Fits a policy, or prediction sets, for each value of a column.

    The guarantee then holds for the nodes of each group by themselves, with the probability that
    the policy states for each of them. A group needs calibration nodes of its own: where it has
    none, its nodes go to review, or their sets have all classes.

    Parameters
    ----------
    decision : Policy or ConformalClassifier
        What is fitted for each group; it stays as it is.

    Attributes
    ----------
    fitted_ : dict
        The fitted policy or classifier of each group that has calibration nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ByGroup, Policy
    >>> generator = np.random.default_rng(0)
    >>> p, country = generator.beta(4, 1, size=2000), np.arange(2000) % 2
    >>> labels = (generator.random(2000) > p).astype(int)
    >>> probs = np.column_stack([p, 1 - p])
    >>> policy = ByGroup(Policy(accuracy=0.8)).fit(probs, labels, groups=country, nodes=range(600))
    >>> sorted(policy.fitted_), sorted(set(policy.decide(probs, groups=country).tolist()))
    ([0, 1], ['decide', 'review'])

    """

    fitted_: dict[Any, Any]

    def __init__(self, decision: Policy | ConformalClassifier) -> None:
        self.decision = decision

    def fit(self, probs: Any, labels: Any, *, groups: Any, nodes: Any, **given: Any) -> Self:
        """Fit the thresholds of each group on its own calibration nodes.

        Parameters
        ----------
        probs, labels, groups, nodes : array_like
            As for the ``fit`` of the decision; and the group of each node, a number or a text.
        **given : dict
            What else the ``fit`` of the decision takes, such as ``graph`` or ``calibrator``.

        Returns
        -------
        ByGroup
            The object itself, fitted.

        """
        n_nodes = len(check_probs(probs))
        group, rows = _checked(groups, n_nodes), check_nodes(nodes, n_nodes)
        fitted = {}
        for value in np.unique(group[rows]).tolist():
            inside, own = group == value, dict(given)
            if isinstance(self.decision, Policy):
                asked = given.get("decision_nodes")
                asked = np.setdiff1d(np.arange(n_nodes), rows) if asked is None else asked
                others = np.intersect1d(check_nodes(asked, n_nodes), np.flatnonzero(inside))
                own["decision_nodes"] = others if others.size else inside
            mine = rows[inside[rows]]
            fitted[value] = clone(self.decision).fit(probs, labels, nodes=mine, **own)
        self.fitted_ = fitted
        return self

    def decide(self, probs: Any, *, groups: Any) -> npt.NDArray[np.str_]:
        """Say what to do with each node, by the policy of its group.

        Parameters
        ----------
        probs, groups : array_like
            Probabilities and group of each node, made as those of ``fit``.

        Returns
        -------
        ndarray of str of shape (n_nodes,)
            Actions; ``"review"`` in groups without calibration nodes.

        """
        checked = check_probs(probs)
        actions = np.full(len(checked), "review")
        for policy, inside in self._parts(groups, len(checked)):
            actions[inside] = policy.decide(checked[inside])
        return actions

    def predict_set(self, probs: Any, *, groups: Any, graph: Any = None) -> BoolArray:
        """Return the set of classes of each node, by the sets of its group.

        Parameters
        ----------
        probs, groups, graph : array_like, and Graph or None
            Probabilities and group of each node, and the graph for scores that need one.

        Returns
        -------
        ndarray of bool of shape (n_nodes, n_classes)
            Whether the set has this class; every class in groups without calibration nodes.

        """
        checked = check_probs(probs)
        sets = np.ones(checked.shape, dtype=np.bool_)
        for conformal, inside in self._parts(groups, len(checked)):
            sets[inside] = conformal.predict_set(checked, graph)[inside]
        return sets

    def _parts(self, groups: Any, n_nodes: int) -> list[tuple[Any, BoolArray]]:
        """Return what was fitted for each group that is there, and its nodes."""
        check_is_fitted(self, "fitted_")
        group = _checked(groups, n_nodes)
        parts = [(fitted, group == value) for value, fitted in self.fitted_.items()]
        return [(fitted, inside) for fitted, inside in parts if inside.any()]

    def __str__(self) -> str:
        check_is_fitted(self, "fitted_")
        return "\n".join(f"{value}: {each}" for value, each in self.fitted_.items())


def _checked(groups: Any, n_nodes: int) -> npt.NDArray[Any]:
    values = as_numpy(groups)
    if values.shape != (n_nodes,):
        raise InputError(
            f"groups has shape {values.shape} but probs has {n_nodes} rows; pass one group for "
            "each node."
        )
    return values.astype(str) if values.dtype.kind in "OT" else values
