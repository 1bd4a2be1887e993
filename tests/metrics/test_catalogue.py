"""The table of metrics: what stands in it is measured, shown and stored everywhere."""

import numpy as np
import pytest

import gnncal
from gnncal import metrics
from gnncal.metrics import METRICS, Metric, Outcomes
from gnncal.metrics.binning import DEFAULT_BINS
from gnncal.metrics.floor import floor_of_cells
from gnncal_lab.bench.measure import measures_of
from gnncal_lab.bench.results import metric_of
from tests.metrics.outcomes import degree_blocks, simulate

LABELS = np.array([0, 1, 1, 0])
PROBS = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
DEGREE = np.array([4, 3, 2, 1])


def test_names_are_the_keys_and_those_of_the_benchmarks_records():
    assert all(name == metric.name for name, metric in METRICS.items())
    stored = {"accuracy", "ece", "degree_ece", "classwise_ece", "smooth_ece", "nll", "brier"}
    assert stored | {"aurc"} <= METRICS.keys()


def test_a_new_metric_is_one_function_and_one_entry(monkeypatch):
    confidence = Metric(
        "confidence", "mean confidence", lambda o: o.probs.max(axis=1).mean(), 1, "%"
    )
    monkeypatch.setitem(METRICS, "confidence", confidence)
    measured = gnncal.evaluate(LABELS, PROBS)
    assert measured.confidence == pytest.approx(0.75)  # (0.9 + 0.6 + 0.8 + 0.7) / 4
    assert measured.as_dict()["confidence"] == measured.confidence
    assert "mean confidence %" in str(measured)
    assert "75.0" in str(measured)
    assert measures_of(Outcomes(LABELS, PROBS))["confidence"] == measured.confidence


def test_a_metric_that_is_a_mean_over_nodes_is_compared(monkeypatch):
    def misses(outcomes):
        return (outcomes.probs.argmax(axis=1) != outcomes.labels).astype(float)

    entry = Metric("miss", "misses", lambda o: misses(o).mean(), 1, "%", per_node=misses)
    monkeypatch.setitem(METRICS, "miss", entry)
    comparison = gnncal.compare(LABELS, PROBS, PROBS[:, ::-1])
    assert comparison.miss.mean == pytest.approx(3 / 4 - 1 / 4)  # one of four wrong, then three
    assert "misses" in str(comparison)


@pytest.mark.parametrize("name", [n for n, m in METRICS.items() if m.per_node is not None])
def test_a_metric_with_scores_of_nodes_is_their_mean(name):
    labels, probs = simulate(50)
    metric = METRICS[name]
    scores = metric.per_node(metrics.Outcomes(labels, probs, positive=1))
    assert scores.mean() == pytest.approx(metric(labels, probs, positive=1))


def test_floors_stand_beside_their_metric():
    measured = measures_of(Outcomes(LABELS, PROBS, in_degree=DEGREE))
    floor = metrics.calibration_floor(PROBS)
    assert (measured["ece_floor"], measured["ece_floor_spread"]) == (floor.mean, floor.spread)
    by_degree = floor_of_cells(PROBS.max(axis=1), degree_blocks(DEGREE))
    assert measured["degree_ece_floor"] == by_degree.mean
    assert metric_of("ece_floor_spread") is metric_of("ece_floor") is METRICS["ece"]
    assert METRICS["degree_ece"].floor_name == "degree_ece_floor"
    assert METRICS["nll"].floor_name is None


def test_without_degrees_the_metrics_by_degree_are_left_out():
    measured = measures_of(Outcomes(LABELS, PROBS, positive=1))
    assert set(METRICS) - set(measured) == {"degree_ece"}
    assert gnncal.evaluate(LABELS, PROBS).degree_ece is None


def test_without_a_class_in_view_the_metrics_of_one_class_are_left_out():
    of_one_class = {name for name, metric in METRICS.items() if metric.needs_positive}
    measured = measures_of(Outcomes(LABELS, PROBS, in_degree=DEGREE))
    assert set(METRICS) - set(measured) == of_one_class
    evaluation = gnncal.evaluate(LABELS, PROBS, in_degree=DEGREE)
    assert not of_one_class & evaluation.values.keys()
    assert "positive" not in evaluation.as_dict()
    with pytest.raises(gnncal.InputError, match="positive_ece needs positive"):
        METRICS["positive_ece"](LABELS, PROBS)
    with pytest.raises(AttributeError, match=r"has no metric 'positive_ece'.* Pass positive"):
        evaluation.positive_ece  # noqa: B018


def test_shares_are_shown_in_percent_and_nothing_as_a_dash():
    assert METRICS["ece"].shown(0.04128) == "4.13"
    assert METRICS["nll"].shown(1.23456) == "1.2346"
    assert METRICS["ece"].shown(None) == METRICS["nll"].shown(float("nan")) == "-"
    assert METRICS["ece"].heading == "ECE %"
    assert METRICS["nll"].heading == "NLL"


def test_every_binned_metric_has_the_same_default_number_of_bins():
    labels, probs = simulate(200)
    n_bins = DEFAULT_BINS
    for function in (
        metrics.expected_calibration_error,
        metrics.estimate_calibration_error,
    ):
        assert function(labels, probs) == function(labels, probs, n_bins=n_bins)
    assert len(metrics.reliability_bins(labels, probs).count) == n_bins
