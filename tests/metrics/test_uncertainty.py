"""The noise floor and the interval of a calibration error, by hand and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnncal import metrics
from gnncal.data.errors import InputError
from gnncal.metrics import uncertainty
from gnncal.metrics.binning import bin_edges, bin_index

from .outcomes import draw_labels, law, outcomes, simulate, top_label

estimate = metrics.estimate_calibration_error


plain = metrics.expected_calibration_error


@law
@given(outcomes(), st.integers(1, 12), st.sampled_from(["uniform", "quantile"]))
def test_the_value_is_the_plain_error_and_the_rest_lies_in_its_range(case, n_bins, strategy):
    # Few nodes, many bins and tied values: quantile bins merge.
    setting = {"n_bins": n_bins, "strategy": strategy}
    record = estimate(*case, n_resamples=30, level=0.9, **setting)
    assert record.value == pytest.approx(plain(*case, **setting), abs=1e-12)
    assert 0.0 <= record.floor <= 1.0 + 1e-12
    assert 1 / 31 <= record.p_value <= 1.0
    assert 0.0 <= record.low <= record.high + 1e-9 <= 1.0 + 1e-9
    assert record.n_nodes == len(case[0])


def test_floor_and_p_value_of_one_bin_by_hand():
    # Hits are Bin(4, 1/2): the gap is 1/2 with chance 2/16, 1/4 with 8/16 and 0 with 6/16, so its
    # mean is 1/16 + 1/8. Three hits of four show 1/4, which chance reaches 10 times in 16.
    record = estimate(*top_label([0.5] * 4, [1, 1, 1, 0]), n_resamples=20_000)
    assert record.floor == pytest.approx(3 / 16)
    assert record.p_value == pytest.approx(10 / 16, abs=0.012)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_floor_is_the_mean_error_of_labels_drawn_from_the_probabilities(strategy):
    labels, probs = simulate(120, n_classes=3, sharpness=0.5)
    probs[:40] = probs[0]  # ties that merge quantile bins
    generator = np.random.default_rng(1)
    drawn = [plain(draw_labels(probs, generator), probs, strategy=strategy) for _ in range(600)]
    record = estimate(labels, probs, n_resamples=2000, strategy=strategy)
    standard_error = np.std(drawn) * np.sqrt(1 / 600 + 1 / 2000)
    assert abs(record.floor - np.mean(drawn)) < 3.5 * standard_error
    share = np.mean(np.array(drawn) >= record.value)
    assert record.p_value == pytest.approx(share, abs=0.06)


# Simulations: confidence uniform over (1/2, 1), fifteen bins, of which eight are reached.
TRUE_ACCURACY = {
    "calibrated": lambda confidence: confidence,
    "overconfident": lambda confidence: confidence - 0.15,
    "too sharp": lambda confidence: 0.5 + 0.5 * (confidence - 0.5),
}


def draw_sample(accuracy, generator, n_nodes=150):
    confidence = 0.5 + 0.5 * generator.random(n_nodes)
    return top_label(confidence, generator.random(n_nodes) < accuracy(confidence))


def true_error(accuracy):
    """The binned error of the population: labels replaced by their probability of a hit."""
    confidence = 0.5 + 0.5 * (np.arange(200_000) + 0.5) / 200_000
    bins = np.searchsorted(np.arange(1, 15) / 15, confidence)
    return np.abs(np.bincount(bins, weights=confidence - accuracy(confidence))).sum() / 200_000


@pytest.mark.parametrize("truth", TRUE_ACCURACY)
def test_intervals_cover_the_error_of_the_population(truth):
    accuracy = TRUE_ACCURACY[truth]
    target = true_error(accuracy)
    generator = np.random.default_rng(0)
    covered = []
    for seed in range(150):
        record = estimate(*draw_sample(accuracy, generator), n_resamples=200, random_state=seed)
        covered.append(record.low <= target + 1e-12 and target <= record.high)
    assert np.mean(covered) >= 0.85  # over 1000 samples: 0.96, 0.90, 0.94


def test_percentile_bootstrap_would_miss_the_error_of_a_calibrated_model():
    # Why the interval is not the textbook's: resampling adds the upward bias once more.
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(60):
        labels, probs = draw_sample(TRUE_ACCURACY["calibrated"], generator)
        picks = generator.integers(150, size=(100, 150))
        errors = [metrics.expected_calibration_error(labels[i], probs[i]) for i in picks]
        covered.append(np.quantile(errors, 0.025) <= 0.0)
    assert np.mean(covered) < 0.5


def test_p_values_of_calibrated_models_are_uniform_or_larger():
    generator = np.random.default_rng(0)
    p_values = np.array(
        [
            estimate(
                *draw_sample(TRUE_ACCURACY["calibrated"], generator),
                n_resamples=200,
                random_state=seed,
            ).p_value
            for seed in range(200)
        ]
    )
    for share in (0.05, 0.2, 0.5, 0.8):
        margin = 3 * np.sqrt(share * (1 - share) / 200)
        assert np.mean(p_values <= share) <= share + margin
    assert np.mean(p_values <= 0.5) > 0.35  # and not so large that nothing is ever found


def test_a_large_error_has_the_smallest_p_value_and_an_interval_above_zero():
    labels, probs = top_label(np.linspace(0.8, 1.0, 200), np.arange(200) % 2)
    record = estimate(labels, probs, n_resamples=199)
    assert record.p_value == 1 / 200
    assert record.floor < 0.1 < record.low
    assert record.low < 0.4 < record.high  # mean confidence 0.9, accuracy 1/2
    assert record.low < record.value < record.high


def test_interval_of_one_bin_is_the_normal_one():
    # Far from zero there is no bias: the gap 0.4 -+ 1.96 * 0.5 / sqrt(400), as the
    # residuals 0.9 and -0.1 have standard deviation 1/2.
    labels, probs = top_label([0.9] * 400, np.arange(400) % 2)
    record = estimate(labels, probs, n_resamples=4000)
    assert record.low == pytest.approx(0.4 - 0.049, abs=0.003)
    assert record.high == pytest.approx(0.4 + 0.049, abs=0.003)


def test_a_lucky_sample_is_not_a_certain_one():
    # Five hits of ten at confidence 1/2: no gap is seen, yet one standard error is 0.158.
    record = estimate(*top_label([0.5] * 10, [1, 0] * 5))
    assert record.value == 0.0
    assert record.low == 0.0
    assert record.high > 0.158


def test_an_interval_may_reach_hundreds_of_times_the_value():
    # Accuracy 1/2 at confidence 0.5001: a gap of 0.0001 with a standard error of 0.016.
    labels, probs = top_label([0.5001] * 1000, [1, 0] * 500)
    record = estimate(labels, probs, level=0.9999, n_resamples=20_000)
    assert record.value == pytest.approx(0.0001)
    assert record.low == 0.0
    assert 3 * 0.016 < record.high < 6 * 0.016


@pytest.mark.parametrize("n", [3, 3000])
def test_certain_and_correct_predictions_leave_the_doubt_of_their_number(n):
    record = estimate([0, 1, 1] * (n // 3), np.eye(2)[[0, 1, 1] * (n // 3)])
    assert (record.value, record.floor, record.low, record.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert record.high == pytest.approx(1 - 0.025 ** (1 / n))  # the exact binomial interval


def test_a_higher_level_widens_the_interval():
    labels, probs = simulate(200, sharpness=0.5)
    records = [estimate(labels, probs, level=level) for level in (0.5, 0.9, 0.99, 0.9999)]
    assert (np.diff([record.low for record in records]) <= 0).all()
    assert (np.diff([record.high for record in records]) >= 0).all()


@pytest.mark.parametrize("level", [0.9, 0.999, 0.999999])
@law
@given(outcomes(max_nodes=6), st.integers(0, 5))
def test_intervals_of_few_nodes_exist_at_any_level(level, case, seed):
    record = estimate(*case, n_bins=2, level=level, n_resamples=40, random_state=seed)
    assert 0.0 <= record.low <= record.high + 1e-9 <= 1.0 + 1e-9


def test_the_same_random_state_gives_the_same_record():
    labels, probs = simulate(80)
    first = estimate(labels, probs, random_state=3, n_resamples=50)
    assert first == estimate(labels, probs, random_state=3, n_resamples=50)
    other = estimate(labels, probs, random_state=4, n_resamples=50)
    assert (other.p_value, other.low, other.high) != (first.p_value, first.low, first.high)
    assert (other.value, other.floor) == (first.value, first.floor)  # these are not drawn


def mean_of_draws(labels, probs, n_draws=1000):
    """The mean error of the labels that the p-value compares with."""
    outcomes = metrics.Outcomes(labels, probs)
    confidence, residual = outcomes.confidence, outcomes.confidence - outcomes.correct
    cell = bin_index(confidence, bin_edges(confidence, 15, "uniform"))
    sums = uncertainty._Sums(confidence, residual, cell)
    return sums.error(sums.draw_calibrated(n_draws, np.random.default_rng(0))).mean()


def test_draws_in_many_blocks_have_the_same_distribution(monkeypatch):
    labels, probs = simulate(100, sharpness=0.6)
    whole, whole_floor = estimate(labels, probs), mean_of_draws(labels, probs)
    monkeypatch.setattr("gnncal.metrics.uncertainty.NUMBERS_PER_BLOCK", 3000)
    parts = estimate(labels, probs)
    assert parts.value == whole.value
    assert mean_of_draws(labels, probs) == pytest.approx(whole_floor, rel=0.03)
    assert whole.floor == pytest.approx(whole_floor, rel=0.03)
    assert parts.low == pytest.approx(whole.low, abs=0.02)
    assert parts.high == pytest.approx(whole.high, abs=0.02)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"level": 0.0}, "level is 0.0"),
        ({"level": 1.0}, "level is 1.0"),
        ({"level": 95}, "level is 95"),
        ({"level": np.nan}, "level is nan"),
        ({"n_resamples": 0}, "n_resamples is 0"),
    ],
)
def test_unusable_settings_are_named(setting, message):
    with pytest.raises(InputError, match=message):
        estimate([0, 1], [[0.7, 0.3], [0.4, 0.6]], **setting)


def _large(n_nodes: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of two classes; most nodes certain, some bins small."""
    generator = np.random.default_rng(3)
    confidence = np.concatenate(
        [1 - 10 ** generator.uniform(-5, -4, n_nodes // 2), generator.beta(6, 3, n_nodes // 2)]
    )
    confidence = np.maximum(confidence, 1 - confidence)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    labels = (generator.random(n_nodes) > confidence - 0.05).astype(int)
    return labels, probs


def test_drawing_the_sums_of_cells_is_as_good_as_drawing_their_nodes(monkeypatch):
    labels, probs = _large()
    drawn_by_sums = estimate(labels, probs, n_resamples=4000)
    floor_of_sums = mean_of_draws(labels, probs, n_draws=4000)
    monkeypatch.setattr(uncertainty, "MANY_NODES", 10**9)
    drawn_by_nodes = estimate(labels, probs, n_resamples=4000)
    assert drawn_by_sums.value == drawn_by_nodes.value
    floor_of_nodes = mean_of_draws(labels, probs, n_draws=4000)
    assert floor_of_sums == pytest.approx(floor_of_nodes, rel=0.03)
    assert drawn_by_sums.low == pytest.approx(drawn_by_nodes.low, rel=0.03)
    assert drawn_by_sums.high == pytest.approx(drawn_by_nodes.high, rel=0.03)


def test_the_draws_of_many_nodes_agree_with_the_exact_floor():
    labels, probs = _large()
    exact = metrics.calibration_floor(probs)
    drawn = mean_of_draws(labels, probs, n_draws=4000)
    assert drawn == pytest.approx(exact.mean, abs=4 * exact.spread / np.sqrt(4000))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_floor_of_an_estimate_is_the_exact_one(strategy):
    labels, probs = simulate(300)
    binned = estimate(labels, probs, strategy=strategy, n_resamples=10)
    assert binned.floor == metrics.calibration_floor(probs, strategy=strategy).mean
