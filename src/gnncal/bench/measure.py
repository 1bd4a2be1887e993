"""One cell: fit a calibrator on frozen logits, and every number that a table needs."""

from __future__ import annotations

import math
import warnings
from time import perf_counter, process_time
from typing import Any

import numpy as np

from gnncal import metrics
from gnncal.bench.logits import FrozenLogits
from gnncal.bench.plan import Cell, constructor_parameters, make_calibrator
from gnncal.bench.records import Record
from gnncal.calibrators.base import Calibrator
from gnncal.core.arrays import FloatArray

COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
POOLED_BINS = 10  # of reliability diagrams over all seeds


def run_cell(cell: Cell, frozen: FrozenLogits, *, run: str) -> Record:
    """Fit, predict, measure; an exception becomes the record of a failure."""
    started, cpu_started = perf_counter(), process_time()
    parameters: dict[str, Any] = {}
    learned: dict[str, Any] = {}
    measured: dict[str, Any] = {}
    fit_cpu_seconds, failure = 0.0, None
    try:
        calibrator = make_calibrator(cell)
        parameters = constructor_parameters(calibrator)
        fit_quietly(calibrator, frozen)
        fit_cpu_seconds = process_time() - cpu_started
        probs = calibrator.predict_proba(frozen.logits, frozen.graph)
        learned = _fitted_numbers(calibrator)
        measured = measure(probs, frozen)
    except Exception as error:  # one method must not end the run of all
        failure = f"{type(error).__name__}: {error}"
    return Record(
        *cell,
        parameters=parameters,
        run=run,
        fit_cpu_seconds=fit_cpu_seconds,
        cell_seconds=perf_counter() - started,
        error=failure,
        learned=learned,
        metrics=measured,
    )


def fit_quietly(calibrator: Calibrator, frozen: FrozenLogits) -> None:
    """Fit on the validation nodes; what a user would be warned of is in the figures here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(
            frozen.logits,
            frozen.labels,
            frozen.graph,
            nodes=frozen.validation,
            train_nodes=frozen.train,
        )


def measure(probs: FloatArray, frozen: FrozenLogits) -> dict[str, Any]:
    """Metrics of probabilities (n_nodes, n_classes) on the test nodes, as plain numbers."""
    test = frozen.test
    labels, chosen = frozen.labels[test], probs[test]
    blocks = metrics.degree_blocks(frozen.graph.in_degree[test])
    floor = metrics.calibration_floor(chosen)
    bins = metrics.reliability_bins(labels, chosen, n_bins=POOLED_BINS)
    changes = int((chosen.argmax(axis=1) != frozen.logits[test].argmax(axis=1)).sum())
    return {
        "n_nodes": len(test),
        "accuracy": metrics.accuracy(labels, chosen),
        "ece": metrics.expected_calibration_error(labels, chosen),
        "ece_floor": floor.mean,
        "ece_floor_spread": floor.spread,
        "nll": metrics.negative_log_likelihood(labels, chosen),
        "brier": metrics.brier_score(labels, chosen),
        "degree_ece": metrics.grouped_calibration_error(labels, chosen, blocks),
        "degree_ece_floor": metrics.calibration_floor(chosen, groups=blocks).mean,
        "classwise_ece": metrics.classwise_calibration_error(labels, chosen),
        "smooth_ece": metrics.smooth_calibration_error(labels, chosen),
        "aurc": metrics.aurc(labels, chosen),
        "selective_accuracy": metrics.selective_accuracy(labels, chosen, COVERAGES).tolist(),
        "prediction_changes": changes,
        "reliability": {
            "count": bins.count.tolist(),
            "confidence": _sums(bins.count, bins.confidence),
            "correct": [round(value) for value in _sums(bins.count, bins.accuracy)],
        },
    }


def _sums(count: Any, mean: FloatArray) -> list[float]:
    """Sums of bins, which unlike means can be added over seeds."""
    return np.where(count > 0, count * np.nan_to_num(mean), 0.0).round(6).tolist()


def _fitted_numbers(calibrator: Calibrator) -> dict[str, Any]:
    numbers = {
        name.rstrip("_"): value.item() if isinstance(value, np.generic) else value
        for name in calibrator.learned
        if isinstance(value := getattr(calibrator, name), bool | int | float | np.generic)
    }
    return {
        name: value
        for name, value in numbers.items()
        if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
    }
