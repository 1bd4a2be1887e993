"""What a report is made of, held against the package's own simple functions."""

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.registry import name_of
from gnncal.data.errors import InputError
from gnncal.decisions import Policy, hold_out
from gnncal.metrics import calibration_by_group, reliability_bins
from gnncal.reporting.findings import find
from gnncal.reporting.input import LONGEST_NAME
from gnncal.reporting.nodes import explain_nodes

from .tasks import subject_of, task


@pytest.fixture(scope="module")
def found():
    data, splits = task()
    methods = ["ts", "hots", "structural", "structural-free"]
    return data, splits, find(subject_of(*data, **splits, methods=methods, focus=[5]))


def test_every_method_is_judged_as_calibrate_judges_it(found):
    (logits, labels, graph), splits, inspection = found
    assert list(inspection.methods) == [
        "uncalibrated",
        "ts",
        "hots",
        "structural",
        "structural-free",
    ]
    for name, method in inspection.methods.items():
        plain = gnncal.calibrate(logits, labels, graph, **splits, method=name)
        assert method.evaluation.as_dict() == plain.after.as_dict()
        assert method.gain.as_dict() == plain.comparison.as_dict()


def test_bins_and_groups_are_those_of_the_test_nodes(found):
    (logits, labels, graph), splits, inspection = found
    test = splits["test_nodes"]
    probs = gnncal.calibrate(logits, labels, graph, **splits, method="ts").probabilities
    method = inspection.methods["ts"]
    bins = reliability_bins(labels[test], probs[test])
    assert np.array_equal(method.reliability.count, bins.count)
    classes = next(group for group in method.groups if group["name"] == "class")
    cells = calibration_by_group(labels[test], probs[test], probs[test].argmax(axis=1))
    assert sorted(classes["count"].tolist()) == sorted(cells.count.tolist())
    assert sorted(classes["accuracy"].tolist()) == sorted(cells.accuracy.tolist())
    assert all(group["count"].sum() == len(test) for group in method.groups)


def test_the_nodes_listed_changed_most_after_those_asked_for(found):
    (logits, labels, graph), splits, inspection = found
    drawn, listed = inspection.drawn, inspection.listed
    assert drawn["node"][listed[0]] == 5
    change = np.abs(drawn["calibrated"]["structural"] - drawn["confidence"])[listed[1:]]
    assert (np.diff(change) <= 0).all()
    everywhere = gnncal.calibrate(logits, labels, graph, **splits).probabilities
    model = gnncal.calibrators.softmax(logits)
    rows, top = np.arange(len(model)), model.argmax(axis=1)
    assert change[0] == np.abs(everywhere - model)[rows, top].max()


def test_labels_of_test_nodes_change_no_probability_threshold_or_list(found):
    (logits, labels, graph), splits, inspection = found
    other = labels.copy()
    other[splits["test_nodes"]] = 0
    again = find(subject_of(logits, other, graph, **splits, methods=["structural"], focus=[5]))
    before, after = inspection.methods["structural"], again.methods["structural"]
    assert np.array_equal(before.selective.threshold, after.selective.threshold)
    assert np.array_equal(before.selective.n_decided, after.selective.n_decided)
    assert np.array_equal(inspection.drawn["node"], again.drawn["node"])


def test_decided_test_nodes_are_those_at_or_above_the_threshold(found):
    (logits, labels, graph), splits, inspection = found
    test = splits["test_nodes"]
    fit_nodes, held_out = hold_out(splits["calibration_nodes"], labels=labels)
    halved = {**splits, "calibration_nodes": fit_nodes}
    probs = gnncal.calibrate(logits, labels, graph, **halved, method="ts").probabilities
    selective = inspection.methods["ts"].selective
    for i in (0, 30):
        policy = Policy(accuracy=selective.target[i])
        others = np.setdiff1d(
            np.arange(len(labels)), [*splits["calibration_nodes"], *splits.get("train_nodes", [])]
        )
        policy.fit(probs, labels, calibration_nodes=held_out, decision_nodes=others)
        assert policy.act_threshold_ == selective.threshold[i]
    probs = probs[test]
    for i in (0, 10, 25):
        decided = probs.max(axis=1) >= selective.threshold[i]
        assert selective.test_coverage[i] == decided.mean()
        if decided.any():
            right = (probs.argmax(axis=1) == labels[test])[decided].mean()
            assert selective.test_accuracy[i] == pytest.approx(right)


@pytest.mark.parametrize("name", ["ts", "hots", "structural", "structural-free", "svs", "irm"])
def test_the_parts_of_an_explanation_add_up_to_the_confidence(name):
    (logits, labels, graph), splits = task()
    record, nodes = gnncal.Nodes(logits, graph), np.array([0, 3, 11])
    fitted = gnncal.get_calibrator(name).fit(
        record, labels, calibration_nodes=splits["calibration_nodes"]
    )
    at = nodes, record.predictions[nodes]
    before, after = gnncal.calibrators.softmax(logits)[at], fitted.predict_proba(record)[at]
    found = explain_nodes(fitted, record, nodes, before, after)
    assert found["changes"].shape == (3, len(found["parts"]))
    np.testing.assert_allclose(found["changes"][:, 0], before)
    np.testing.assert_allclose(found["changes"].sum(axis=1), after)
    if name == "structural-free":
        assert {"temperature", "bias", "neighbours"} <= set(found["parts"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_nodes": []}, "test_nodes is empty; a report needs labelled nodes"),
        ({"calibration_nodes": None}, "calibration_nodes is empty"),
        (
            {"test_nodes": [0, 1], "calibration_nodes": [1, 2]},
            "test_nodes and calibration_nodes share 1 nodes (first: 1)",
        ),
        ({"methods": []}, "methods is empty"),
        ({"methods": ["hotz"]}, "did you mean 'hots'?"),
        ({"class_names": ["a"]}, "class_names has 1 names for 4 classes"),
        ({"node_ids": [1, 2]}, "node_ids has shape (2,) but logits has 600 rows"),
        ({"focus": ["nobody"]}, "unknown node 'nobody'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed, message):
    data, splits = task()
    with pytest.raises(InputError) as error:
        subject_of(*data, **{**splits, **changed})
    assert message in str(error.value)


def test_without_a_graph_what_needs_neighbours_is_left_out():
    (logits, labels, _), splits = task(300)
    found = find(subject_of(logits, labels, None, **splits))
    assert list(found.methods) == ["uncalibrated", "ts", "svs", "hts"]
    assert found.facts["structure"] is None
    assert found.facts["n_nodes"] == 300
    assert list(found.groupings) == ["class"]
    assert found.methods["hts"].evaluation.degree_ece is None
    assert all(around["n_neighbours"] == 0 for around in found.surroundings)
    with pytest.raises(InputError, match="hots needs a graph and graph is None; pass the graph"):
        subject_of(logits, labels, None, **splits, methods=["hots"])


@pytest.mark.parametrize(
    ("positive", "has_graph", "methods", "opens_with"),
    [
        (None, True, ["ts", "hots", "structural", "structural-free"], "structural"),
        (1, True, ["ts", "hots", "structural", "structural-free"], "structural-free"),
        (None, False, ["ts", "svs", "hts"], "hts"),
        (1, False, ["ts", "svs", "hts"], "svs"),
    ],
)
def test_with_one_class_in_view_a_report_opens_with_a_method_that_may_change_predictions(
    positive, has_graph, methods, opens_with
):
    (logits, labels, graph), splits = task(100)
    graph = graph if has_graph else None
    subject = subject_of(logits, labels, graph, **splits, positive=positive)
    assert list(subject.methods) == ["uncalibrated", *methods]
    assert subject.shown == opens_with


def test_very_long_names_are_cut():
    data, splits = task()
    names = ["x" * 10_000, "b", "c", "d"]
    subject = subject_of(*data, **splits, class_names=names)
    assert len(subject.class_names[0]) == LONGEST_NAME


def test_auto_is_explained_as_the_method_it_chose():
    data, splits = task(300)
    methods = [gnncal.calibrators.Auto(candidates=("ts", "hts")), "ts", "hts"]
    inspection = find(subject_of(*data, **splits, methods=methods))
    chosen = name_of(inspection.methods["auto"].calibrator)
    temperature = inspection.drawn["temperature"]
    np.testing.assert_allclose(temperature["auto"], temperature[chosen])
