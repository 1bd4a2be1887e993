"""A fit that the calibration labels do not determine warns; a healthy one says nothing."""

import warnings

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.registry import every_calibrator
from gnncal.data.probability import normalised_entropy
from gnncal.math.losses import temperature_error

CALIBRATORS = every_calibrator()

LEARNING = [name for name, kind in CALIBRATORS.items() if kind().learned]
ERASING = {
    *("vs", "svs", "sms", "dirichlet", "isotonic", "histogram", "gets"),
    *("matrix", "platt", "beta"),
    *("structural-vector", "structural-free", "structural"),
}
UNDETERMINED = "is not determined by the calibration labels"


def make(name):
    if CALIBRATORS[name].needs_torch:
        pytest.importorskip("torch")
        return CALIBRATORS[name](max_epochs=3)
    return gnncal.get_calibrator(name)


def messages(name, logits, labels, nodes):
    """What a fit on a graph of random edges and edges among like nodes warns of, and who warns."""
    generator = np.random.default_rng(7)
    n = len(logits)
    edges = generator.integers(0, n, (2, 4 * n))
    alike = np.argsort(logits.argmax(axis=1), kind="stable")
    edges[:, :n] = alike, np.roll(alike, 1)  # edges that say nothing are warned of
    both_ways = np.concatenate([edges, edges[::-1]], axis=1)  # one way only is warned of
    graph = gnncal.Graph(both_ways, n, generator.normal(size=(n, 3)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = make(name).fit(
            logits, labels, graph, calibration_nodes=nodes, train_nodes=np.arange(n - 100, n)
        )
    return [str(w.message) for w in caught if w.filename == __file__], calibrator


def drawn(n_nodes, softer_where_uncertain=0.0):
    """Logits and labels drawn from softmax(z / T): every class occurs, mistakes too."""
    generator = np.random.default_rng(0)
    logits = 2 * generator.normal(size=(n_nodes, 4))
    temperature = 1.7 + softer_where_uncertain * normalised_entropy(logits)
    chances = np.cumsum(gnncal.calibrators.softmax(logits, temperature), axis=1)
    return logits, (generator.random((n_nodes, 1)) > chances[:, :-1]).sum(axis=1)


@pytest.mark.parametrize("name", LEARNING)
def test_calibration_nodes_without_a_mistake_warn(name):
    logits = drawn(400)[0]
    found, calibrator = messages(name, logits, logits.argmax(axis=1), np.arange(200))
    assert any(UNDETERMINED in m and "all 200 calibration nodes" in m for m in found)
    assert calibrator.fit_report_.undetermined


@pytest.mark.parametrize("name", LEARNING)
def test_a_single_calibration_node_warns(name):
    found, _ = messages(name, *drawn(300), [0])
    assert any(UNDETERMINED in m and "only one calibration node" in m for m in found)


@pytest.mark.parametrize("name", LEARNING)
def test_calibration_nodes_of_one_class_warn(name):
    logits, labels = drawn(1500)
    found, calibrator = messages(name, logits, labels, np.flatnonzero(labels[:1000] == 2))
    assert any(UNDETERMINED in m and "calibration nodes have class 2" in m for m in found)
    assert "nothing about nodes of another class" in calibrator.fit_report_.undetermined[-1]


@pytest.mark.parametrize("name", LEARNING)
def test_a_healthy_fit_warns_of_nothing(name):
    found, calibrator = messages(name, *drawn(1500), np.arange(1000))
    assert found == []
    assert calibrator.fit_report_.undetermined == ()


@pytest.mark.parametrize("name", LEARNING)
def test_a_missing_class_warns_where_the_method_erases_it(name):
    logits, labels = drawn(1500)
    nodes = np.flatnonzero(labels[:1000] != 2)
    found, calibrator = messages(name, logits, labels, nodes)
    assert [m for m in found if "no calibration node has class 2" in m] == found
    used = getattr(calibrator, "chosen_", name)
    chosen = getattr(calibrator, "calibrator_", calibrator)
    assert bool(found) == (used in ERASING) == chosen.zeroes_unseen_classes


def test_uncalibrated_learns_nothing_and_never_warns():
    logits = drawn(300)[0]
    assert messages("uncalibrated", logits, logits.argmax(axis=1), [0])[0] == []


def test_labels_that_contradict_the_logits_warn():
    logits = drawn(300)[0]
    found, calibrator = messages("ts", logits, logits.argmin(axis=1), np.arange(100))
    assert calibrator.fit_report_.bounds_hit == ("base_temperature",)
    assert "at its upper bound" in found[0]


def test_a_bound_that_only_simplifies_the_formula_is_a_note_and_no_warning():
    logits, labels = drawn(1500, softer_where_uncertain=2.0)  # the correction is the reverse
    found, calibrator = messages("entropy-only", logits, labels, np.arange(1000))
    report = calibrator.fit_report_
    assert found == []
    assert report.bounds_hit == ("beta",)
    assert report.notes == (
        "beta = 0.01 at its lower bound (no correction helps beyond one temperature)",
    )


def test_parameters_outnumber_the_nodes():
    logits, labels = drawn(300)
    nodes = np.flatnonzero(logits.argmax(axis=1) != labels)[:2]
    found, _ = messages("hots", logits, labels, nodes)
    assert any("3 parameters for 2 calibration nodes" in m for m in found)


def test_the_standard_error_of_a_temperature_by_hand():
    # Two parameters, curvatures 4 and 25: d ln T = (2, 0) and (0, 10) give errors 1 and 2.
    error = temperature_error(np.diag([4.0, 25.0]), np.array([[2.0, 0.0], [0.0, 10.0]]))
    assert error == pytest.approx(np.sqrt((1 + 4) / 2))
    assert temperature_error(np.zeros((1, 1)), np.ones((3, 1))) > 1e4


def test_the_report_survives_saving(tmp_path):
    _, calibrator = messages("ts", *drawn(300), [0])
    calibrator.save(tmp_path / "ts.safetensors")
    assert gnncal.load(tmp_path / "ts.safetensors").fit_report_ == calibrator.fit_report_
