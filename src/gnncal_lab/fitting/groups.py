"""Nodes in groups that have a temperature each: how many groups, and which rest on too little."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gnncal.calibrators import TemperatureLoss
from gnncal_lab.arrays import FloatArray, IntArray

NARROW_RANGE = (0.05, 20.0)  # of T: few nodes share a group, often all of them correct
N_FOLDS = 5
SIGNIFICANT_DIGITS = 9  # of a loss; less is rounding

# Logits, labels and the group of some nodes, and the number of groups: a temperature of each group.
GroupFit = Callable[[FloatArray, IntArray, IntArray, int], FloatArray]


def best_number_of_groups(
    logits: FloatArray,
    labels: IntArray,
    groupings: Mapping[int, IntArray],
    order: IntArray,
    fit: GroupFit,
) -> int:
    """Return the number of groups with the lowest log loss on held-out folds, or the first."""
    first, *_ = groupings
    if len(labels) < 2:
        return first
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % min(N_FOLDS, len(labels))
    losses = [_held_out_loss(logits, labels, g, n, fold, fit) for n, g in groupings.items()]
    return list(groupings)[int(np.argmin(np.round(losses, SIGNIFICANT_DIGITS)))]


def _held_out_loss(
    logits: FloatArray,
    labels: IntArray,
    groups: IntArray,
    n_groups: int,
    fold: IntArray,
    fit: GroupFit,
) -> float:
    temperature = np.empty(len(labels))
    for f in range(fold.max() + 1):
        rest = fold != f
        fitted = fit(logits[rest], labels[rest], groups[rest], n_groups)
        temperature[~rest] = fitted[groups[~rest]]
    return TemperatureLoss(logits, labels).value(temperature)


def weak_groups(
    logits: FloatArray, labels: IntArray, groups: IntArray, temperatures: FloatArray, name: str
) -> Iterator[str]:
    """What is wrong with each group whose calibration nodes do not determine its temperature."""
    correct = logits.argmax(axis=1) == labels
    for g in np.unique(groups):
        n_nodes, named = int((groups == g).sum()), f"{name}[{g}] = {temperatures[g]:.4g}"
        if n_nodes == 1:
            yield f"{named} rests on one calibration node"
        elif correct[groups == g].all():
            yield f"{named} rests on {n_nodes} calibration nodes without a mistake"
        elif temperatures[g] in NARROW_RANGE:
            yield f"{named} is at a bound of {NARROW_RANGE[0]:g} to {NARROW_RANGE[1]:g}"


def groups_at_bounds(temperatures: FloatArray, name: str) -> tuple[str, ...]:
    """Return the names of the temperatures that ended at a bound."""
    return tuple(f"{name}[{g}]" for g in np.flatnonzero(np.isin(temperatures, NARROW_RANGE)))
