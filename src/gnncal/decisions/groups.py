"""Decisions by group: thresholds, and a guarantee, for each value of a column."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from gnncal.data.arrays import as_numpy
from gnncal.data.checks import check_nodes, check_probs
from gnncal.data.errors import InputError
from gnncal.data.estimator import clone
from gnncal.decisions.policy import Policy
from gnncal.decisions.sets import ConformalClassifier

D = TypeVar("D", Policy, ConformalClassifier)


def fit_by_group(
    decision: D, probs: Any, labels: Any, *, groups: Any, nodes: Any, **given: Any
) -> dict[Any, D]:
    """Return a policy, or prediction sets, fitted for each value of a column.

    The guarantee then holds for the nodes of each group by themselves, with the probability that
    is stated for each of them. A group without calibration nodes is not in the result: its nodes
    go to review, or their sets have all classes.

    Parameters
    ----------
    decision : Policy or ConformalClassifier
        What is fitted for each group; it stays as it is.
    groups : array_like of shape (n_nodes,)
        The group of each node, a number or a text.
    **given : dict
        What else the ``fit`` of the decision takes, such as ``graph`` or ``calibrator``.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import Policy, fit_by_group
    >>> generator = np.random.default_rng(0)
    >>> p, country = generator.beta(4, 1, size=2000), np.arange(2000) % 2
    >>> labels = (generator.random(2000) > p).astype(int)
    >>> probs, actions = np.column_stack([p, 1 - p]), np.full(2000, "review")
    >>> policy, nodes = Policy(accuracy=0.8), range(600)
    >>> for name, each in fit_by_group(policy, probs, labels, groups=country, nodes=nodes).items():
    ...     actions[country == name] = each.decide(probs[country == name])
    >>> sorted(set(actions.tolist()))
    ['decide', 'review']

    """
    n_nodes, group = len(check_probs(probs)), as_numpy(groups)
    if group.shape != (n_nodes,):
        raise InputError(
            f"groups has shape {group.shape} but probs has {n_nodes} rows; pass one group for each "
            "node."
        )
    rows, asked = check_nodes(nodes, n_nodes), given.pop("decision_nodes", None)
    asked = np.setdiff1d(np.arange(n_nodes), rows) if asked is None else asked
    fitted = {}
    for value in np.unique(group[rows]).tolist():
        inside = np.flatnonzero(group == value)
        if isinstance(decision, Policy):
            others = np.intersect1d(check_nodes(asked, n_nodes), inside)
            given["decision_nodes"] = others if others.size else inside
        mine = np.intersect1d(rows, inside)
        fitted[value] = clone(decision).fit(probs, labels, nodes=mine, **given)
    return fitted
