"""Labelled nodes: split for calibrator and policy, used for both, by group, or still to choose."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.checks import UNKNOWN, check_labels, check_nodes, check_positive, check_probs
from gnncal.data.constraints import SEED, integer, number
from gnncal.data.errors import GnncalWarning, InputError
from gnncal.data.estimator import clone
from gnncal.data.nodes import as_nodes, labelled_nodes
from gnncal.decisions.policy import Policy, nodes_to_decide
from gnncal.decisions.sets import ConformalClassifier
from gnncal.metrics.binning import check_groups

D = TypeVar("D", Policy, ConformalClassifier)
N_FOLDS = 5  # parts of the labelled nodes, each scored by a fit on the others
ROOM = 2.0  # the region of labels is so many times as large as what the model expects to act on


def hold_out(
    calibration_nodes: Any,
    *,
    labels: Any = None,
    groups: Any = None,
    share: float = 0.5,
    random_state: int = 0,
) -> tuple[IntArray, IntArray]:
    """Return nodes to fit the calibrator on, and nodes held out to certify decisions.

    The ``calibration_nodes`` are split at random. A guarantee needs nodes that were not used to fit
    the calibrator. With ``labels``, each part gets its share of every class. With ``groups``, no
    group is divided; use them if nodes are not independent, for example the items of one account.

    Parameters
    ----------
    share : float, default=0.5
        Share of the nodes to hold out, rounded to whole nodes or groups.

    Examples
    --------
    >>> from gnncal.decisions import hold_out
    >>> hold_out(range(4), labels=[0, 0, 1, 1])[1].size
    2

    """
    number(above=0, below=1).check("share", share)
    SEED.check("random_state", random_state)
    array, known = as_numpy(calibration_nodes), None
    n_nodes = int(array.max(initial=-1)) + 1 if array.dtype.kind in "iu" else array.size
    if labels is not None:
        n_nodes = as_numpy(labels).shape[0]
        known = check_labels(labels, n_nodes)
    chosen = check_nodes(array, n_nodes, name="calibration_nodes")
    if groups is None:
        order, n_held = _stratified_order(chosen, known, random_state), round(share * chosen.size)
    else:
        order, n_held = _grouped_order(chosen, known, groups, share, random_state)
    if not 0 < n_held < chosen.size:
        raise InputError(
            f"{chosen.size} labelled nodes cannot be split with share={share:g}; each of the two "
            "parts needs at least one node, or one group."
        )
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def cross_fit(
    calibrator: Any,
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    calibration_nodes: Any,
    train_nodes: Any = None,
    random_state: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """Return probabilities of a fit to all labelled nodes, and cross-fitted probabilities.

    Cross-fitted probabilities of a labelled node come from a fit without its label; there are up to
    five such fits. ``Policy.fit(..., cross_fitted=...)`` certifies on these probabilities and
    decides by the first result. Guarantees held in simulations but are not proven, because the
    threshold is certified on the scores of several fits and applied to those of another.

    Examples
    --------
    >>> import gnncal
    >>> task, ts = gnncal.example(), gnncal.calibrators.TemperatureScaling()
    >>> probs, seen = gnncal.decisions.cross_fit(
    ...     ts, task.logits, task.labels, calibration_nodes=task.calibration_nodes
    ... )
    >>> policy = gnncal.decisions.Policy(accuracy=0.98)
    >>> policy.fit(
    ...     probs, task.labels, calibration_nodes=task.calibration_nodes, cross_fitted=seen
    ... ).report_.is_proven
    False

    """
    every = as_nodes(logits, graph)
    record = labelled_nodes(
        every, labels, calibration_nodes=calibration_nodes, train_nodes=train_nodes
    )
    known, rows = check_labels(labels, every.n_nodes), record.calibration_nodes
    if rows.size < 2:
        raise InputError("one labelled node cannot fit and certify; label more nodes.")
    probs = calibrator.fit(record).predict_proba(every)
    cross_fitted = np.array(probs)
    order = _stratified_order(rows, known, random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)  # a fold's lacks are not those of the nodes
        for part in np.array_split(order, min(N_FOLDS, rows.size)):
            rest = np.setdiff1d(rows, part)
            labelled = every.with_labels(
                known, calibration_nodes=rest, train_nodes=record.train_nodes
            )
            cross_fitted[part] = clone(calibrator).fit(labelled).predict_proba(every)[part]
    return probs, cross_fitted


def fit_by_group(
    decision: D, probs: Any, labels: Any, *, groups: Any, calibration_nodes: Any, **given: Any
) -> dict[Any, D]:
    """Return a dict with a fitted policy or conformal classifier for each group of nodes.

    Each group then has a guarantee of its own, which holds with the stated probability for that
    group. A group without calibration nodes is not in the result: review its nodes, or give them
    sets of all classes.

    Parameters
    ----------
    decision : Policy or ConformalClassifier
        The unfitted object; a copy is fitted for each group.
    **given : dict
        Further arguments of its ``fit``, such as ``graph`` or ``calibrator``.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.decisions import Policy, fit_by_group
    >>> task = gnncal.example()
    >>> probs, batch = gnncal.calibrators.softmax(task.logits), [0, 1, 2] * 599
    >>> given = {"groups": batch, "calibration_nodes": task.calibration_nodes}
    >>> list(fit_by_group(Policy(accuracy=0.9), probs, task.labels, **given))
    [0, 1, 2]

    """
    n_nodes = len(check_probs(probs))
    values, group = check_groups(groups, n_nodes)
    rows, fitted = check_nodes(calibration_nodes, n_nodes, name="calibration_nodes"), {}
    if rows.size == 0:
        raise InputError("the calibration set is empty; pass nodes whose labels are known.")
    named = given.get("train_nodes")
    train = check_nodes([] if named is None else named, n_nodes, name="train_nodes")
    asked = nodes_to_decide(given.pop("decision_nodes", None), rows, n_nodes, train)
    for code in np.unique(group[rows]):
        inside = np.flatnonzero(group == code)
        if isinstance(decision, Policy):
            others = np.intersect1d(asked, inside)
            given["decision_nodes"] = others if others.size else inside
        mine = np.intersect1d(rows, inside)
        fitted[values[[code]].tolist()[0]] = clone(decision).fit(
            probs, labels, calibration_nodes=mine, **given
        )
    return fitted


def nodes_to_label(
    probs: Any,
    positive: Any,
    *,
    act: float,
    n: int,
    among: Any = None,
    class_names: Any = None,
    random_state: int = 0,
) -> tuple[IntArray, float]:
    """Return nodes to label so that acting can be certified, and the region they are drawn from.

    The region, given by its lowest probability, is the argument ``region`` of ``Policy.fit``. The
    region has twice as many nodes as could be acted on if the probabilities were right, and at
    least ``2 n``. The nodes to label are a random sample of the region.

    Parameters
    ----------
    act, n : float and int
        Minimum share of nodes of the class among those acted on, and number of nodes to label.
    among : array_like, optional
        Nodes to draw from, as a mask or indices: those to decide. Default: all.

    Examples
    --------
    >>> from gnncal.decisions import nodes_to_label
    >>> probs = [[0.1, 0.9], [0.3, 0.7], [0.8, 0.2], [0.9, 0.1]]
    >>> nodes, region = nodes_to_label(probs, 1, act=0.8, n=2)

    """
    number(above=0, below=1).check("act", act)
    integer(at_least=1).check("n", n)
    SEED.check("random_state", random_state)
    checked = check_probs(probs)
    c = check_positive(positive, checked.shape[1], class_names)
    pool = np.arange(len(checked)) if among is None else check_nodes(among, len(checked))
    p = checked[pool, c].astype(np.float32).astype(np.float64)
    ranked = np.sort(p)[::-1]
    reached = np.flatnonzero(np.cumsum(ranked) >= act * np.arange(1, p.size + 1))
    n_expected = int(reached[-1]) + 1 if reached.size else 0
    n_region = min(max(round(ROOM * n_expected), 2 * n), p.size)
    if n_region < n:
        raise InputError(f"there are {p.size:,} nodes to draw from, fewer than n={n:,}.")
    region = float(ranked[n_region - 1])
    drawn = np.random.default_rng(random_state).choice(pool[p >= region], n, replace=False)
    return np.sort(drawn), region


def _grouped_order(
    nodes: IntArray, labels: IntArray | None, groups: Any, share: float, random_state: int
) -> tuple[IntArray, int]:
    """Return the nodes in a random order of their groups, and where a group ends at the share."""
    group = as_numpy(groups)
    if group.ndim != 1 or group.size <= nodes.max(initial=-1):
        raise InputError(f"groups has shape {group.shape}; pass one group for each node.")
    _, entity, size = np.unique(group[nodes], return_inverse=True, return_counts=True)
    rarest = None
    if labels is not None:  # of the classes in a group
        _, of_node, count = np.unique(labels[nodes], return_inverse=True, return_counts=True)
        rarest = np.zeros(size.size, dtype=np.int64)
        np.maximum.at(rarest, entity, np.argsort(np.argsort(-count))[of_node])
    order = _stratified_order(np.arange(size.size), rarest, random_state)
    place = np.argsort(order)[entity]
    ends = np.cumsum(size[order])
    n_held = int(ends[np.abs(ends - share * nodes.size).argmin()])
    return nodes[np.argsort(place, kind="stable")], n_held


def _stratified_order(nodes: IntArray, labels: IntArray | None, random_state: int) -> IntArray:
    """Return the nodes in a random order; any beginning has about its share of every class."""
    order = np.random.default_rng(random_state).permutation(nodes)
    if labels is None:
        return order
    classes = labels[order]
    if (classes == UNKNOWN).any():
        raise InputError("some of the nodes have the label -1, unknown; leave them out of nodes.")
    by_class = np.argsort(classes, kind="stable")
    _, start, size = np.unique(classes[by_class], return_index=True, return_counts=True)
    rank = np.arange(classes.size) - np.repeat(start, size)
    place = np.empty(classes.size)
    place[by_class] = (rank + 0.5) / np.repeat(size, size)
    return np.asarray(order[np.argsort(place, kind="stable")])
