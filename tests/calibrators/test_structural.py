"""The structural law and its relatives: exact derivatives, a second implementation, intervals."""

from __future__ import annotations

import warnings
from copy import copy

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

import gnncal
from gnncal.data.probability import normalised_entropy, softmax
from gnncal.math.formulas import describe_neighbourhoods, redistribute_rest
from gnncal.math.losses import TemperatureLoss
from gnncal.math.structural_fit import (
    FreeModel,
    LawPrior,
    LawRows,
    TemperatureLaw,
    _posterior_derivatives,
    dense_arrow,
    fit_free,
    fit_law,
    gamma_mixture_penalty,
    inverse_of_arrow,
    student_penalty,
)


def random_rows(n=60, n_classes=3, m=2, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, n_classes))
    labels = np.array([rng.choice(n_classes, p=p) for p in softmax(0.7 * logits)])
    covariates = rng.normal(size=(n, m))
    covariates -= covariates.mean(axis=0)
    rows = LawRows(normalised_entropy(logits), covariates, logits.argmax(axis=1))
    return rows, logits, labels


def planted_graph(seed=0, n=3000, n_classes=4):
    """Nodes in pairs of neighbours, logits that are too sharp by a known law."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(n, size=(2, 4 * n))
    graph = gnncal.Graph(np.concatenate([edges, edges[::-1]], axis=1), n)
    honest = 1.5 * rng.normal(size=(n, n_classes))
    labels = np.array([rng.choice(n_classes, p=p) for p in softmax(honest)])
    return graph, honest, labels, rng


def test_temperatures_of_the_fit_are_those_of_a_prediction_to_the_bit():
    # T_c is kept, and its logarithm is not always the one that was fitted. It shows on few nodes.
    for seed in range(200):
        rng = np.random.default_rng(seed)
        logits, labels = rng.normal(size=(12, 2)), rng.integers(2, size=12)
        alone = gnncal.Graph(np.zeros((2, 0), dtype=int), 12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gnncal.GnncalWarning)
            law = gnncal.get_calibrator("structural-temperature").fit(
                logits, labels, alone, calibration_nodes=range(6)
            )
        np.testing.assert_array_equal(law.predict_temperature(logits, alone), law.temperature_)


def test_the_posterior_has_exact_derivatives():
    rows, logits, labels = random_rows()
    loss, prior = TemperatureLoss(logits, labels), LawPrior()
    theta = np.array([0.5, -0.4, 0.3, -0.2, 0.1, 0.05, -0.2])

    def value(theta):
        return _posterior_derivatives(TemperatureLaw.of(theta, 2), rows, loss, prior)[0]

    def gradient(theta):
        return _posterior_derivatives(TemperatureLaw.of(theta, 2), rows, loss, prior)[1]

    _, first, second = _posterior_derivatives(TemperatureLaw.of(theta, 2), rows, loss, prior)
    np.testing.assert_allclose(first, approx_fprime(theta, value, 1e-6), atol=1e-5)
    numeric = approx_fprime(theta, gradient, 1e-6)
    np.testing.assert_allclose(dense_arrow(second), numeric, atol=1e-4)


def test_penalties_by_hand():
    # t with 3 degrees of freedom, scale 1, at x = 1: 2 ln(1 + 1/3), slope 4/4, curvature 4 * 2/16.
    value, slope, curvature = student_penalty(1.0, 1.0, 3.0)
    assert (value, slope, curvature) == pytest.approx((2 * np.log(4 / 3), 1.0, 0.5))
    # Two weights (1, 1), shape 1, rate 1/2: exponent 2, total 3/2, so 2 ln 3 and precision 4/3.
    value, gradient = gamma_mixture_penalty(np.ones(2), 1.0, 0.5)
    assert value == pytest.approx(2 * np.log(3))
    np.testing.assert_allclose(gradient, [4 / 3, 4 / 3])


def test_the_fit_agrees_with_a_straight_line_version():
    rows, logits, labels = random_rows(n=80)

    def negative_log_posterior(theta):
        a, b, w, o = theta[0], theta[1], theta[2:4], theta[4:]
        total = 0.0
        for i in range(len(labels)):
            e = rows.entropy[i]
            log_t = np.log(np.exp(a) * (1 - e) + np.exp(b) * e)
            log_t += rows.covariates[i] @ w + o[rows.predictions[i]]
            z = logits[i] / np.exp(log_t)
            total += np.log(np.exp(z - z.max()).sum()) + z.max() - z[labels[i]]
        total += 2 * np.log1p((a - b - 1.2) ** 2 / 3) + 2 * np.log1p(((a + b) / 2) ** 2 / 0.27)
        total += 2 * np.log1p(w @ w / 2) + 16 * o @ o  # shape 1, rate 1, two weights
        return total

    by_hand = min(
        (minimize(negative_log_posterior, [r / 2, -r / 2, 0, 0, 0, 0, 0]) for r in (1.2, 4, -2)),
        key=lambda run: run.fun,
    )
    law = fit_law(rows, logits, labels, LawPrior()).law
    fitted = np.concatenate([law[:2], law.weights, law.offsets])
    np.testing.assert_allclose(fitted, by_hand.x, atol=2e-3)


def test_neighbourhoods_of_a_path_by_hand():
    # 0 -> 1 -> 2 and an isolated node 3; two classes.
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    nodes = gnncal.Nodes(np.log(probs), gnncal.Graph([[0, 1], [1, 2]], 4))
    found = describe_neighbourhoods(nodes)
    # Node 1 predicts class 0; its neighbours give it (0.9 + 0.2) / 2 = 0.55, normalised 0.1.
    assert found.covariates[1, 0] == pytest.approx(0.1)
    # Their neighbours are only node 1 itself, twice: 0.6, normalised 0.2.
    assert found.covariates[1, 1] == pytest.approx(0.2)
    assert found.covariates[1, 3] == pytest.approx(0.6 - (0.9 + 0.8) / 2)
    np.testing.assert_allclose(found.covariates[0, 4:], [0.0, np.log(2) / 4])
    assert np.isnan(found.covariates[3, :4]).all()
    np.testing.assert_allclose(found.mean_probs[3], 0.5)


def test_a_fit_solves_no_equations_that_grow_with_the_number_of_classes(monkeypatch):
    generator = np.random.default_rng(0)
    n, n_classes = 60, 600
    logits = generator.normal(size=(n, n_classes))
    graph = gnncal.Graph(generator.integers(n, size=(2, 200)), n).to_undirected()
    sizes = []

    def watched(function):
        def solve(matrix, *arguments):
            sizes.append(np.shape(matrix)[-1])
            return function(matrix, *arguments)

        return solve

    for name in ("eigh", "cholesky", "solve", "inv"):
        monkeypatch.setattr(np.linalg, name, watched(getattr(np.linalg, name)))
    labels = generator.integers(n_classes, size=n)
    fitted = gnncal.calibrators.Structural().fit(logits, labels, graph, calibration_nodes=range(50))
    assert 0 < max(sizes) <= 8
    with pytest.raises(gnncal.InputError, match="it has too many parameters"):
        fitted.update(logits, labels, graph, calibration_nodes=range(50, n))


def test_the_inverse_of_an_arrow_is_that_of_the_whole_matrix():
    generator = np.random.default_rng(0)
    hessian = generator.normal(size=(4, 9))
    hessian[:3, :3] = hessian[:3, :3] @ hessian[:3, :3].T + 40 * np.eye(3)
    hessian[3] = 5 + generator.random(9)
    np.testing.assert_allclose(
        inverse_of_arrow(hessian), np.linalg.inv(dense_arrow(hessian)), rtol=0, atol=1e-14
    )


def test_an_undirected_graph_is_told_from_a_directed_one():
    there = np.array([[0, 1, 2], [1, 2, 0]])
    assert not gnncal.Graph(there, 3).is_undirected  # equal degrees, yet a directed cycle
    assert gnncal.Graph(np.concatenate([there, there[::-1]], axis=1), 3).is_undirected
    assert gnncal.Graph(np.empty((2, 0), int), 3).is_undirected


def test_on_an_undirected_graph_both_directions_say_the_same():
    graph, logits, _, _ = planted_graph(n=300)
    once = describe_neighbourhoods(gnncal.Nodes(logits, graph))
    doubled = gnncal.Graph(np.concatenate([graph.edge_index, graph.edge_index], axis=1), 300)
    twice = describe_neighbourhoods(gnncal.Nodes(logits, doubled))
    np.testing.assert_allclose(once.covariates[:, :4], twice.covariates[:, :4])


def test_a_planted_law_is_recovered():
    graph, honest, labels, _ = planted_graph(n=20_000)
    sharp = 2.0 * honest
    # The law is written in the entropy of the sharp logits; a constant factor is one temperature.
    law = gnncal.get_calibrator("structural-temperature").fit(
        sharp, labels, graph, calibration_nodes=np.arange(20_000)
    )
    assert np.median(law.temperature_) == pytest.approx(2.0, rel=0.03)
    assert np.abs(np.log(law.temperature_ / 2.0)).max() < 0.2


def test_degree_in_the_temperature_is_found():
    graph, honest, labels, _ = planted_graph(n=20_000)
    slope = 1.5
    factor = np.exp(slope * (np.log1p(graph.in_degree) / 4 - 0.55))
    law = gnncal.get_calibrator("structural-temperature").fit(
        honest * factor[:, None], labels, graph, calibration_nodes=np.arange(20_000)
    )
    by_degree = law.weights_[4] + law.weights_[5]  # in- and out-degree are the same here
    assert by_degree == pytest.approx(slope, abs=0.25)


def test_one_calibration_node_moves_temperatures_little():
    graph, honest, labels, _ = planted_graph(n=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gnncal.GnncalWarning)
        law = gnncal.get_calibrator("structural-temperature").fit(
            honest, labels, graph, calibration_nodes=[7]
        )
    assert ((law.temperature_ > 0.3) & (law.temperature_ < 4.0)).all()


def test_a_fitted_law_serves_a_graph_it_has_not_seen():
    graph, honest, labels, _ = planted_graph(n=500)
    law = gnncal.get_calibrator("structural-temperature").fit(
        honest, labels, graph, calibration_nodes=np.arange(250)
    )
    half = graph.edge_index[:, (graph.edge_index < 250).all(axis=0)]
    part = gnncal.Graph(half, 250)
    assert law.predict_temperature(honest[:250], part).shape == (250,)


def test_the_bias_of_a_neglected_class_is_found():
    graph, honest, labels, _ = planted_graph(n=5000)
    biased = honest - np.array([1.0, 0.0, 0.0, 0.0])
    vector = gnncal.get_calibrator("structural-vector").fit(
        biased, labels, graph, calibration_nodes=np.arange(5000)
    )
    bias = vector.bias_ - vector.bias_[1:].mean()
    assert bias[0] == pytest.approx(1.0, abs=0.1)


def test_neighbours_are_listened_to_where_they_know_more():
    rng = np.random.default_rng(3)
    n = 2000
    labels = np.repeat([0, 1], n // 2)
    logits = np.where(labels[:, None] == [0, 1], 0.4, 0.0) + rng.normal(size=(n, 2)) * 0.7
    pairs = np.array([rng.choice(np.flatnonzero(labels == c), (2, 5 * n)) for c in (0, 1)])
    graph = gnncal.Graph(np.concatenate([*pairs, *pairs[:, ::-1]], axis=1), n)
    nodes = rng.permutation(n)[: n // 2]
    test = np.setdiff1d(np.arange(n), nodes)
    fitted = gnncal.calibrators.Structural(keep_predictions=False).fit(
        logits, labels, graph, calibration_nodes=nodes
    )
    assert fitted.neighbour_weight_ > 0.5
    assert (fitted.predict(logits, graph)[test] == labels[test]).mean() > 0.95
    assert (logits.argmax(axis=1) == labels)[test].mean() < 0.8


def test_the_rest_is_divided_in_proportion_and_no_class_overtakes():
    probs = np.array([[0.2, 0.6, 0.2], [0.5, 0.3, 0.2]])
    divided = redistribute_rest(probs, np.array([0, 0]), np.array([0.4, 0.6]))
    # 0.6 is left: 3 : 1 would give 0.45 and 0.15, but class 1 may not pass 0.4.
    np.testing.assert_allclose(divided[0], [0.4, 0.4, 0.2])
    np.testing.assert_allclose(divided[1], [0.6, 0.24, 0.16])


def test_a_rest_that_the_free_method_gives_to_nobody_is_divided_equally():
    probs = np.array([[1.0, 1e-40, 1e-45], [1.0, 0.0, 0.0]])
    divided = redistribute_rest(probs, np.array([0, 0]), np.array([0.8, 0.8]))
    np.testing.assert_allclose(divided, [[0.8, 0.1, 0.1]] * 2)


def test_the_remainder_keeps_the_confidence_of_the_law_averaged_over_its_posterior():
    graph, honest, labels, _ = planted_graph(n=600)
    nodes = np.arange(300)
    law = gnncal.get_calibrator("structural-temperature").fit(
        honest, labels, graph, calibration_nodes=nodes
    )
    fitted = gnncal.calibrators.Structural().fit(honest, labels, graph, calibration_nodes=nodes)
    T, sigma = law.temperature_, np.sqrt(0.5 * variances_of_ln_T(law, honest, graph))
    expected = np.zeros(600)
    places, weights = np.polynomial.hermite_e.hermegauss(3)
    for place, weight in zip(places, weights / weights.sum(), strict=True):
        scaled = honest / (T * np.exp(place * sigma))[:, None]
        expected += weight * (np.exp(scaled).max(axis=1) / np.exp(scaled).sum(axis=1))
    weight = fitted.floor_.sum()
    expected = (1 - weight) * expected + weight / honest.shape[1]
    confidence = fitted.predict_proba(honest, graph).max(axis=1)
    np.testing.assert_allclose(confidence, expected, atol=1e-9)
    fitted.averaging_ = 0.0  # the most probable temperature alone
    fitted.floor_ = law.floor_
    confidence = fitted.predict_proba(honest, graph).max(axis=1)
    np.testing.assert_allclose(confidence, law.predict_proba(honest, graph).max(axis=1), atol=1e-9)


def variances_of_ln_T(law, logits, graph):
    """Move each parameter a little; the squares of the moves, weighed by the covariance."""
    theta = np.concatenate(
        [
            np.log([law.certain_temperature_, law.uncertain_temperature_]),
            law.weights_,
            law.class_offsets_,
        ]
    )
    moves, step = [], 1e-6
    for i in range(len(theta)):
        ends = []
        for sign in (-1.0, 1.0):
            other = theta.copy()
            other[i] += sign * step
            moved = copy(law)
            moved.certain_temperature_, moved.uncertain_temperature_ = np.exp(other[:2])
            moved.weights_, moved.class_offsets_ = other[2:8], other[8:]
            ends.append(np.log(moved.predict_temperature(logits, graph)))
        moves.append((ends[1] - ends[0]) / (2.0 * step))
    moves = np.array(moves)
    return np.einsum("in,ij,jn->n", moves, law.covariance_, moves)


def test_a_fit_to_labels_that_do_not_follow_the_logits_stops_at_its_limits_and_says_so():
    generator = np.random.default_rng(2)
    n, n_classes = 2000, 10
    logits = 10 * generator.normal(size=(n, n_classes))
    labels = generator.integers(n_classes, size=n)
    graph = gnncal.Graph(generator.integers(n, size=(2, 5 * n)), n)
    with pytest.warns(gnncal.GnncalWarning, match="reached a limit: the temperature of"):
        fitted = gnncal.calibrators.Structural().fit(
            logits, labels, graph, calibration_nodes=range(n)
        )
    assert fitted.converged_
    assert fitted.n_iter_ < 100  # there were 500
    assert fitted.fit_report_.bounds_hit == ("temperature",)
    assert "the labels hardly follow the logits" in fitted.fit_report_.notes[0]
    assert fitted.fit_report_.loss_after == pytest.approx(np.log(n_classes), abs=0.01)


def test_probabilities_do_not_depend_on_how_many_rows_are_computed_at_once(monkeypatch):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(300, 4))
    labels = generator.integers(4, size=300)
    graph = gnncal.Graph(generator.integers(300, size=(2, 1500)), 300)
    for fitted in (
        gnncal.calibrators.Structural(),
        gnncal.calibrators.Structural(keep_predictions=False),
    ):
        fitted.fit(logits, labels, graph, calibration_nodes=range(150))
        whole = fitted.predict_proba(logits, graph)
        with monkeypatch.context() as patch:
            patch.setattr("gnncal.calibrators.structural.NUMBERS_IN_CACHE", 28)
            np.testing.assert_allclose(
                fitted.predict_proba(logits, graph), whole, rtol=0, atol=1e-14
            )


def test_a_neighbourhood_that_decides_is_not_held_back_by_the_prior():
    """Where support alone tells right from wrong, a normal prior of w held it back."""
    generator, n = np.random.default_rng(0), 2000
    labels = (generator.random(n) < 0.2).astype(int)
    support = generator.normal(scale=0.2, size=n)
    wrong = generator.random(n) < 1 / (1 + np.exp(20 * support + 1))
    logits = np.where(wrong != labels.astype(bool), 1.0, -1.0)[:, None] * [-0.5, 0.5]
    rows = LawRows(np.full(n, 0.8), np.column_stack([support, np.zeros((n, 5))]), logits.argmax(1))
    law = fit_law(rows, logits, labels, LawPrior()).law
    flat = np.full((n, 2), 0.5)
    model = FreeModel.of(rows, logits, flat, labels, None, uses_neighbours=True)
    free = fit_free(model, law).parameters.law
    assert abs(law.weights[0]) > 5
    assert free.weights[0] == pytest.approx(law.weights[0], rel=0.2)


def test_with_two_classes_a_larger_margin_never_gives_a_smaller_probability():
    """One law of temperature for all nodes must keep their order; a steep one turned it around."""
    generator, n = np.random.default_rng(1), 3000
    margin = np.concatenate([generator.normal(0, 0.3, n // 2), generator.normal(0, 8, n // 2)])
    labels = np.where(np.arange(n) < n // 2, margin > 0, generator.random(n) < 0.5).astype(int)
    logits = margin[:, None] * [-0.5, 0.5]
    entropy = normalised_entropy(logits)
    rows = LawRows(entropy, np.zeros((n, 6)), logits.argmax(axis=1))
    law = fit_law(rows, logits, labels, LawPrior()).law
    flat = np.full((n, 2), 0.5)
    model = FreeModel.of(rows, logits, flat, labels, None, uses_neighbours=False)
    found = fit_free(model, law).parameters
    order = np.argsort(margin)

    def falls(law):
        scaled = margin / np.exp(law.log_temperature(rows))
        return -np.diff(scaled[order]).min()

    assert falls(law) > 0.01
    assert falls(found.law) < 1e-6
