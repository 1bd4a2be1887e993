"""Decisions by group: thresholds, and a guarantee, for each value of a column."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from gnncal.data.checks import check_nodes, check_probs
from gnncal.data.estimator import clone
from gnncal.decisions.policy import Policy
from gnncal.decisions.sets import ConformalClassifier
from gnncal.metrics.binning import check_groups

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
    **given : dict
        What else the ``fit`` of the decision takes, such as ``graph`` or ``calibrator``.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.decisions import Policy, fit_by_group
    >>> task = gnncal.example()
    >>> probs, batch = gnncal.calibrators.softmax(task.logits), [0, 1, 2] * 599
    >>> given = {"groups": batch, "nodes": task.nodes}
    >>> list(fit_by_group(Policy(accuracy=0.9), probs, task.labels, **given))
    [0, 1, 2]

    """
    n_nodes = len(check_probs(probs))
    values, group = check_groups(groups, n_nodes)
    rows, asked = check_nodes(nodes, n_nodes), given.pop("decision_nodes", None)
    asked = np.setdiff1d(np.arange(n_nodes), rows) if asked is None else asked
    fitted = {}
    for number in np.unique(group[rows]):
        inside = np.flatnonzero(group == number)
        if isinstance(decision, Policy):
            others = np.intersect1d(check_nodes(asked, n_nodes), inside)
            given["decision_nodes"] = others if others.size else inside
        mine = np.intersect1d(rows, inside)
        fitted[values[number].item()] = clone(decision).fit(probs, labels, nodes=mine, **given)
    return fitted
