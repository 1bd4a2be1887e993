"""Calibration errors against paper, other libraries and the laws they obey."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics

from .outcomes import law, outcomes, simulate, top_label

ece = metrics.expected_calibration_error

# (0.5, 0.75] holds 0.6, 0.7: confidence 0.65, accuracy 1/2, gap 0.15, share 2/5.
# (0.75, 1] holds 0.8, 0.9, 1.0: confidence 0.9, accuracy 1/3, gap 17/30, share 3/5.
TWO_BINS = top_label([0.6, 0.7, 0.8, 0.9, 1.0], [1, 0, 1, 0, 0])


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("l1", 0.4 * 0.15 + 0.6 * 17 / 30),  # 0.06 + 0.34 = 0.4
        ("l2", 0.449073),  # sqrt(0.4 * 0.0225 + 0.6 * 0.321111) = sqrt(0.201667)
        ("max", 17 / 30),
    ],
)
def test_ece_of_two_bins_by_hand(norm, expected):
    assert ece(*TWO_BINS, n_bins=4, norm=norm) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n_bins", [2, 3, 4, 9])
def test_quantile_ece_with_ties_by_hand(n_bins):
    # Three nodes at 0.6 cannot be split: gap |0.6 - 2/3| on 3/4 of the nodes, 0.9 on the other.
    labels, probs = top_label([0.6, 0.9, 0.6, 0.6], [1, 0, 1, 0])
    expected = 0.75 * (2 / 3 - 0.6) + 0.25 * 0.9  # 0.05 + 0.225
    assert ece(labels, probs, n_bins=n_bins, strategy="quantile") == pytest.approx(expected)


def test_quantile_ece_splits_at_the_median_by_hand():
    # {0.6, 0.7}: |0.65 - 0.5|; {0.8, 0.9}: |0.85 - 0.5|; uniform halves would hold all four.
    labels, probs = top_label([0.6, 0.9, 0.7, 0.8], [1, 0, 0, 1])
    assert ece(labels, probs, n_bins=2, strategy="quantile") == pytest.approx(0.25)


def test_classwise_error_by_hand():
    # Class 0, alone in three bins: (0.3 + 0.6 + 0.1) / 3 = 1/3
    # Class 1: 1/3 |0.2 - 0| + 2/3 |0.3 - 1/2| = 1/15 + 2/15
    # Class 2: 2/3 |0.1 - 0| + 1/3 |0.6 - 1| = 1/15 + 2/15
    probs = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]
    error = metrics.METRICS["classwise_ece"]([0, 1, 2], probs)
    assert error == pytest.approx((1 / 3 + 1 / 5 + 1 / 5) / 3)


def test_smooth_error_of_one_confidence_is_its_gap():
    # All residuals sit in one place, so smoothing keeps their sum: |0.75 - 1/2|.
    labels, probs = top_label([0.75] * 4, [1, 1, 0, 0])
    assert metrics.METRICS["smooth_ece"](labels, probs) == pytest.approx(0.25, abs=1e-6)


def test_smooth_error_of_certain_mistakes_is_one():
    labels, probs = top_label([1.0, 1.0], [0, 0])
    assert metrics.METRICS["smooth_ece"](labels, probs) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("sharpness", [1.0, 0.6, 2.0])
def test_smooth_error_is_the_integral_of_reflected_gaussians_at_its_own_bandwidth(sharpness):
    labels, probs = simulate(60, sharpness=sharpness)
    error = metrics.METRICS["smooth_ece"](labels, probs)
    confidence = probs.max(axis=1)
    residual = (probs.argmax(axis=1) == labels) - confidence
    middles = (np.arange(2000) + 0.5)[:, None] / 2000
    density = np.zeros((2000, 60))
    for shift in range(-4, 5, 2):  # mirror images of each node beyond 0 and 1
        for image in (confidence + shift, -confidence + shift):
            density += np.exp(-0.5 * ((middles - image) / error) ** 2)
    density /= error * np.sqrt(2 * np.pi)
    integral = np.abs(density @ residual / 60).mean()
    assert error == pytest.approx(integral, abs=2e-4)  # confidences lie on a grid of 1/4000


@pytest.mark.parametrize("sharpness", [1.0, 0.6, 2.0])
@pytest.mark.parametrize("n_nodes", [100, 2000])
def test_smooth_error_agrees_with_relplot(n_nodes, sharpness):
    relplot = pytest.importorskip("relplot")
    labels, probs = simulate(n_nodes, sharpness=sharpness, seed=1)
    confidence, correct = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(float)
    error = metrics.METRICS["smooth_ece"](labels, probs)
    # Relplot bisects the bandwidth to 1/1024 and integrates on 200 points.
    assert error == pytest.approx(relplot.smECE(f=confidence, y=correct), abs=1e-3)
    at_bandwidth = relplot.smECE_sigma(f=confidence, y=correct, sigma=error)
    assert error == pytest.approx(at_bandwidth, abs=3e-4)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_ece_agrees_with_torchmetrics(norm, n_bins):
    torch = pytest.importorskip("torch")
    oracle = pytest.importorskip("torchmetrics.functional.classification")
    labels, probs = simulate(500, sharpness=0.7)
    expected = oracle.multiclass_calibration_error(
        torch.tensor(probs), torch.tensor(labels), num_classes=4, n_bins=n_bins, norm=norm
    )
    assert ece(labels, probs, n_bins=n_bins, norm=norm) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_ece_and_mce_agree_with_netcal(strategy):
    oracle = pytest.importorskip("netcal.metrics", reason="netcal is no test dependency")
    labels, probs = simulate(600, sharpness=0.7)
    setting = {"bins": 15, "equal_intervals": strategy == "uniform"}
    expected = oracle.ECE(**setting).measure(probs, labels)
    assert ece(labels, probs, strategy=strategy) == pytest.approx(expected, abs=1e-9)
    expected = oracle.MCE(**setting).measure(probs, labels)
    error = metrics.expected_calibration_error(labels, probs, strategy=strategy, norm="max")
    assert error == pytest.approx(expected, abs=1e-9)


ERRORS = {
    "ece": ece,
    "l2": lambda labels, probs: ece(labels, probs, norm="l2"),
    "quantile": lambda labels, probs: ece(labels, probs, strategy="quantile"),
    "maximum": metrics.METRICS["mce"],
    "classwise": metrics.METRICS["classwise_ece"],
    "smooth": metrics.METRICS["smooth_ece"],
}
every_error = pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS.keys())


@every_error
@law
@given(outcomes())
def test_errors_lie_between_zero_and_one(error, case):
    assert 0.0 <= error(*case) <= 1.0 + 1e-12


@every_error
@law
@given(outcomes(), st.randoms(use_true_random=False))
def test_errors_do_not_depend_on_the_order_of_nodes(error, case, random):
    labels, probs = case
    order = random.sample(range(len(labels)), len(labels))
    assert error(labels[order], probs[order]) == pytest.approx(error(labels, probs), abs=1e-8)


@pytest.mark.parametrize("name", ERRORS)
@law
@given(outcomes(), st.integers(2, 4))
def test_errors_do_not_change_when_every_node_is_repeated(name, case, copies):
    labels, probs = case
    repeated = ERRORS[name](np.tile(labels, copies), np.tile(probs, (copies, 1)))
    assert repeated == pytest.approx(ERRORS[name](labels, probs), abs=1e-8)


@every_error
@law
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_certain_and_correct_predictions_have_no_error(error, labels):
    assert error(np.array(labels), np.eye(4)[labels]) == 0.0


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@law
@given(outcomes())
def test_ece_of_one_bin_is_mean_confidence_less_accuracy(norm, strategy, case):
    labels, probs = case
    expected = abs(probs.max(axis=1).mean() - metrics.METRICS["accuracy"](labels, probs))
    assert ece(labels, probs, n_bins=1, strategy=strategy, norm=norm) == pytest.approx(expected)


@law
@given(outcomes(), st.integers(1, 8), st.integers(2, 4))
def test_splitting_every_bin_never_lowers_the_error(case, n_bins, parts):
    # Triangle inequality. Edges k / n and k m / (n m) may differ in the last digit; confidences in
    # 997ths, a prime, stay clear of both.
    labels, probs = case
    confidence = np.clip(np.round(probs.max(axis=1) * 997) / 997, 0.21, 1.0)
    case = top_label(confidence, probs.argmax(axis=1) == labels, n_classes=6)
    assert ece(*case, n_bins=n_bins * parts) >= ece(*case, n_bins=n_bins) - 1e-12


@law
@given(outcomes())
def test_l1_is_at_most_l2_is_at_most_max(case):
    l1, l2, largest = (ece(*case, norm=norm) for norm in ("l1", "l2", "max"))
    assert l1 <= l2 + 1e-12 <= largest + 2e-12


@law
@given(outcomes(), st.randoms(use_true_random=False))
def test_classwise_error_does_not_depend_on_the_order_of_classes(case, random):
    labels, probs = case
    n_classes = probs.shape[1]
    order = np.array(random.sample(range(n_classes), n_classes))  # new column -> old class
    relabelled = np.argsort(order)[labels]
    error = metrics.METRICS["classwise_ece"](relabelled, probs[:, order])
    assert error == pytest.approx(metrics.METRICS["classwise_ece"](labels, probs))
