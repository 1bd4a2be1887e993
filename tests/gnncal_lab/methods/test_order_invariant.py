"""Order-invariant calibration against its definition, gap by gap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad

import gnncal
import gnncal_lab
from gnncal_lab.methods.order_invariant import canonical_rows
from tests.calibrators.planted import draw
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def by_hand(calibrator, z):
    """The scores of one node."""
    order = sorted(range(len(z)), key=lambda k: -z[k])
    ranked = np.array([z[k] for k in order])
    hidden = np.maximum(calibrator.hidden_weight_.T @ ranked + calibrator.hidden_bias_, 0)
    m = calibrator.output_weight_.T @ hidden + calibrator.output_bias_
    scores = np.zeros(len(z))
    for k in range(len(z)):
        for j in range(k, len(z) - 1):
            q = np.log1p(np.exp(calibrator.offset_ + m[j]))
            scores[order[k]] += q * (ranked[j] - ranked[j + 1])
    return scores


@pytest.mark.parametrize("protocol", ["converged", "paper"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_scores_are_sums_of_scaled_gaps(protocol, n_classes):
    logits, labels = draw(200, n_classes, 0)
    calibrator = gnncal_lab.OrderInvariant(protocol=protocol)
    calibrator.fit(
        logits, labels, calibration_nodes=np.arange(120), train_nodes=np.arange(120, 200)
    )
    expected = gnncal.calibrators.softmax(np.stack([by_hand(calibrator, z) for z in logits]))
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-10)


@given(st.integers(0, 10**6), st.integers(2, 5))
def test_the_gradient_equals_finite_differences(seed, n_classes):
    logits, labels = draw(25, n_classes, seed)
    calibrator = gnncal_lab.OrderInvariant()
    calibrator.offset_ = 0.4
    objective = calibrator._objective(*canonical_rows(logits, labels), 0.05)
    theta = np.random.default_rng(seed).normal(size=2 * n_classes**2 + n_classes - 1)
    error = check_grad(lambda t: objective(t)[0], lambda t: objective(t)[1], theta)
    assert error < 1e-4


@given(task=tasks())
def test_the_complete_ranking_and_its_ties_stay(task):
    probs = task.fit(gnncal_lab.OrderInvariant()).predict_proba(task.logits)
    order = np.argsort(-task.logits, axis=1, kind="stable")
    ranked = np.take_along_axis(probs, order, axis=1)
    assert (np.diff(ranked, axis=1) <= 0).all()
    ties = np.diff(np.take_along_axis(task.logits, order, axis=1), axis=1) == 0
    assert (np.diff(ranked, axis=1)[ties] == 0).all()


def test_strong_decay_leaves_temperature_scaling():
    logits, labels = draw(200, 4, 0)
    calibrator = gnncal_lab.OrderInvariant(weight_decay=1e4).fit(logits, labels)
    expected = gnncal.calibrators.TemperatureScaling().fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(calibrator.predict_proba(logits), expected, atol=1e-4)


def test_a_scale_that_depends_on_the_gap_is_learned_better_than_by_one_temperature():
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(4000, 3))
    ranked = np.sort(logits, axis=1)
    truth = gnncal.calibrators.softmax(logits, np.where(ranked[:, 2] - ranked[:, 1] > 2, 4.0, 0.7))
    labels = (generator.random((4000, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    loss = [
        gnncal.metrics.METRICS["nll"](
            labels[2000:],
            c.fit(logits, labels, calibration_nodes=np.arange(2000)).predict_proba(logits)[2000:],
        )
        for c in (gnncal_lab.OrderInvariant(), gnncal.calibrators.TemperatureScaling())
    ]
    assert loss[0] < loss[1] - 0.01


def test_the_seed_decides_the_start_and_nothing_else_is_random():
    logits, labels = draw(150, 3, 0)
    first, same, other = (
        gnncal_lab.OrderInvariant(random_state=seed).fit(logits, labels) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.hidden_weight_, same.hidden_weight_)
    assert (first.hidden_weight_ != other.hidden_weight_).any()
    shuffled = np.random.default_rng(0).permutation(150)
    again = gnncal_lab.OrderInvariant().fit(logits[shuffled], labels[shuffled])
    np.testing.assert_array_equal(first.hidden_weight_, again.hidden_weight_)


def test_the_papers_protocol_starts_without_a_temperature_and_stops_on_training_nodes():
    logits, labels = draw(400, 3, 0)
    split = {"calibration_nodes": np.arange(200), "train_nodes": np.arange(200, 400)}
    paper = gnncal_lab.OrderInvariant(protocol="paper").fit(logits, labels, **split)
    assert paper.offset_ == 0
    assert gnncal_lab.OrderInvariant().fit(logits, labels, **split).offset_ != 0
    with pytest.raises(gnncal.InputError, match="pass train_nodes"):
        gnncal_lab.OrderInvariant(protocol="paper").fit(logits, labels)
    with pytest.raises(gnncal.InputError, match="weight_decay is -1"):
        gnncal_lab.OrderInvariant(weight_decay=-1).fit(logits, labels)


def test_the_iterations_times_the_weights_are_bounded(monkeypatch):
    from gnncal_lab.methods import order_invariant

    monkeypatch.setattr(order_invariant, "FEWEST_ITERATIONS", 3)
    monkeypatch.setattr(order_invariant, "MOST_WORK", 4 * 31)  # K = 4 has 4 * 5 + 5 * 3 = 35
    logits, labels = draw(100, 4, 0)
    calibrator = gnncal_lab.OrderInvariant().fit(logits, labels)
    assert calibrator.n_iter_ == 3
    assert not calibrator.converged_
