"""One cell: fit a calibrator on frozen logits, and measure everything that a table needs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from time import perf_counter, process_time
from typing import Any

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import learned_values
from gnncal.calibrators.homophily import HomophilyEstimator, Predictor, make_estimator, name_of
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.files.bundle import Bundle
from gnncal.metrics.binning import bins_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.ranking import curve_of
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS
from gnncal_lab.bench.plan import Cell, constructor_parameters, make_calibrator
from gnncal_lab.bench.records import AVERAGED, COVERAGES, Record
from gnncal_lab.homophily import Shared

POOLED_BINS = 10  # of reliability diagrams over all seeds
Predictors = dict[HomophilyEstimator, Shared]  # trained on one task, by their parameters


def run_cell(cell: Cell, bundle: Bundle, predictors: Predictors, *, run: str) -> Record:
    """Fit, predict, measure; an exception becomes the record of a failure."""
    started, cpu_started = perf_counter(), process_time()
    parameters: dict[str, Any] = {}
    learned: dict[str, Any] = {}
    measured: dict[str, Any] = {}
    fit_cpu_seconds, failure = 0.0, None
    try:
        calibrator = make_calibrator(cell)
        parameters = constructor_parameters(calibrator)
        trained_before = _use_shared_predictor(calibrator, predictors)
        nodes = fit_bundle(calibrator, bundle)
        fit_cpu_seconds = process_time() - cpu_started + trained_before
        probs = calibrator.predict_proba(nodes)
        learned = _fitted_numbers(calibrator)
        measured = measure(probs, bundle)
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


def _use_shared_predictor(calibrator: Calibrator, predictors: Predictors) -> float:
    """Use the predictor that the task shares; return the CPU seconds that it took before."""
    estimator = getattr(calibrator, "homophily", None)
    if not isinstance(estimator, Predictor):
        return 0.0
    shared = predictors.setdefault(estimator, Shared(estimator))
    calibrator.set_params(homophily=shared)
    return shared.cpu_seconds


def fit_bundle(calibrator: Calibrator, bundle: Bundle) -> Nodes:
    """Fit on the validation nodes without warnings, because the records show the result."""
    # Each fit has a record of its own, so that its time does not depend on what others have
    # computed before.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = Nodes(bundle.logits, bundle.graph)
        calibrator.fit(
            nodes,
            bundle.labels,
            calibration_nodes=bundle.calibration_nodes,
            train_nodes=bundle.train_nodes,
        )
    used = getattr(calibrator, "homophily_method_", None)
    if used is not None and bundle.graph.features is None:
        asked = name_of(make_estimator(calibrator.get_params()["homophily"]))
        if used != asked:  # a record under the name of the other would mislead
            raise InputError(
                f"homophily={asked!r} needs node features; add the array x to the bundle."
            )
    return nodes


def ordered_test_nodes(bundle: Bundle) -> IntArray:
    """Test nodes in the order of their ids, by which ties in homophily are broken."""
    return np.sort(bundle.test_nodes)


def measure(probs: FloatArray, bundle: Bundle) -> dict[str, Any]:
    """Return the metrics of probabilities (n_nodes, n_classes) on the test nodes, as plain
    numbers."""
    test = ordered_test_nodes(bundle)
    outcomes = Outcomes(bundle.labels[test], probs[test], bundle.graph.in_degree[test])
    measured = measures_of(outcomes)
    bins = bins_of(outcomes, POOLED_BINS)
    changes = int((outcomes.predictions != bundle.logits[test].argmax(axis=1)).sum())
    return {
        "n_nodes": len(test),
        "degree_ties": AVERAGED,  # records made before this rule lack it
        **{name: value for name, value in measured.items() if math.isfinite(value)},
        "selective_accuracy": selective_accuracy_of(outcomes, COVERAGES).tolist(),
        "prediction_changes": changes,
        "reliability": {
            "count": bins.count.tolist(),
            "confidence": _sums(bins.count, bins.confidence),
            "correct": [round(value) for value in _sums(bins.count, bins.accuracy)],
        },
    }


def measures_of(outcomes: Outcomes) -> dict[str, float]:
    """Return every metric and every noise floor by name, as plain numbers."""
    measured: dict[str, float] = {}
    for name, metric in METRICS.items():
        value = metric.of(outcomes)
        if value is None:
            continue
        measured[name] = value
        if metric.floor is not None:
            floor = metric.floor(outcomes)
            measured[f"{name}{FLOOR_SUFFIX}"] = floor.mean
            measured[f"{name}{FLOOR_SUFFIX}_spread"] = floor.spread
    return measured


def selective_accuracy_of(outcomes: Outcomes, coverages: Sequence[float]) -> FloatArray:
    """Accuracy among the most confident ceil(coverage * n) nodes, for each coverage."""
    risk = curve_of(outcomes).risk
    kept = np.ceil(np.asarray(coverages, np.float64) * len(risk) - 1e-9)  # 0.07 * 100 is 7, not 8
    return 1.0 - risk[np.maximum(kept, 1).astype(np.int64) - 1]


def _sums(count: Any, mean: FloatArray) -> list[float]:
    """Return the sums of bins, which unlike means can be added over seeds."""
    return np.where(count > 0, count * np.nan_to_num(mean), 0.0).round(6).tolist()


def _fitted_numbers(calibrator: Calibrator) -> dict[str, Any]:
    return {
        name: value
        for name, value in learned_values(calibrator).items()
        if not isinstance(value, str) and math.isfinite(value)
    }
