"""Everything that the report on a calibration shows, as one record."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.calibration import verdict_of
from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator, HasTemperature
from gnncal.calibrators.price import Halves, Price, price_of_keeping
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import GnncalWarning
from gnncal.data.estimator import clone
from gnncal.data.probability import softmax
from gnncal.decisions.sets import SetOutcome
from gnncal.graph.graph import Graph
from gnncal.math.structural import Neighbourhood, describe_neighbourhoods
from gnncal.metrics.binning import ReliabilityBins, bins_of
from gnncal.metrics.evaluation import Comparison, Evaluation, comparison_of, evaluation_of
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.verdict import UNCALIBRATED, Verdict
from gnncal.reporting.groups import GroupFindings, Grouping, make_groupings, measure_groups
from gnncal.reporting.nodes import (
    Explanation,
    GraphFacts,
    NodeView,
    Surroundings,
    describe_nodes,
    describe_structure,
    explain,
    look_around,
    most_changed,
)
from gnncal.reporting.one_class import (
    ClassFindings,
    NewNodeFindings,
    SelectiveFindings,
    measure_class,
    measure_new_nodes,
    measure_selection,
    measure_sets,
    split_for_decisions,
)
from gnncal.reporting.subject import Subject
from gnncal.reporting.temperature import TemperatureProfile, temperature_profile

Progress = Callable[[str], None]


@dataclass(frozen=True)
class MethodFindings:
    """What one method does to the model's confidence, judged on the test nodes."""

    calibrator: Calibrator
    evaluation: Evaluation
    gain: Comparison  # against the model as it is
    verdict: Verdict
    reliability: ReliabilityBins
    groups: tuple[GroupFindings, ...]
    selective: SelectiveFindings
    sets: Mapping[str, SetOutcome]  # by the name of their score
    temperature: TemperatureProfile
    explanation: Explanation | None  # of the listed nodes
    one_class: ClassFindings | None  # if a class is in view
    seconds: float  # of fit and prediction
    notes: tuple[str, ...]  # what the fit warned of


@dataclass(frozen=True)
class Inspection:
    """What a report shows. ``gnncal.report`` draws it."""

    facts: GraphFacts
    class_names: Sequence[str]
    groupings: Mapping[str, str]  # name and title of each
    methods: Mapping[str, MethodFindings]  # by name, the model as it is first
    shown: str  # the method that the report opens with
    listed: IntArray  # (n_listed,) positions in `drawn` of the nodes that changed most
    drawn: NodeView
    positive: int | None  # the class in view
    surroundings: Sequence[Surroundings]  # of the listed nodes; without a graph they are alone
    new_nodes: NewNodeFindings | None  # if there are some to compare with

    @property
    def verdict(self) -> Verdict:
        """The judgement on the method that the report opens with."""
        return self.methods[self.shown].verdict


def inspect(subject: Subject, *, progress: Progress = lambda step: None) -> Inspection:
    """Fit every method of a subject, judge it on the test nodes and look at single nodes."""
    progress("looking at the graph" if subject.graph is not None else "looking at the nodes")
    edges = subject.edges
    neighbourhood = subject.connected.once(describe_neighbourhoods)
    support = _support(edges, neighbourhood)
    groupings = make_groupings(
        subject.graph,
        neighbourhood.predictions,
        support,
        subject.train_nodes,
        subject.class_names,
        subject.name_of,
    )
    before = softmax(subject.logits)
    runs, halves = {}, Halves(subject.labelled)
    for name, method in subject.methods.items():
        progress(f"calibrating with {name}")
        runs[name] = _fit_method(subject, method, halves)
    listed = _listed_nodes(subject, before, runs[subject.shown].probs, neighbourhood.predictions)
    drawn, surroundings = look_around(edges, listed)
    first = _outcomes(subject, runs[UNCALIBRATED].probs)
    reference = evaluation_of(first)
    findings = {}
    for name, run in runs.items():
        progress(f"judging {name}")
        outcomes = first if name == UNCALIBRATED else _outcomes(subject, run.probs)
        findings[name] = _judge(subject, name, run, groupings, reference, first, outcomes, listed)
    return Inspection(
        describe_nodes(
            subject.labels,
            neighbourhood.predictions,
            subject.splits,
            subject.class_names,
            None
            if subject.graph is None
            else describe_structure(subject.graph, subject.labels, support),
        ),
        subject.class_names,
        {grouping.name: grouping.title for grouping in groupings},
        findings,
        subject.shown,
        np.searchsorted(drawn, listed),
        _view(subject, drawn, neighbourhood, support, before, runs),
        subject.positive,
        surroundings,
        _compare(subject, runs[subject.shown], findings[subject.shown], progress),
    )


@dataclass(frozen=True)
class _FittedMethod:
    """A fitted method and its probabilities."""

    calibrator: Calibrator
    probs: FloatArray
    held_out: IntArray  # calibration nodes, kept for decisions
    without: Calibrator  # the method fitted without them
    held_out_probs: FloatArray  # its probabilities
    used: Calibrator  # the calibrator, or the one that it chose
    temperature: FloatArray | None  # (n_nodes,) where the method has one
    seconds: float
    notes: tuple[str, ...]
    price: Price | None  # of keeping predictions


def _fit_method(subject: Subject, method: Calibrator, halves: Halves) -> _FittedMethod:
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GnncalWarning)
        calibrator = clone(method).fit(subject.labelled)
        probs = calibrator.predict_proba(subject.record)
    seconds = time.perf_counter() - start
    notes = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GnncalWarning))
    others, held_out = split_for_decisions(subject.nodes, subject.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)
        part = subject.labelled.subset(np.isin(subject.nodes, others))
        without = clone(method).fit(part)
        held_out_probs = without.predict_proba(subject.record)
    used, temperature = calibrator, getattr(calibrator, "temperature_", None)
    if isinstance(calibrator, Auto):
        used = calibrator.chosen()
        if isinstance(used, HasTemperature):
            temperature = used.predict_temperature(subject.record)
    return _FittedMethod(
        calibrator,
        probs,
        held_out,
        without,
        held_out_probs,
        used,
        temperature,
        seconds,
        tuple(notes),
        price_of_keeping(calibrator, subject.labelled, probs, halves),
    )


def _outcomes(subject: Subject, probs: FloatArray) -> Outcomes:
    """Return what metrics look at: the test nodes with these probabilities."""
    test = subject.test_nodes
    degree = None if subject.graph is None else subject.graph.in_degree[test]
    return Outcomes(subject.labels[test], probs[test], degree, is_checked=True)


def _judge(
    subject: Subject,
    name: str,
    run: _FittedMethod,
    groupings: Sequence[Grouping],
    before: Evaluation,
    first: Outcomes,
    outcomes: Outcomes,
    listed: IntArray,
) -> MethodFindings:
    after = before if outcomes is first else evaluation_of(outcomes)
    gain = comparison_of(first, outcomes)
    neighbourhood, temperature = subject.connected.once(describe_neighbourhoods), run.temperature
    return MethodFindings(
        run.calibrator,
        after,
        gain,
        verdict_of(name, before, after, gain, run.price, subject.class_names),
        outcomes.once(bins_of),
        tuple(measure_groups(grouping, outcomes, subject.test_nodes) for grouping in groupings),
        measure_selection(subject, run.held_out_probs, run.held_out),
        measure_sets(subject, run.held_out_probs, run.held_out, is_shown=name == subject.shown),
        temperature_profile(run.calibrator, subject.record, probabilities=run.probs),
        None if temperature is None else explain(run.used, neighbourhood, temperature, listed),
        measure_class(subject, run.probs, run.held_out_probs, run.held_out),
        run.seconds,
        run.notes,
    )


def _compare(
    subject: Subject, run: _FittedMethod, found: MethodFindings, progress: Progress
) -> NewNodeFindings | None:
    if subject.new is not None:
        progress("looking at the new nodes")
    fits, judged = (run.calibrator, run.without), (found.selective, found.one_class)
    return measure_new_nodes(subject, *fits, run.held_out_probs, *judged)


def _support(edges: Graph, neighbourhood: Neighbourhood) -> FloatArray:
    """Probability that the neighbours give to each prediction; NaN without neighbours."""
    support = neighbourhood.mean_probs[np.arange(edges.n_nodes), neighbourhood.predictions]
    isolated = edges.neighbour_counts(side=edges.all_sides) == 0
    return np.where(isolated, np.nan, support.astype(np.float64))


def _listed_nodes(
    subject: Subject, before: FloatArray, after: FloatArray, predictions: IntArray
) -> IntArray:
    """Return the nodes that the user asked for, and those whose confidence changed most."""
    rows = np.arange(len(before))
    changed = most_changed(before[rows, predictions], after[rows, predictions])
    return np.concatenate([subject.focus, changed[~np.isin(changed, subject.focus)]])


def _view(
    subject: Subject,
    drawn: IntArray,
    neighbourhood: Neighbourhood,
    support: FloatArray,
    before: FloatArray,
    runs: Mapping[str, _FittedMethod],
) -> NodeView:
    predictions = neighbourhood.predictions[drawn]
    names = ["", *subject.splits]
    split = np.zeros(len(subject.labels), dtype=np.int8)
    for number, nodes in enumerate(subject.splits.values(), start=1):
        split[nodes] = number
    return NodeView(
        drawn,
        [subject.name_of(node) for node in drawn.tolist()],
        [names[number] for number in split[drawn].tolist()],
        predictions,
        subject.labels[drawn],
        subject.edges.in_degree[drawn],
        neighbourhood.entropy[drawn],
        support[drawn],
        before[drawn, predictions],
        {name: run.probs[drawn, predictions] for name, run in runs.items()},
        {
            name: run.probs[drawn].argmax(axis=1)
            for name, run in runs.items()
            if not run.calibrator.preserves_predictions
        },
        {name: run.temperature[drawn] for name, run in runs.items() if run.temperature is not None},
    )
