"""What keeping predictions costs is said where it is much, and never where it is nothing."""

import numpy as np
import pytest
from scipy.stats import binom

import gnncal
from gnncal import keeping_cost as module
from gnncal.keeping_cost import LARGEST_HALF, LEVEL, cost_of_keeping_predictions
from tests.calibrators.planted import draw
from tests.fraud import NAMES, fraud_task

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def calibrated(arrays, splits, **options):
    return gnncal.calibrate(*arrays, calibration_nodes=splits["calibration_nodes"], **options)


def price_of(logits, labels, method, graph=None):
    nodes = gnncal.Nodes(logits, graph)
    labelled = nodes.with_labels(labels, calibration_nodes=np.arange(len(labels)))
    calibrator = gnncal.get_calibrator(method).fit(labelled)
    return cost_of_keeping_predictions(calibrator, labelled, calibrator.predict_proba(nodes))


@pytest.mark.parametrize(
    ("method", "cure"),
    [
        ("structural", "Pass keep_predictions=False (--free on the command line)."),
        ("auto", "Pass method='structural-free' (--method structural-free on the command line)."),
        (
            "structural-temperature",
            "Pass method='structural-free' (--method structural-free on the command line).",
        ),
        ("hots", "Pass method='structural-free' (--method structural-free on the command line)."),
        ("ts", "Pass method='structural-free' (--method structural-free on the command line)."),
    ],
)
def test_it_is_said_of_a_class_weighted_model_with_figures_and_the_cure(method, cure):
    result = calibrated(*fraud_task(is_weighted=True), method=method, class_names=NAMES)
    given = result.price.given
    assert NAMES[given.number] == "fraud"
    assert given.rate == pytest.approx(0.05, abs=0.02)
    assert given.mean > 1.5 * given.rate
    assert result.advice == (
        f"Keeping predictions costs {result.price.nats:.2f} nats, "
        f"{100 * result.price.share:.0f}% of the log loss. With predictions kept, the mean "
        f"probability of fraud is {100 * given.mean:.1f}%, but its base rate is "
        f"{100 * given.rate:.1f}%: the model looks class-weighted. {cure}"
    )


@pytest.mark.parametrize("method", ["structural", "auto", "hots", "ts", "uncalibrated"])
def test_it_is_silent_on_a_model_without_class_weights(method):
    result = calibrated(*fraud_task(is_weighted=False), method=method)
    assert result.price is None
    assert result.advice is None


def test_it_is_said_of_a_good_model_whose_loss_is_small():
    """Nine in ten nodes are told apart with certainty, so nats are few whatever is done."""
    (logits, labels, graph), splits = fraud_task(is_weighted=True, n_nodes=3000, n_calibration=2000)
    certain = np.arange(len(labels)) % 10 > 0
    logits = np.where(certain[:, None], 20.0 * np.eye(2)[labels], logits)
    price = calibrated((logits, labels, graph), splits).price
    assert price.nats < 0.02
    assert price.share > module.MIN_COST_SHARE


def test_it_is_said_to_those_who_ask_to_keep_predictions_too():
    result = calibrated(*fraud_task(is_weighted=True), keep_predictions=True)
    assert "Keeping predictions costs" in result.advice


def test_whoever_follows_the_advice_saves_about_what_was_said_and_hears_no_more():
    (logits, labels, graph), splits = fraud_task(is_weighted=True)
    kept = gnncal.calibrate(logits, labels, graph, **splits)
    free = gnncal.calibrate(logits, labels, graph, **splits, keep_predictions=False)
    assert free.advice is None
    saved = kept.after.nll - free.after.nll
    assert saved == pytest.approx(kept.price.nats, abs=4 * kept.price.standard_error)


def test_without_a_graph_the_cure_needs_none():
    (logits, labels, _), splits = fraud_task(is_weighted=True)
    result = gnncal.calibrate(
        logits, labels, calibration_nodes=splits["calibration_nodes"], method="hts"
    )
    assert result.advice.endswith("Pass method='svs' (--method svs on the command line).")
    cured = gnncal.calibrate(
        logits, labels, calibration_nodes=splits["calibration_nodes"], method="svs"
    )
    assert cured.advice is None


def test_a_model_whose_classes_are_shifted_but_not_rare_is_not_called_class_weighted():
    logits, labels = draw(2000, 3, seed=0, bias=np.array([1.5, 0.0, -1.5]))
    shifted = price_of(logits, labels, "ts")
    assert shifted.nats > 0.1
    assert shifted.given is None or shifted.given.rate < 1 / 3


def test_a_bad_temperature_is_no_price_of_keeping():
    logits, labels = draw(1000, 3, seed=1, temperature=5.0)
    assert price_of(logits, labels, "uncalibrated") is None


@pytest.mark.parametrize(
    ("method", "n_models", "n_nodes"), [("ts", 50, 200), ("hts", 50, 60), ("structural", 15, 150)]
)
def test_false_alarms_are_rarer_than_the_level_of_the_test(method, n_models, n_nodes):
    """The models are right up to a temperature, so keeping predictions costs nothing."""
    alarms = 0
    for seed in range(n_models):
        logits, labels = draw(n_nodes, 3, seed=seed)
        edges = np.random.default_rng(seed).integers(n_nodes, size=(2, 3 * n_nodes))
        graph = gnncal.Graph(edges, n_nodes) if method == "structural" else None
        alarms += price_of(logits, labels, method, graph) is not None
    assert alarms <= binom.ppf(0.999, n_models, LEVEL)


def test_ten_nodes_say_nothing_about_a_price():
    arrays, splits = fraud_task(is_weighted=True)
    assert gnncal.calibrate(*arrays, calibration_nodes=range(10)).advice is None
    assert calibrated(arrays, splits).advice is not None


def test_the_same_nodes_have_the_same_price():
    first, second = (calibrated(*fraud_task(is_weighted=True)).price for _ in range(2))
    assert first == second


def test_no_fit_of_the_comparison_sees_more_nodes_than_a_bound(monkeypatch):
    seen = []
    fit = module.trial_fit

    def counted(calibrator, nodes):
        seen.append((nodes.calibration_nodes.size, nodes.n_nodes))
        return fit(calibrator, nodes)

    monkeypatch.setattr(module, "trial_fit", counted)
    arrays, _ = fraud_task(is_weighted=True, n_nodes=5000)
    result = gnncal.calibrate(*arrays, calibration_nodes=range(4500))
    assert result.price.n_nodes <= 2 * LARGEST_HALF
    assert len(seen) == 2
    assert max(size for size, _ in seen) <= LARGEST_HALF
    assert max(n_nodes for _, n_nodes in seen) <= 2 * LARGEST_HALF  # no prediction of other nodes


def test_an_ordinary_model_is_not_fitted_again(monkeypatch):
    monkeypatch.delattr(module, "trial_fit")
    assert calibrated(*fraud_task(is_weighted=False)).advice is None


def test_the_free_form_of_a_structural_fit_is_a_fit_of_structural_free():
    (logits, labels, graph), splits = fraud_task(is_weighted=True)
    nodes = gnncal.Nodes(logits, graph)
    labelled = nodes.with_labels(labels, calibration_nodes=splits["calibration_nodes"])
    freed = gnncal.calibrators.Structural().fit(labelled).unconstrained_variant()
    free = gnncal.calibrators.Structural(keep_predictions=False).fit(labelled)
    np.testing.assert_allclose(freed.predict_proba(nodes), free.predict_proba(nodes))
    assert free.unconstrained_variant() is None


def test_a_node_of_weight_zero_has_no_part_in_the_price():
    (logits, labels, graph), splits = fraud_task(is_weighted=True)
    weight = np.where(np.arange(len(labels)) < 400, 2.0, 0.0)
    for method in ("structural", "svs", "ts"):
        with_zeros = gnncal.calibrate(
            logits,
            labels,
            graph,
            calibration_nodes=splits["calibration_nodes"],
            sample_weight=weight,
            method=method,
        )
        without = gnncal.calibrate(
            logits, labels, graph, calibration_nodes=range(400), sample_weight=weight, method=method
        )
        assert with_zeros.price == without.price
        assert (without.price is None) == (method == "svs")
