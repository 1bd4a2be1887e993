"""MRP ranks nodes by how likely their prediction is right, and touches nothing else."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

import gnncal
from gnncal_lab import MonotoneReliability
from gnncal_lab.reliability import KNOTS, START


def sample(seed, n, n_classes=3, bias=(0.0, 1.0, -1.0)):
    """Nodes whose confidence says too little or too much, by the predicted class."""
    generator = np.random.default_rng(seed)
    probs = generator.dirichlet(np.full(n_classes, 0.6), size=n)
    predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)
    chance = expit(
        logit(np.clip(confidence, 1e-9, 1 - 1e-9)) + np.resize(bias, n_classes)[predicted]
    )
    right = generator.random(n) < chance
    return probs, np.where(right, predicted, (predicted + 1) % n_classes)


PROBS, LABELS = sample(0, 400)


def straight_line_score(values, probs):
    """The score of each node with loops."""
    scores = []
    for row in probs:
        d = max(range(len(row)), key=lambda k: row[k])
        scores.append(expit(np.interp(row[d], KNOTS, values[d])))
    return np.array(scores)


def straight_line_loss(values, nodes, n, prior_nodes, towards, n_maps):
    """What a map minimises, times the number n of all nodes; its own are confidence and right."""
    total = 0.0
    for c, z in zip(*nodes, strict=True):
        f = np.interp(c, KNOTS, values)
        total += np.logaddexp(0.0, f) - z * f
    for value, target in zip(values, expit(towards), strict=True):
        total += prior_nodes * (np.logaddexp(0.0, value) - target * value)
    for j in range(1, 7):
        total += n * 1e-4 / (n_maps * 6) * (values[j + 1] - 2 * values[j] + values[j - 1]) ** 2
    return total


def best_values(nodes, n, prior_nodes, towards, n_maps):
    """Minimise it by another method: sequential quadratic programming over the values."""

    def loss(values):
        return straight_line_loss(values, nodes, n, prior_nodes, towards, n_maps)

    rising = [{"type": "ineq", "fun": lambda v, j=j: v[j + 1] - v[j]} for j in range(7)]
    options = {"maxiter": 500, "ftol": 1e-13}
    return minimize(loss, towards, method="SLSQP", constraints=rising, options=options).x, loss


def test_the_converged_maps_are_those_of_another_solver():
    probs, labels = PROBS[:80], LABELS[:80]
    found = MonotoneReliability(prior_nodes=0.25).fit(probs, labels).values_
    predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)
    right = predicted == labels
    together, _ = best_values((confidence, right), 80, 0.25, START, 1)
    for d in range(3):
        nodes = (confidence[predicted == d], right[predicted == d])
        expected, loss = best_values(nodes, 80, 0.25, together, 3)
        assert loss(found[d]) <= loss(expected) + 1e-5  # our steps are 1e-6 at least
        np.testing.assert_allclose(expit(found[d]), expit(expected), atol=2e-3)


def test_no_direction_that_keeps_a_map_rising_lowers_its_loss():
    model = MonotoneReliability().fit(PROBS, LABELS)
    predicted, confidence = PROBS.argmax(axis=1), PROBS.max(axis=1)
    right = (predicted == LABELS).astype(float)
    steps = KNOTS[1:] * 7 - 1
    together = towards_of(confidence, right)
    for d in range(3):
        here, values = predicted == d, model.values_[d]
        x = np.clip(confidence[here, None] * 7 - steps, 0, 1)
        q = expit(values[0] + x @ np.diff(values))
        at_knots = expit(values) - expit(together)
        bends = 2 * 400 * 1e-4 / 18 * np.diff(values, 2)
        by_step = (q - right[here]) @ x + np.cumsum(at_knots[::-1])[::-1][1:]
        by_step += np.append(0, bends) - np.append(bends, 0)
        by_offset = (q - right[here]).sum() + at_knots.sum()
        assert abs(by_offset) < 1e-4
        is_flat = np.diff(values) < 2e-6
        assert np.abs(by_step[~is_flat]).max() < 1e-4
        assert (by_step[is_flat] > -1e-4).all()


def towards_of(confidence, right):
    """The map of all classes together: that of one class that has all the nodes."""
    others = np.tile((1 - confidence)[:, None] / 9, 9)  # so the first class is predicted
    model = MonotoneReliability().fit(np.column_stack([confidence, others]), np.where(right, 0, 1))
    return model.values_[1]  # never predicted


def test_the_published_fit_is_that_of_a_straight_line_loop():
    probs, labels = PROBS[:60], LABELS[:60]
    predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)
    right = (predicted == labels).astype(float)

    def values_of(theta):
        base, raw = theta[:, :1], theta[:, 1:]
        return np.concatenate([base, base + np.cumsum(np.log1p(np.exp(raw)), axis=1)], axis=1)

    def gradient(theta):
        """By differences of the loss that the publication writes."""
        slopes = np.zeros_like(theta)
        for place in np.ndindex(theta.shape):
            for sign in (1, -1):
                moved = theta.copy()
                moved[place] += sign * 1e-5
                values = values_of(moved)
                f = [
                    np.interp(c, KNOTS, values[d])
                    for c, d in zip(confidence, predicted, strict=True)
                ]
                q = np.clip(expit(f), 1e-6, 1 - 1e-6)
                loss = -np.mean(right * np.log(q) + (1 - right) * np.log(1 - q))
                loss += 1e-4 * np.mean(np.diff(values, 2, axis=1) ** 2)
                slopes[place] += sign * loss / 2e-5
        return slopes

    theta = np.tile(np.append(START[0], np.log(np.expm1(np.diff(START)))), (3, 1))
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    for epoch in range(1, 21):
        slope = gradient(theta)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        theta = theta - 0.03 * (mean / (1 - 0.9**epoch)) / (
            np.sqrt(square / (1 - 0.999**epoch)) + 1e-8
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnncal_lab.reliability.PAPER_EPOCHS", 20)
        found = MonotoneReliability(protocol="paper").fit(probs, labels).values_
    np.testing.assert_allclose(found, values_of(theta), atol=1e-4)


def test_one_confidence_has_the_share_of_right_predictions_as_its_score():
    # 1000 nodes at a knot, 600 of them right: the prior moves log-odds of 0.6 by a hundredth.
    probs = np.tile([3 / 7, 2 / 7, 2 / 7], (1000, 1))
    labels = np.repeat([0, 1], [600, 400])
    score = MonotoneReliability(prior_nodes=1e-3).fit(probs, labels).score(probs[:1])
    assert score == pytest.approx([0.6], abs=1e-4)


@pytest.mark.parametrize("protocol", ["converged", "paper"])
def test_within_a_predicted_class_the_score_rises_with_the_confidence(protocol):
    model = MonotoneReliability(protocol=protocol).fit(PROBS, LABELS)
    confidence = np.sort(np.append(np.linspace(0.34, 1, 5000), KNOTS[3:]))
    for d in range(3):
        probs = np.repeat((1 - confidence)[:, None] / 2, 3, axis=1)
        probs[:, d] = confidence
        score = model.score(probs)
        assert (np.diff(score) >= 0).all()
        assert ((score > 0) & (score < 1)).all()
        if protocol == "converged":  # no ties: flat parts keep the order of the confidence
            assert (np.diff(score)[np.diff(confidence) > 1e-6] > 0).all()


@pytest.mark.parametrize("protocol", ["converged", "paper"])
def test_the_score_is_the_interpolated_map_of_the_predicted_class(protocol):
    model = MonotoneReliability(protocol=protocol).fit(PROBS, LABELS)
    expected = straight_line_score(model.values_, PROBS)
    np.testing.assert_allclose(model.score(PROBS), expected, atol=1e-6)


def test_a_class_that_is_right_more_often_ranks_higher_at_the_same_confidence():
    probs, labels = sample(1, 4000)
    same = np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    score = MonotoneReliability().fit(probs, labels).score(same)
    assert score[1] > score[0] + 0.1 > score[2] + 0.2
    np.testing.assert_allclose(score, expit(logit(0.6) + np.array([0, 1, -1])), atol=0.08)


def test_probabilities_and_labels_stay_as_they_are_and_rows_do_not_see_each_other():
    probs, labels = PROBS.copy(), LABELS.copy()
    model = MonotoneReliability().fit(probs, labels)
    whole = model.score(probs)
    np.testing.assert_array_equal(probs, PROBS)
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_array_equal([model.score(row[None])[0] for row in probs], whole)


@pytest.mark.parametrize("protocol", ["converged", "paper"])
def test_the_order_of_the_nodes_does_not_matter(protocol):
    order = np.random.default_rng(0).permutation(len(PROBS))
    first = MonotoneReliability(protocol=protocol).fit(PROBS, LABELS)
    second = MonotoneReliability(protocol=protocol).fit(PROBS[order], LABELS[order])
    np.testing.assert_allclose(first.score(PROBS), second.score(PROBS), atol=1e-6)


def test_labels_outside_the_nodes_never_matter():
    hidden = LABELS.copy()
    hidden[1::2] = -1
    fits = [
        MonotoneReliability().fit(PROBS, LABELS, calibration_nodes=np.arange(0, 400, 2)),
        MonotoneReliability().fit(PROBS, hidden),
        MonotoneReliability().fit(PROBS[::2], LABELS[::2]),
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.values_, fits[0].values_)


def test_a_class_that_is_never_predicted_has_the_map_of_all_classes():
    two = PROBS.argmax(axis=1) != 2
    model = MonotoneReliability().fit(PROBS, LABELS, calibration_nodes=two)
    predicted, confidence = PROBS[two].argmax(axis=1), PROBS[two].max(axis=1)
    right = predicted == LABELS[two]
    np.testing.assert_allclose(model.values_[2], towards_of(confidence, right), atol=1e-9)
    assert model.n_predicted_[2] == 0


@pytest.mark.parametrize("protocol", ["converged", "paper"])
@pytest.mark.parametrize(
    "case", ["all right", "all wrong", "five nodes", "one node", "one class", "certain", "equal"]
)
def test_degenerate_nodes_leave_a_usable_score(case, protocol):
    probs, labels = PROBS[:100], LABELS[:100]
    if case in ("all right", "all wrong"):
        labels = (probs.argmax(axis=1) + (case == "all wrong")) % 3
    elif case == "one class":
        probs, labels = np.tile([0.8, 0.1, 0.1], (100, 1)), np.arange(100) % 3
    elif case == "certain":
        probs = np.eye(3)[labels]
    elif case == "equal":
        probs = np.full((100, 3), 1 / 3)
    else:
        n = 5 if case == "five nodes" else 1
        probs, labels = probs[:n], labels[:n]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score = MonotoneReliability(protocol=protocol).fit(probs, labels).score(PROBS)
    assert ((score > 0) & (score < 1)).all()
    if case == "all right":
        assert score.min() > 0.3
        assert protocol == "paper" or score.max() < 0.9999  # and not at the limit


def test_a_single_right_prediction_does_not_put_its_class_above_all_others():
    probs = np.vstack([np.tile([0.9, 0.1, 0.0], (200, 1)), [[0.2, 0.2, 0.6]]])
    labels = np.array([0] * 190 + [1] * 10 + [2])
    score = MonotoneReliability().fit(probs, labels).score([[0.9, 0.1, 0.0], [0.2, 0.2, 0.6]])
    assert score[0] > score[1]


def test_hostile_input_is_refused():
    for params, message in [
        ({"prior_nodes": 0}, "prior_nodes is 0; expected a positive number"),
        ({"protocol": "magic"}, "protocol is 'magic'; expected 'converged' or 'paper'"),
    ]:
        with pytest.raises(gnncal.InputError, match=message):
            MonotoneReliability(**params).fit(PROBS, LABELS)
    for probs, labels, message in [
        (PROBS * 2, LABELS, "sum to one"),
        (PROBS, np.full(400, -1), "no nodes to fit on"),
    ]:
        with pytest.raises(gnncal.InputError, match=message):
            MonotoneReliability().fit(probs, labels)
    with pytest.raises(gnncal.InputError, match="the fit had 3 classes"):
        MonotoneReliability().fit(PROBS, LABELS).score(PROBS[:, :2])
