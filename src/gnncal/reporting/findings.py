"""Everything that the report on a calibration shows, as one record."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.calibration import verdict_of, wrong_edges_of
from gnncal.calibrators.auto import chosen_of
from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.homophily import support_of
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import GnncalWarning
from gnncal.data.estimator import clone
from gnncal.decisions.guarantees import Certified
from gnncal.keeping_cost import Halves, KeepingCost, cost_of_keeping_predictions
from gnncal.metrics.binning import ReliabilityBins, bins_of
from gnncal.metrics.evaluation import Comparison, Evaluation, comparison_of, evaluation_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.verdict import UNCALIBRATED, Verdict
from gnncal.reporting import decisions, nodes
from gnncal.reporting.groups import make_groupings, measure_groups
from gnncal.reporting.input import ReportInput, shortened
from gnncal.reporting.temperature import TemperatureProfile, temperature_profile

Progress = Callable[[str], None]


@dataclass(frozen=True)
class MethodFindings:
    """What one method does to the model's confidence, judged on the test nodes."""

    calibrator: Calibrator
    evaluation: Evaluation
    gain: Comparison  # against the raw model
    verdict: Verdict
    reliability: ReliabilityBins
    groups: list[dict[str, Any]]  # of each grouping
    selective: decisions.SelectiveFindings
    temperature: TemperatureProfile | None  # where the method has one
    explanation: dict[str, Any] | None  # of the listed nodes
    one_class: decisions.ClassFindings | None  # if a positive class is given
    seconds: float  # of fit and prediction
    notes: tuple[str, ...]  # what the fit warned of


@dataclass(frozen=True)
class Findings:
    """What a report shows. ``gnncal.report`` draws it."""

    facts: dict[str, Any]  # nodes, classes, splits and edges in a few numbers
    class_names: Sequence[str]
    groupings: Mapping[str, str]  # name and title of each
    methods: Mapping[str, MethodFindings]  # by name, the raw model first
    shown: str  # the method that the report opens with
    listed: IntArray  # (n_listed,) positions in `drawn` of the nodes that changed most
    drawn: dict[str, Any]  # arrays with an entry for each node that is listed or a neighbour
    positive: int | None  # the positive class
    surroundings: list[dict[str, Any]]  # of the listed nodes; without a graph they are alone
    new_nodes: decisions.NewNodeFindings | None  # if there are some to compare with

    @property
    def verdict(self) -> Verdict:
        """The judgement on the method that the report opens with."""
        return self.methods[self.shown].verdict


@dataclass(frozen=True)
class _Fit:
    """A fitted method and its probabilities."""

    calibrator: Calibrator
    probs: FloatArray
    seconds: float
    notes: tuple[str, ...]
    price: KeepingCost | None  # of keeping predictions
    held: decisions.HeldOut


def find(given: ReportInput, *, progress: Progress = lambda step: None) -> Findings:
    """Fit every method, judge it on the test nodes and look at single nodes."""
    progress("preparing the groups of nodes")
    graph, predictions = given.connected.required_graph, given.record.predictions
    support = given.connected.cached(support_of, graph.all_sides)
    groupings = make_groupings(given.graph, predictions, support, given.class_names)
    fits, halves = {}, Halves(given.labelled)
    for name, method in given.methods.items():
        progress(f"calibrating with {name}")
        fits[name] = _fit(given, method, halves)
    shown, raw, rows = fits[given.shown], fits[UNCALIBRATED].probs, np.arange(len(predictions))
    changed = nodes.most_changed(raw[rows, predictions], shown.probs[rows, predictions])
    listed = np.concatenate([given.focus, changed[~np.isin(changed, given.focus)]])
    drawn, surroundings = nodes.neighbourhoods_to_draw(graph, listed)
    methods: dict[str, MethodFindings] = {}
    test, raw_outcomes = given.test_nodes, None
    degree = None if given.graph is None else given.graph.in_degree[test]
    for name, fit in fits.items():
        progress(f"evaluating {name}")
        explanation = None
        if name != UNCALIBRATED:
            at = listed, predictions[listed]
            sides = (probs[at].astype(np.float64) for probs in (raw, fit.probs))
            explanation = nodes.explain_nodes(fit.calibrator, given.record, listed, *sides)
        judged = given.labels[test], fit.probs[test], degree
        outcomes = Outcomes(*judged, positive=given.positive, is_checked=True)
        raw_outcomes = raw_outcomes or outcomes  # the raw model comes first
        names = None if given.positive is None else list(given.class_names)
        evaluation = evaluation_of(outcomes, class_names=names)
        first = methods[UNCALIBRATED].evaluation if methods else evaluation
        gain = comparison_of(raw_outcomes, outcomes)
        methods[name] = MethodFindings(
            fit.calibrator,
            evaluation,
            gain,
            verdict_of(
                *(name, first, evaluation, gain, fit.price, given.class_names),
                tolerance=given.tolerance,
                wrong_edges=wrong_edges_of(fit.calibrator, given.record),
            ),
            outcomes.cached(bins_of),
            [measure_groups(each, outcomes, test) for each in groupings],
            decisions.measure_selection(given, fit.held),
            temperature_profile(fit.calibrator, given.record)
            if isinstance(fit.calibrator, TemperatureMixin)
            else None,
            explanation,
            decisions.measure_class(given, outcomes, fit.probs, fit.held),
            fit.seconds,
            fit.notes,
        )
    certified: list[Certified] = []
    if given.new is not None:
        progress("checking the new nodes")
        one_class = methods[given.shown].one_class
        certified = decisions.certify_accuracy(given, shown.held)
        certified += () if one_class is None else one_class.guarantees
    return Findings(
        nodes.describe_nodes(given),
        given.class_names,
        {grouping.name: grouping.title for grouping in groupings},
        methods,
        given.shown,
        np.searchsorted(drawn, listed),
        _view(given, support, drawn, fits),
        given.positive,
        surroundings,
        decisions.measure_new_nodes(given, shown.calibrator, shown.held, certified),
    )


def _fit(given: ReportInput, method: Calibrator, halves: Halves) -> _Fit:
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GnncalWarning)
        fitted = method if method is given.fitted else clone(method).fit(given.labelled)
        calibrator = chosen_of(fitted)
        probs = calibrator.predict_proba(given.record)
    seconds = time.perf_counter() - start
    notes = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GnncalWarning))
    price = cost_of_keeping_predictions(calibrator, given.labelled, probs, halves)
    held = decisions.hold_out_nodes(given, method)
    return _Fit(calibrator, probs, seconds, tuple(notes), price, held)


def _view(
    given: ReportInput, support: FloatArray, drawn: IntArray, fits: Mapping[str, _Fit]
) -> dict[str, Any]:
    """Return what the page shows of the nodes that are listed or drawn around them."""
    predictions = given.record.predictions[drawn]
    names = np.array(["", *given.splits])
    split = np.zeros(len(given.labels), dtype=np.int8)
    for number, rows in enumerate(given.splits.values(), start=1):
        split[rows] = number
    return {
        "node": drawn,
        "name": [shortened(each) for each in given.node_ids[drawn]],
        "split": names[split[drawn]].tolist(),  # train, calibration, test, or nothing
        "prediction": predictions,  # of the model
        "label": given.labels[drawn],  # -1 unknown
        "in_degree": given.connected.required_graph.in_degree[drawn],
        "entropy": given.record.entropy[drawn],
        "support": support[drawn],  # NaN without neighbours
        "confidence": fits[UNCALIBRATED].probs[drawn, predictions],
        "calibrated": {name: fit.probs[drawn, predictions] for name, fit in fits.items()},
        "predicted": {  # of methods that may change predictions
            name: fit.probs[drawn].argmax(axis=1)
            for name, fit in fits.items()
            if not fit.calibrator.preserves_predictions
        },
        "temperature": {
            name: fit.calibrator.predict_temperature(given.record)[drawn]
            for name, fit in fits.items()
            if isinstance(fit.calibrator, TemperatureMixin)
        },
    }
