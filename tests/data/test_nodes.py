"""The record of nodes: what is in it, what is not, and what is computed once."""

import numpy as np
import pytest

import gnncal
import gnncal_lab
from gnncal.calibrators.homophily import support_of
from gnncal.calibrators.registry import every_calibrator
from gnncal.data.nodes import with_cached
from gnncal.math.formulas import describe_neighbourhoods
from gnncal_lab.methods.ratio_binned import ratio_of

CALIBRATORS = every_calibrator()

LABELS = np.array([0, 1, 2, 1, 0, 2, 1, 0])
LOGITS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
GRAPH = gnncal.Graph([[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0]], 8)


def task(n=120):
    generator = np.random.default_rng(1)
    labels = generator.integers(3, size=n)
    logits = 2 * np.eye(3)[labels] + 1.5 * generator.normal(size=(n, 3))
    edges = generator.integers(n, size=(2, 6 * n))
    return logits, labels, gnncal.Graph(edges, n, features=generator.normal(size=(n, 4)))


def test_a_record_of_a_fit_has_the_labels_of_calibration_and_training_nodes_only():
    record = gnncal.Nodes(LOGITS, GRAPH).with_labels(
        LABELS, calibration_nodes=[2, 0], train_nodes=[5]
    )
    np.testing.assert_array_equal(record.calibration_nodes, [0, 2])
    np.testing.assert_array_equal(record.labels, [0, 2])
    np.testing.assert_array_equal(record.label_vector, [0, -1, 2, -1, -1, 2, -1, -1])
    shapes = [np.shape(value) for value in vars(record).values()]
    assert (8,) not in shapes  # the labels of all nodes are nowhere in it


def test_the_record_of_a_prediction_has_no_labels_of_a_fit():
    fit = gnncal.Nodes(LOGITS, GRAPH).with_labels(LABELS, calibration_nodes=[2, 0], train_nodes=[5])
    record = fit.unlabelled
    assert record.labels.size == record.train_labels.size == 0
    assert record.known_labels is None


def test_what_is_computed_once_never_sees_a_label():
    known = np.full(8, -1)
    known[3] = 1
    record = gnncal.Nodes(LOGITS, GRAPH, known_labels=known).with_labels(
        LABELS, calibration_nodes=[2, 0], train_nodes=[5]
    )

    def look(nodes):
        return nodes.labels.size, nodes.train_labels.size, nodes.known_labels

    assert record.cached(look) == (0, 0, None)


def test_results_are_shared_by_records_of_the_same_nodes():
    counted = []

    def count(nodes, name):
        counted.append(name)
        return len(counted)

    nodes = gnncal.Nodes(LOGITS, GRAPH)
    fit = nodes.with_labels(LABELS, calibration_nodes=[2, 0, 1])
    part = fit.subset(np.array([True, False, True]))
    assert [each.cached(count, "a") for each in (nodes, fit, part, part.unlabelled)] == [1] * 4
    assert part.cached(count, "b") == 2
    assert gnncal.Nodes(LOGITS, GRAPH).cached(count, "a") == 3
    np.testing.assert_array_equal(part.calibration_nodes, [0, 2])
    np.testing.assert_array_equal(part.labels, LABELS[[0, 2]])
    assert fit.labels.size == 3


def test_a_record_reads_float32_as_it_is_and_cannot_be_written_to():
    nodes = gnncal.Nodes(LOGITS)
    assert nodes.logits.dtype == np.float32
    assert np.shares_memory(nodes.logits, LOGITS)
    with pytest.raises(ValueError, match="read-only"):
        nodes.logits[0] = 0.0
    assert LOGITS.flags.writeable


def test_nothing_of_size_nodes_by_classes_is_kept_by_predictions_and_entropy():
    nodes = gnncal.Nodes(LOGITS)
    assert nodes.predictions is nodes.predictions
    assert nodes.entropy is nodes.entropy
    assert all(np.ndim(value) == 1 for value in nodes._results.values())


@pytest.mark.parametrize("name", sorted(set(CALIBRATORS) - {"cagcn", "gats", "gets", "wats"}))
def test_a_record_in_place_of_the_arrays_changes_nothing(name):
    logits, labels, graph = task()
    split = {"calibration_nodes": np.arange(60), "train_nodes": np.arange(60, 80)}
    expected = gnncal.get_calibrator(name).fit(logits, labels, graph, **split)
    nodes = gnncal.Nodes(logits, graph)
    one = gnncal.get_calibrator(name).fit(nodes, labels, **split)
    two = gnncal.get_calibrator(name).fit(nodes.with_labels(labels, **split))
    probs = expected.predict_proba(logits, graph)
    for fitted in one, two:
        np.testing.assert_array_equal(fitted.predict_proba(nodes), probs)
        np.testing.assert_array_equal(fitted.predict_proba(logits, graph), probs)
        assert fitted.fit_report_ == expected.fit_report_


def test_neighbours_that_were_described_elsewhere_take_the_place_of_a_graph():
    logits, labels, graph = task()
    nodes, rows = np.arange(60), gnncal.Nodes(logits[:60])
    whole = gnncal.Nodes(logits, graph)
    for method, function, arguments in (
        (gnncal.HoTS(), support_of, ("in",)),
        (gnncal_lab.RatioBinnedScaling(), ratio_of, (False,)),
    ):
        known = whole.cached(function, *arguments)[:60]
        part = with_cached(rows, known, function, *arguments).with_labels(
            labels[:60], calibration_nodes=nodes
        )
        expected = method.fit(whole, labels, calibration_nodes=nodes).temperature_[:60]
        np.testing.assert_array_equal(method.fit(part).temperature_, expected)
    with pytest.raises(gnncal.InputError, match="HoTS needs a graph"):
        gnncal.HoTS().fit(rows, labels[:60], calibration_nodes=nodes)


def test_a_result_that_is_added_stays_out_of_the_other_record():
    nodes = gnncal.Nodes(LOGITS)
    given = with_cached(nodes, "given", describe_neighbourhoods)
    assert given.cached(describe_neighbourhoods) == "given"
    with pytest.raises(gnncal.InputError, match="the graph is missing"):
        nodes.cached(describe_neighbourhoods)


def test_a_record_says_what_is_wrong():
    nodes = gnncal.Nodes(LOGITS, GRAPH)
    with pytest.raises(gnncal.InputError, match="leave graph out"):
        gnncal.calibrators.TemperatureScaling().fit(
            nodes, LABELS, gnncal.Graph([[0], [1]], 8), calibration_nodes=[0, 1]
        )
    with pytest.raises(gnncal.InputError, match="labels is missing"):
        gnncal.calibrators.TemperatureScaling().fit(nodes)
    with pytest.raises(gnncal.InputError, match="nodes and train_nodes share 1 nodes"):
        nodes.with_labels(LABELS, calibration_nodes=[0, 1], train_nodes=[1])
    fitted = gnncal.calibrators.TemperatureScaling().fit(
        nodes, LABELS, calibration_nodes=[0, 1, 2, 3]
    )
    with pytest.raises(gnncal.InputError, match="X has 2 features"):
        fitted.predict_proba(gnncal.Nodes(LOGITS[:, :2]))
    with pytest.raises(gnncal.InputError, match="the graph has 8 nodes but logits has 7 rows"):
        gnncal.Nodes(LOGITS[:7], GRAPH)
    assert repr(nodes.with_labels(LABELS, calibration_nodes=[0])) == (
        "Nodes(n_nodes=8, n_classes=3, n_edges=7, n_calibration_nodes=1)"
    )
