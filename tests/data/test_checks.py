"""Bad input gets one clear sentence before any work."""

import numpy as np
import pytest
from scipy import sparse

import gnncal
from gnncal.data.checks import check_nodes, check_positive
from gnncal.data.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
LOGITS = np.random.default_rng(0).normal(size=(6, 3))
LABELS = np.append(LOGITS.argmax(axis=1)[:5], -1)
LABELS[[1, 3]] = [2, 1]  # mistakes, so that a temperature exists
GRAPH = gnncal.Graph([[0, 1], [1, 2]], 6)


def with_value(value):
    logits = LOGITS.copy()
    logits[2, 1] = value
    return logits


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": with_value(np.nan)}, "NaN or infinity in 1 of 6 rows"),
        ({"logits": with_value(np.inf)}, "NaN or infinity"),
        ({"logits": LOGITS[:, 0]}, r"shape \(6,\); expected two dimensions"),
        ({"logits": LOGITS[:, :1]}, r"stack \[0, z\]"),
        ({"logits": LOGITS[:0], "labels": LABELS[:0]}, "logits has no rows"),
        ({"logits": LOGITS.astype(complex)}, "Complex"),
        ({"logits": sparse.csr_array(LOGITS)}, "sparse matrix"),
        ({"logits": LOGITS.astype(str)[:, :2].astype(object) + "x"}, "expected numbers"),
        ({"logits": LOGITS.astype(str)}, "logits has dtype <U"),
        ({"logits": LOGITS.astype(str).astype(object)}, "dtype object; expected numbers"),
        ({"logits": LOGITS.astype("datetime64[s]")}, "dtype datetime64"),
        ({"logits": np.ma.masked_less(LOGITS, 0)}, "masked array"),
        ({"labels": np.ma.masked_less(LABELS, 0)}, "masked array"),
        ({"labels": LABELS[:4]}, r"labels has shape \(4,\) but logits has 6 rows"),
        ({"labels": np.tile(LABELS, (2, 1))}, r"shape \(2, 6\)"),
        ({"labels": None}, "labels is missing"),
        ({"labels": LABELS + 0.5}, "fractions"),
        ({"labels": np.where(LABELS < 0, np.nan, LABELS)}, "-1 where a label is unknown"),
        ({"labels": LABELS.astype(str)}, "encode class names"),
        ({"labels": np.where(np.arange(6) == 2, 7, LABELS)}, r"outside 0..2 \(node 2 has 7\)"),
        ({"calibration_nodes": [0, 5]}, r"outside 0..2 \(node 5 has -1\)"),
        ({"calibration_nodes": []}, "calibration_nodes is empty"),
        ({"calibration_nodes": np.zeros(6, bool)}, "calibration_nodes is empty"),
        ({"calibration_nodes": np.ones(5, bool)}, "mask of 5 entries but there are 6"),
        ({"calibration_nodes": [0, 9]}, "names nodes 0..9"),
        ({"calibration_nodes": [-1]}, "names nodes -1"),
        ({"calibration_nodes": [0, 0]}, "twice; list each once"),
        ({"calibration_nodes": [0, 1, 0, 1, 1, 0]}, r"astype\(bool\)"),
        ({"calibration_nodes": [0.0]}, "boolean mask or indices"),
        ({"calibration_nodes": np.ones((6, 2), bool)}, r"mask\[:, 0\]"),
        ({"calibration_nodes": [0, 1], "train_nodes": [1, 2]}, r"share 1 nodes \(first: 1\)"),
        ({"train_nodes": [0, 1, 2, 3, 4]}, "no node outside train_nodes has a label"),
        ({"graph": gnncal.Graph([[0], [1]], 4)}, "graph has 4 nodes but logits has 6 rows"),
        ({"graph": np.array([[0], [1]])}, r"pass a gnncal.Graph\(edge_index, n_nodes\)"),
    ],
)
def test_bad_fits_are_refused_with_a_reason(changes, message):
    arguments = {"logits": LOGITS, "labels": LABELS, "graph": GRAPH, **changes}
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.calibrators.TemperatureScaling().fit(**arguments)


def test_an_input_error_is_a_value_error():
    assert issubclass(gnncal.InputError, ValueError)


def test_nodes_default_to_every_labelled_node_outside_train_nodes():
    by_default = gnncal.calibrators.TemperatureScaling().fit(LOGITS, LABELS, train_nodes=[0])
    by_hand = gnncal.calibrators.TemperatureScaling().fit(
        LOGITS, LABELS, calibration_nodes=[1, 2, 3, 4], train_nodes=[0]
    )
    assert by_default.base_temperature_ == by_hand.base_temperature_
    assert sum(by_default.fit_report_.nodes_per_class) == 4


def test_masks_and_indices_say_the_same():
    mask = np.array([True, False, True, True, False, False])
    masked = gnncal.calibrators.TemperatureScaling().fit(LOGITS, LABELS, calibration_nodes=mask)
    listed = gnncal.calibrators.TemperatureScaling().fit(
        LOGITS, LABELS, calibration_nodes=[3, 0, 2]
    )
    assert masked.base_temperature_ == listed.base_temperature_


def test_logits_that_look_like_probabilities_get_a_warning():
    with pytest.warns(gnncal.GnncalWarning, match="logits_from_probabilities"):
        gnncal.calibrators.Uncalibrated().fit(gnncal.calibrators.softmax(LOGITS), LABELS)


def test_predicting_with_other_classes_or_another_graph_is_refused():
    calibrator = gnncal.HoTS().fit(LOGITS, LABELS, GRAPH)
    with pytest.raises(gnncal.InputError, match="X has 2 features, but HoTS is expecting 3"):
        calibrator.predict_proba(LOGITS[:, :2], GRAPH)
    with pytest.raises(gnncal.InputError, match="graph has 6 nodes but logits has 4"):
        calibrator.predict_proba(LOGITS[:4], GRAPH)
    with pytest.raises(gnncal.InputError, match="known_labels lie outside"):
        gnncal.Nodes(LOGITS, GRAPH, known_labels=np.full(6, 8))


def test_unknown_names_and_parameters_are_refused():
    with pytest.raises(gnncal.InputError, match="unknown calibrator 'magic'; choose one of"):
        gnncal.get_calibrator("magic")
    with pytest.raises(gnncal.InputError, match="ts has no parameter 'depth'; it takes protocol"):
        gnncal.get_calibrator("ts", depth=3)
    assert gnncal.list_calibrators()[0] == "uncalibrated"
    for name in gnncal.list_calibrators():
        assert isinstance(gnncal.get_calibrator(name), gnncal.Calibrator)


def test_with_a_graph_and_every_label_known_the_calibration_nodes_must_be_named():
    labels = np.where(LABELS < 0, 0, LABELS)
    for train_nodes in (None, [0]):
        with pytest.raises(
            gnncal.InputError, match=r"calibration_nodes is missing and every .* test nodes"
        ):
            gnncal.calibrators.TemperatureScaling().fit(
                LOGITS, labels, GRAPH, train_nodes=train_nodes
            )
    all_rows = gnncal.calibrators.TemperatureScaling().fit(LOGITS, labels)
    named = gnncal.calibrators.TemperatureScaling().fit(
        LOGITS, labels, GRAPH, calibration_nodes=np.ones(6, bool)
    )
    assert all_rows.base_temperature_ == named.base_temperature_


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0], [1]], 4.7), r"n_nodes is 4\.7; expected a whole number"),
        (([[0], [1]], "4"), "n_nodes is '4'"),
        (([[0], [1]], True), "n_nodes is True"),
        ((np.array([[0], [1]], np.uint64), 4), "dtype uint64; expected integers, such as int64"),
        (([[0], [1]], 2, np.ones((2, 1), complex)), "features has dtype complex128"),
        (([[0], [1]], 2, sparse.csr_array(np.ones((2, 1), complex))), "dtype complex128"),
        (([[0], [1]], 2, np.ma.masked_equal(np.eye(2), 0)), "masked array"),
    ],
)
def test_bad_graphs_are_refused_with_a_reason(arguments, message):
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.Graph(*arguments)


def test_half_a_bin_is_refused():
    probs = gnncal.calibrators.softmax(LOGITS[:5])
    with pytest.raises(gnncal.InputError, match=r"n_bins is 2\.5; expected a whole number"):
        gnncal.metrics.expected_calibration_error(LABELS[:5], probs, n_bins=2.5)


def test_only_methods_that_scikit_learn_checks_speak_of_samples_and_features():
    with pytest.raises(gnncal.InputError, match="logits has no rows; pass at least one node"):
        gnncal.calibrators.TemperatureScaling().fit(LOGITS[:0], LABELS[:0])
    with pytest.raises(gnncal.InputError, match=r"logits has 0 feature\(s\) \(shape=\(6, 0\)\)"):
        gnncal.HoTS().fit(LOGITS[:, :0], LABELS, GRAPH)
    with pytest.raises(gnncal.InputError, match=r"probs has 0 feature\(s\)"):
        gnncal.evaluate(LABELS[:5], LOGITS[:5, :0])
    fitted = gnncal.calibrators.TemperatureScaling().fit(LOGITS, LABELS)
    with pytest.raises(gnncal.InputError, match="X has 2 features, but TemperatureScaling is"):
        fitted.predict_proba(LOGITS[:, :2])


# --- one class in view


@pytest.mark.parametrize(
    ("positive", "names", "number"),
    [
        (1, None, 1),
        (np.int32(0), None, 0),
        ("1", None, 1),
        ("fraud", ["fine", "fraud"], 1),
        (np.str_("fine"), ["fine", "fraud"], 0),
        ("1", ["fine", "fraud"], 1),
        ("1", ["1", "0"], 0),
        (1, ["1", "0"], 1),
    ],
)
def test_a_class_is_its_name_or_else_its_number(positive, names, number):
    found = check_positive(positive, 2, names)
    assert found == number
    assert type(found) is int


@pytest.mark.parametrize(
    ("positive", "names", "message"),
    [
        (2, None, "positive is 2; expected the name of a class or its number, 0..1."),
        (-1, ["a", "b"], "positive is -1; expected the name of a class or its number, 0..1."),
        ("7", None, "positive is 7; expected the name of a class"),
        (True, None, "positive is True; expected the name of a class or its number, 0..1."),
        (np.bool_(True), None, "positive is True; expected the name"),
        (1.0, None, "positive is 1.0; expected the name"),
        ([1], None, r"positive is \[1\]; expected the name"),
        (
            "fraud",
            None,
            "unknown class 'fraud': the classes have no names; pass class_names too, or",
        ),
        (
            "frud",
            ["fine", "fraud"],
            r"unknown class 'frud' \(did you mean 'fraud'\?\): the names are fine, fraud; pass",
        ),
    ],
)
def test_what_is_no_class_gets_a_sentence(positive, names, message):
    with pytest.raises(gnncal.InputError, match=message):
        check_positive(positive, 2, names)


@pytest.mark.parametrize("n_nodes", [50, 5000])  # marked, and sorted
def test_node_numbers_come_back_in_rising_order_and_never_twice(n_nodes):
    given = np.random.default_rng(0).permutation(50)[:40].astype(np.int32)
    found = check_nodes(given, n_nodes)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.sort(given))
    with pytest.raises(InputError, match="names 1 nodes twice"):
        check_nodes(np.append(given, given[0]), n_nodes)
