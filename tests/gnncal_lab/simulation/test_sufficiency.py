"""Appendix A.4: homophily is enough under class symmetry, and what each assumption is worth."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import multivariate_normal

import gnncal
from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.experiments.sufficiency import common_tau, sufficiency
from gnncal_lab.simulation.neighbourhoods import (
    aggregate_means,
    balanced,
    degrees_vary,
    drawn,
    hub,
    log_joint,
    one_other,
    span_coordinates,
    two_shapes,
)
from gnncal_lab.simulation.symmetric_head import symmetrised, train_head

MODEL = CSBM(separation=1.0)
MAKERS = (balanced, one_other, two_shapes, drawn, degrees_vary, hub)


@pytest.mark.parametrize("make", MAKERS)
def test_every_neighbourhood_has_the_given_homophily(make):
    kinds = make(MODEL, 0.3)
    assert kinds.weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(kinds.share.sum(axis=2), 1)
    np.testing.assert_allclose(np.einsum("tcc->tc", kinds.share), 0.3)
    assert (kinds.share >= 0).all()


def test_drawn_neighbours_have_the_expected_composition_and_multinomial_variance():
    kinds = drawn(MODEL, 0.4)
    assert kinds.weight.size == 84  # 6 others over 4 classes: 9 choose 3
    mean = np.einsum("t,tck->ck", kinds.weight, kinds.share)
    np.testing.assert_allclose(mean, balanced(MODEL, 0.4).share[0], atol=1e-12)
    variance = np.einsum("t,t->", kinds.weight, (kinds.share[:, 0, 1] - mean[0, 1]) ** 2)
    assert variance == pytest.approx(6 * 0.25 * 0.75 / 10**2)


def test_shapes_do_not_tell_which_class_is_which():
    kinds = drawn(MODEL, 0.7)  # 3 others: 3, 2 + 1, 1 + 1 + 1
    assert np.unique(kinds.shape).size == 3
    for shape in np.unique(kinds.shape):
        rows = np.sort(kinds.share[kinds.shape == shape][:, 0], axis=1)
        np.testing.assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))


def test_centred_means_keep_their_angles_in_the_space_they_span():
    means = span_coordinates(MODEL.class_means)
    assert means.shape == (5, 4)
    expected = np.eye(5) - 0.2  # one-hot means of length one
    np.testing.assert_allclose(means @ means.T, expected, atol=1e-12)


def test_the_posterior_is_that_of_normal_densities():
    kinds, means = two_shapes(MODEL, 0.5), span_coordinates(MODEL.class_means)
    centres, variance = aggregate_means(kinds, means), 1 / (kinds.degree + 1)
    x = np.random.default_rng(0).normal(size=(3, 4))
    for row, found in zip(x, log_joint(x, centres, variance, kinds.weight), strict=True):
        density = np.array(
            [
                [w * multivariate_normal.pdf(row, centre, v) for centre in by_class]
                for w, v, by_class in zip(kinds.weight, variance, centres, strict=True)
            ]
        )
        np.testing.assert_allclose(
            softmax(found.ravel()), density.ravel() / density.sum(), rtol=1e-9, atol=1e-14
        )


def test_the_common_temperature_minimises_the_log_loss():
    generator = np.random.default_rng(0)
    scores, labels = generator.normal(size=(60, 3)), generator.integers(3, size=60)
    found = common_tau(scores, scores[np.arange(60), labels], 5.0)
    best = minimize_scalar(
        lambda t: -log_softmax(t * scores, axis=1)[np.arange(60), labels].mean(),
        bounds=(-5, 5),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found == pytest.approx(best.x, abs=1e-5)
    assert common_tau(scores, scores.max(axis=1), 5.0) == 5.0  # never wrong: the bound
    assert common_tau(scores, scores.min(axis=1), 5.0) == -5.0


def test_as_assumed_the_best_temperature_is_the_law_and_nothing_is_lost(records):
    record = records["sufficiency"]
    world = record.worlds["as assumed"]
    np.testing.assert_allclose(world.tau.value, record.law, rtol=1e-7)
    np.testing.assert_allclose(world.lost.value, 0, atol=1e-12)
    np.testing.assert_allclose(world.gained_by_shape.value, 0, atol=1e-12)


def test_symmetric_worlds_have_one_temperature_for_all_classes_and_others_do_not(records):
    record = records["sufficiency"]
    for name, world in record.worlds.items():
        if world.symmetric:
            assert world.class_p_value.min() > 0.05 / world.class_p_value.size / 6, name
    assert record.worlds["hub class"].class_p_value[1] < 0.01


def test_without_balance_a_temperature_from_h_loses_and_the_law_loses_more(records):
    record = records["sufficiency"]
    for name, world in record.worlds.items():
        if name != "as assumed":
            assert world.lost.low[1] > 0, name
            assert (world.lost_by_law.value >= world.lost.value - 1e-12).all(), name


def test_the_shape_of_a_neighbourhood_helps_only_where_shapes_differ(records):
    worlds = records["sufficiency"].worlds
    for name, world in worlds.items():
        gained = world.gained_by_shape
        if name in ("classes drawn", "two shapes", "degrees vary"):
            assert gained.low[1] > 0, name
        else:
            np.testing.assert_allclose(gained.value, 0, atol=1e-12)


def test_the_symmetrised_head_is_the_mean_over_all_permutations():
    means = span_coordinates(CSBM(n_classes=4).class_means)
    head = np.random.default_rng(0).normal(size=(4, 3))
    turned = []
    for order in permutations(range(4)):
        rotation = np.linalg.lstsq(means, means[list(order)], rcond=None)[0].T  # R m_c = m_order(c)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
        permuted = np.empty_like(head)
        permuted[list(order)] = head @ rotation.T  # P W R^-1
        turned.append(permuted)
    np.testing.assert_allclose(symmetrised(head, means), np.mean(turned, axis=0), atol=1e-12)


def test_a_symmetric_head_stays_as_it_is():
    means = span_coordinates(MODEL.class_means)
    np.testing.assert_allclose(symmetrised(3.0 * means, means), 3.0 * means, atol=1e-12)


def test_a_trained_head_has_no_gradient_left():
    generator = np.random.default_rng(0)
    x, labels = generator.normal(size=(300, 2)), generator.integers(3, size=300)
    head = train_head(x, labels, 3)
    gradient = (softmax(x @ head.T, axis=1) - np.eye(3)[labels]).T @ x / 300
    np.testing.assert_allclose(gradient, 0, atol=1e-5)
    np.testing.assert_allclose(head.sum(axis=0), 0, atol=1e-12)


def test_trained_heads_become_symmetric_and_symmetrising_helps(records):
    head = records["sufficiency"].head
    assert (np.diff(head.asymmetry.value) < 0).all()
    assert head.slope.value == pytest.approx(-0.5, abs=0.15)
    assert head.excess.value[0] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": CSBM(n_classes=2)}, "at least 3 classes"),
        ({"homophily": (0.1,)}, "no positive temperature"),
        ({"homophily": (0.33,)}, "in steps of 1 / degree"),
        ({"model": CSBM(mean_degree=9.5)}, "in steps of 1 / degree"),
    ],
)
def test_sufficiency_refuses_what_it_cannot_count(options, message):
    with pytest.raises(gnncal.InputError, match=message):
        sufficiency(**options)
