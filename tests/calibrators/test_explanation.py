"""An explanation adds up to the probability that it explains."""

import numpy as np
import pytest

import gnncal
from tests.methods import slow_unless

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
METHODS = ["ts", "hots", "structural", "structural-free", "svs", "sms", "irm", "auto"]
QUICK = {"ts", "structural", "structural-free", "svs"}


def fitted_to(n_classes, name):
    rng = np.random.default_rng(n_classes)
    labels = rng.integers(0, n_classes, 400)
    logits = 2.0 * rng.normal(size=(400, n_classes)) + 2.0 * np.eye(n_classes)[labels]
    edges = np.array([rng.integers(0, 400, 1500), rng.integers(0, 400, 1500)])
    graph = gnncal.Graph(edges, 400)
    return (
        gnncal.get_calibrator(name).fit(logits, labels, graph, calibration_nodes=range(200)),
        logits,
        graph,
    )


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", [pytest.param(n, marks=slow_unless(n in QUICK)) for n in METHODS])
def test_the_changes_of_all_parts_add_up_to_the_probability(name, n_classes):
    fitted, logits, graph = fitted_to(n_classes, name)
    probs = fitted.predict_proba(logits, graph)
    for node in (0, 250, 399):
        found = fitted.explain(logits, graph, node=node)
        np.testing.assert_allclose(sum(found.changes.values()), probs[node], atol=1e-12)
        raw = gnncal.calibrators.softmax(logits)[node]
        np.testing.assert_allclose(found.steps["raw"], raw, atol=1e-15)
        for step in found.steps.values():
            assert step.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["ts", "svs", "structural-free"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_terms_of_a_score_add_up_to_the_probability(name, n_classes):
    fitted, logits, graph = fitted_to(n_classes, name)
    found = fitted.explain(logits, graph, node=7)
    probs = gnncal.calibrators.softmax(sum(found.terms.values())[None])[0]
    floor = getattr(fitted, "floor_", np.zeros(n_classes))
    probs = (1.0 - floor.sum()) * probs + floor
    np.testing.assert_allclose(probs, fitted.predict_proba(logits, graph)[7], atol=1e-12)


def test_a_kept_prediction_changes_by_the_temperature_and_the_floor_alone():
    fitted, logits, graph = fitted_to(4, "structural")
    found = fitted.explain(logits, graph, node=3)
    predicted = logits[3].argmax()
    for part in ("bias", "neighbours"):
        assert found.changes[part][predicted] == pytest.approx(0.0, abs=1e-12)
    assert found.temperature == pytest.approx(fitted.temperature_[3])


def test_an_explanation_by_hand_prints_as_a_table():
    logits = np.log([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]])
    fitted = gnncal.get_calibrator("ts")
    fitted = fitted.fit(logits, [0, 0, 0, 1, 1])  # T brings 80% to 60%
    fitted.class_names_ = ["fraud", "honest"]
    found = fitted.explain(logits, node=1)
    assert found.temperature == pytest.approx(np.log(4) / np.log(1.5), rel=1e-5)
    assert repr(found).splitlines()[3].split() == ["fraud", "80.0%", "-20.0%", "60.0%"]
    assert found.to_frame().loc["fraud", "temperature"] == pytest.approx(-0.2, abs=1e-6)


def test_a_node_that_is_not_there_is_refused():
    fitted, logits, graph = fitted_to(2, "ts")
    with pytest.raises(gnncal.InputError, match="400"):
        fitted.explain(logits, graph, node=400)
