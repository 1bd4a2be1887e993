"""How a fitted calibrator learns from new labels, or moves to new rates of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import date
from typing import Any

import numpy as np

from gnncal.calibrators.base import AnyCalibrator, Calibrator
from gnncal.calibrators.fit_report import FitReport, Update
from gnncal.data.arrays import FloatArray
from gnncal.data.checks import check_positive
from gnncal.data.constraints import NONE, TEXT, check_learned, integer, number, tuple_of
from gnncal.data.errors import InputError, short_repr, warn
from gnncal.data.nodes import Nodes, labelled_nodes
from gnncal.data.probability import log_losses
from gnncal.math.node_summary import OF_NEIGHBOURS, SMALLEST_SAMPLE, LearnedNodes, NodeSummary
from gnncal.shift.posterior import update_block

MOST_NODES = 20_000  # by which an update is measured; more would hardly tell more
# Changes of what neighbours give a node's class: the first always counts, the second never;
# between them, half of what they give beyond chance does.
MUCH_SUPPORT, LITTLE_SUPPORT = 0.2, 0.05
SURE = 8.0  # standard errors: nodes share neighbours, so means vary more than independent ones
OTHER_DEGREE = 1.5  # ratio of degrees from which a network's own messages may explain half
SHARE = number(at_least=0, at_most=1)
FIELDS = {  # of an update in a file
    "date": TEXT,
    "n_labels": integer(at_least=0),
    "tau": number(at_least=0) | NONE,
    "moved": SHARE | NONE,
    "rates": tuple_of("rates", SHARE),
}


def history_of(plain: Any, n_classes: int) -> tuple[Update, ...]:
    """Return the updates that a file lists, each value of which is checked."""
    for entry in plain:
        check_learned(FIELDS, entry, {}, where="history")
        if len(entry["rates"]) != n_classes:
            raise InputError(f"history has {len(entry['rates'])} rates for {n_classes} classes.")
    return tuple(Update(**entry) for entry in plain)


def updated(
    calibrator: AnyCalibrator,
    given: Nodes | None,
    record: Nodes | None,
    labels: Any,
    *,
    rates: Any,
    **splits: Any,
) -> AnyCalibrator:
    """Return a copy of the calibrator that has learned; ``Calibrator.update`` documents it."""
    has_labels = labels is not None or (given is not None and given.labels.size > 0)
    if not has_labels and rates is None:
        raise InputError(
            "update needs labels or rates; pass labels of some nodes, or rates of the classes "
            "such as rates={'fraud': 0.06}."
        )
    new, tau, after = copy(calibrator), None, None
    if rates is not None:
        new._shift_class_bias(np.zeros(len(new.classes_)))  # some methods cannot, and say so
        before = calibrator.base_rates_
        after = check_rates(rates, before, getattr(calibrator, "class_names_", None))
        new._shift_class_bias(log_ratio(before, after))
    if has_labels:
        record = _without_repeated(calibrator, labelled_nodes(given, labels, **splits))
        tau = _learn(new, record)
    _finish(new, calibrator, record, tau, after)
    return new


def _without_repeated(calibrator: Calibrator, record: Nodes) -> Nodes:
    """Leave out the nodes whose labels the calibrator has learned from: none counts twice."""
    is_repeated = calibrator.learned_nodes_.holds(record)
    n_nodes, n_repeated = is_repeated.size, int(is_repeated.sum())
    if n_repeated == n_nodes:
        raise InputError(
            f"the calibrator has learned from all {n_nodes:,} labelled nodes before; pass nodes "
            "with new labels, or fit again where labels were corrected."
        )
    if n_repeated:
        warn(
            f"{n_repeated:,} of the {n_nodes:,} labelled nodes are left out, because the "
            "calibrator has learned from them before; where labels were corrected, fit again."
        )
        record = record.subset(~is_repeated)
    return record


def _learn(new: Calibrator, labelled: Nodes) -> float:
    """Move every block of the calibrator; return how far the labels let it move."""
    taus, memories = [], dict(new.memories_)
    for block in new._posterior_blocks(labelled):
        memory = memories.get(block.name)
        if memory is not None and memory.last.shape != block.theta.shape:
            raise InputError("its stored updates do not match its parameters; fit again.")
        moved, memories[block.name] = update_block(block, memory)
        new._set_block(block.name, moved.theta, moved.covariance)
        taus.append(moved.tau)
    new.memories_ = memories
    new._finish_update(labelled)
    return float(np.mean(taus))


def _finish(
    new: Calibrator,
    old: Calibrator,
    record: Nodes | None,
    tau: float | None,
    rates: FloatArray | None,
) -> None:
    """Set what an updated calibrator remembers."""
    moved, n_labels = None, 0
    if record is not None:
        bare = record.unlabelled
        some = np.arange(0, record.n_nodes, -(-record.n_nodes // MOST_NODES))
        probs, before = (each._predict_rows(bare, some) for each in (new, old))
        moved = float(np.abs(probs - before).sum(axis=1).mean(dtype=np.float64) / 2)
        new._describe_fitted_graph(bare)
        if tau is not None:
            n_labels = record.labels.size
            labelled = new._predict_rows(bare, record.calibration_nodes)
            loss = record.mean(log_losses(labelled, record.labels))
            new.fit_report_ = FitReport.of(record, loss)
            rows = record.calibration_nodes
            if rows.size < SMALLEST_SAMPLE:  # too few to compare with: all outside training
                rows = np.setdiff1d(np.arange(record.n_nodes), record.train_nodes)
            new.fitted_on_ = NodeSummary.of(record, rows)
            _warn_of_other_homophily(old.fitted_on_, new.fitted_on_, n_labels)
            new.learned_nodes_ = LearnedNodes.of(record, old.learned_nodes_)
            new._measure_error(record)
            rates = probs.mean(axis=0, dtype=np.float64)
    assert rates is not None  # labels or rates were given
    new.provenance_ = dict(old.provenance_)  # tags of one are not those of the other
    new.base_rates_ = rates / rates.sum()
    today = date.today().isoformat()
    update = Update(today, n_labels, tau, moved, tuple(new.base_rates_.tolist()))
    new.history_ = (*old.history_, update)


def _warn_of_other_homophily(before: NodeSummary, after: NodeSummary, n_labels: int) -> None:
    """Say where neighbours agree much more or less than they did: an update follows slowly."""
    both = [(each.all_nodes or each).bins for each in (before, after)]
    if not all(name in bins and bins[name].counts.any() for bins in both for name in OF_NEIGHBOURS):
        return
    was, now = (float(bins["support"].cuts.mean()) for bins in both)
    low, high = sorted(float(bins["degree"].cuts.mean()) for bins in both)
    error = np.sqrt(sum(bins["support"].cuts.var() / bins["support"].counts.sum() for bins in both))
    beyond_chance = max(abs(each - 1.0 / before.predicted.size) for each in (was, now))
    half = beyond_chance / 2 if high < OTHER_DEGREE * low else MUCH_SUPPORT
    if abs(now - was) > np.clip(max(half, SURE * error), LITTLE_SUPPORT, MUCH_SUPPORT):
        warn(
            "homophily itself seems to have changed: neighbours give a node's predicted class "
            f"{now:.2f} on average instead of {was:.2f}. An update follows such a change slowly; "
            f"compare it with a fit on the {n_labels:,} new labels alone."
        )


RATE = number(above=0, below=1)
TOLERANCE = 1e-6  # of the sum of all rates


def check_rates(rates: Any, before: FloatArray, class_names: list[str] | None) -> FloatArray:
    """Return a rate for each class, (n_classes,); classes that are not named share the rest."""
    n_classes = len(before)
    if not isinstance(rates, Mapping) or not rates:
        raise InputError(
            f"rates is {short_repr(rates)}; expected rates by class, such as {{'fraud': 0.06}}."
        )
    given = {
        check_positive(key, n_classes, class_names, what="a class of rates"): rate
        for key, rate in rates.items()
    }
    if len(given) < len(rates):
        raise InputError("rates names a class twice; name each class once.")
    for c, rate in given.items():
        RATE.check(f"the rate of class {c}", rate)
    total, others = sum(given.values()), [c for c in range(n_classes) if c not in given]
    if others and total >= 1:
        raise InputError(
            f"the rates sum to {total:g}, which leaves nothing for the other classes; pass rates "
            "with a sum below 1."
        )
    if not others and abs(total - 1.0) > TOLERANCE:
        raise InputError(f"the rates of all classes sum to {total:g}; expected 1.")
    after = np.zeros(n_classes)
    after[list(given)] = list(given.values())
    rest = before[others]
    after[others] = (1.0 - total) * rest / rest.sum() if rest.sum() > 0 else 0.0
    return after


def log_ratio(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return ln r'_k / r_k; a class without calibration nodes has no rate that could be changed."""
    missing = np.flatnonzero((before <= 0) & (after > 0))
    if missing.size:
        raise InputError(
            f"no calibration node had class {missing[0]}, so its rate in the fit is unknown; fit "
            "again with nodes of each class."
        )
    ratio = np.divide(after, before, out=np.ones_like(before), where=before > 0)
    return np.log(ratio)
