"""Metrics that see batches give what gnncal's functions give for all nodes at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

from gnncal.torch import metrics  # noqa: E402

CASES = [
    (metrics.CalibrationError(), gnncal.metrics.expected_calibration_error),
    (metrics.CalibrationError(norm="max"), gnncal.metrics.METRICS["mce"]),
    (metrics.SmoothCalibrationError(), gnncal.metrics.smooth_calibration_error),
    (metrics.ClasswiseCalibrationError(4), gnncal.metrics.METRICS["classwise_ece"]),
    (metrics.NegativeLogLikelihood(), gnncal.metrics.METRICS["nll"]),
    (metrics.BrierScore(), gnncal.metrics.METRICS["brier"]),
    (metrics.AURC(), gnncal.metrics.METRICS["aurc"]),
    (metrics.CalibrationFloor(), lambda _, probs: gnncal.metrics.calibration_floor(probs).mean),
]


@st.composite
def outcomes(draw):
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, scale = draw(st.integers(2, 400)), draw(st.sampled_from([0.0, 1.0, 5.0, 60.0]))
    probs = gnncal.softmax(scale * generator.normal(size=(n, 4)))
    cuts = np.sort(generator.integers(0, n + 1, size=2))
    return generator.integers(4, size=n), probs, [c for c in np.split(np.arange(n), cuts) if len(c)]


@pytest.mark.parametrize(("metric", "function"), CASES, ids=lambda case: type(case).__name__)
@given(outcomes())
def test_batches_give_the_number_of_all_nodes_at_once(metric, function, drawn):
    labels, probs, batches = drawn
    metric.reset()
    for rows in batches:
        metric.update(torch.from_numpy(probs[rows]), torch.from_numpy(labels[rows]))
    assert float(metric.compute()) == pytest.approx(function(labels, probs), abs=1e-6)


@given(outcomes())
def test_the_degree_error_of_batches_is_that_of_all_nodes(drawn):
    labels, probs, batches = drawn
    degree = np.random.default_rng(len(labels)).integers(0, 9, size=len(labels))
    metric = metrics.DegreeCalibrationError()
    for rows in batches:
        metric.update(*(torch.from_numpy(array[rows]) for array in (probs, labels, degree)))
    expected = gnncal.metrics.METRICS["degree_ece"](labels, probs, degree)
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-6)


def test_sums_of_two_processes_add_up_to_those_of_one():
    generator = np.random.default_rng(0)
    probs = torch.from_numpy(gnncal.softmax(generator.normal(size=(100, 3))))
    labels = torch.from_numpy(generator.integers(3, size=100))
    for kind in (metrics.CalibrationFloor, metrics.CalibrationError, metrics.BrierScore):
        one, two, all_at_once = kind(), kind(), kind()
        one.update(probs[:40], labels[:40])
        two.update(probs[40:], labels[40:])
        all_at_once.update(probs, labels)
        assert set(one._reductions.values()) == {torchmetrics.utilities.dim_zero_sum}
        for name in one._defaults:
            total = getattr(one, name) + getattr(two, name)
            torch.testing.assert_close(total, getattr(all_at_once, name))


def test_a_confidence_of_exactly_one_is_in_the_last_bin_and_edges_belong_below():
    # Confidences 1 and 14/15 + 0.01 share the last bin; torchmetrics gives 1 a bin of its own.
    probs = torch.tensor([[1.0, 0.0], [14 / 15 + 0.01, 1 / 15 - 0.01]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    ours, theirs = (
        metrics.CalibrationError(),
        torchmetrics.classification.MulticlassCalibrationError(2, n_bins=15),
    )
    by_hand = abs((1.0 + 14 / 15 + 0.01) / 2 - 0.5)
    assert float(ours(probs, labels)) == pytest.approx(by_hand)
    assert float(theirs(probs, labels)) == pytest.approx((14 / 15 + 0.01) / 2)


def test_the_collection_logs_under_a_prefix_and_can_be_cloned():
    collection = metrics.calibration_metrics(prefix="val_").clone()
    collection.update(torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1]))
    found = collection.compute()
    names = ("ece", "ece_floor", "smooth_ece", "nll", "brier", "aurc")
    assert set(found) == {f"val_{name}" for name in names}
    assert float(found["val_nll"]) == pytest.approx(np.log(2))


def test_logits_and_unknown_labels_are_refused():
    metric = metrics.CalibrationError()
    with pytest.raises(gnncal.InputError, match="not logits"):
        metric.update(torch.tensor([[3.0, -1.0]]), torch.tensor([0]))
    with pytest.raises(gnncal.InputError, match="labels"):
        metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([-1]))
