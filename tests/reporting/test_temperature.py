"""Temperatures beside what they depend on, and the curves through them."""

import numpy as np
import pytest

import gnncal
from gnncal.reporting.temperature import temperature_profile

N = 400
PLAIN_LAWS = ["ts", "hts", "hts-log", "entropy-only"]
GRAPH_LAWS = ["hots", "homophily-only", "hots-alpha1", "rbs"]


@pytest.fixture(scope="module")
def task():
    """Logits, labels and an undirected graph without isolated nodes or self-loops."""
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=N)
    logits = 2.0 * generator.normal(size=(N, 3)) + 2.0 * np.eye(3)[labels]
    ring = np.stack([np.arange(N), np.roll(np.arange(N), 1)])
    more = generator.integers(N, size=(2, 900))
    edges = np.concatenate([ring, more[:, more[0] != more[1]]], axis=1)
    return logits, labels, gnncal.Graph(np.concatenate([edges, edges[::-1]], axis=1), N)


def fitted(name, task, **params):
    logits, labels, graph = task
    return gnncal.get_calibrator(name, **params).fit(
        logits, labels, graph, calibration_nodes=range(0, N, 2)
    )


@pytest.mark.parametrize("name", PLAIN_LAWS + GRAPH_LAWS)
def test_the_law_at_a_nodes_own_entropy_and_homophily_is_its_temperature(name, task):
    params = {"n_bins": 2} if name == "rbs" else {}
    calibrator = fitted(name, task, **params)
    profile = temperature_profile(calibrator, task[0], task[2])
    at_nodes = calibrator.temperature_at(profile.entropy, profile.homophily)
    np.testing.assert_allclose(at_nodes, profile.temperature, rtol=1e-6)
    np.testing.assert_allclose(profile.temperature, calibrator.temperature_)


def test_the_structural_law_at_the_centre_is_its_formula(task):
    calibrator = fitted("structural", task)
    entropy = np.array([0.0, 0.4, 1.0])
    at_centre = (2 * calibrator.centre_[0] + 1) / 3  # h of h~ = centre, K = 3
    certain, uncertain = calibrator.certain_temperature_, calibrator.uncertain_temperature_
    expected = certain * (1 - entropy) + uncertain * entropy
    np.testing.assert_allclose(calibrator.temperature_at(entropy, at_centre), expected)
    one_more = calibrator.temperature_at(entropy, at_centre + 0.2)  # h~ is 1.5 * 0.2 larger
    np.testing.assert_allclose(one_more, expected * np.exp(0.3 * calibrator.weights_[0]))


def test_curves_hold_the_other_covariate_at_three_levels(task):
    calibrator = fitted("hots", task)
    profile = temperature_profile(calibrator, task[0], task[2])
    assert profile.has_law
    for curves, other, at in (
        (profile.by_homophily, profile.entropy, lambda x, v: calibrator.temperature_at(v, x)),
        (profile.by_entropy, profile.homophily, lambda x, v: calibrator.temperature_at(x, v)),
    ):
        for curve, level in zip(curves, np.percentile(other, [10, 50, 90]), strict=True):
            assert f"{level:.2f}" in curve.label
            np.testing.assert_allclose(curve.temperature, at(curve.x, level))


def test_one_temperature_for_all_is_one_flat_curve(task):
    profile = temperature_profile(fitted("ts", task), task[0], task[2])
    for (curve,) in (profile.by_homophily, profile.by_entropy):
        assert curve.label == "fitted law"
        np.testing.assert_allclose(curve.temperature, profile.temperature[0])


def test_homophily_is_the_mean_probability_of_the_prediction_among_the_neighbours(task):
    logits, _, graph = task
    profile = temperature_profile(fitted("structural", task), logits, graph)
    probs, (senders, receivers) = gnncal.calibrators.softmax(logits), graph.edge_index
    for node in (0, 17, 399):
        neighbours = senders[receivers == node]
        expected = probs[neighbours, logits[node].argmax()].mean()
        assert profile.homophily[node] == pytest.approx(expected)


def test_a_method_without_temperatures_is_refused(task):
    with pytest.raises(gnncal.InputError, match="vs has no temperatures"):
        temperature_profile(fitted("vs", task), task[0], task[2])


def test_auto_is_shown_as_the_method_it_chose(task):
    calibrator = fitted("auto", task, candidates=["hts"])
    profile = temperature_profile(calibrator, task[0], task[2])
    assert profile.has_law
    np.testing.assert_allclose(profile.temperature, fitted("hts", task).temperature_)


def test_a_sample_is_seeded_sorted_and_of_the_wanted_nodes(task, monkeypatch):
    monkeypatch.setattr("gnncal.reporting.temperature.MAX_NODES", 50)
    calibrator = fitted("hts", task)
    wanted = np.arange(100, 300)
    profile, again = (temperature_profile(calibrator, *task[::2], nodes=wanted) for _ in range(2))
    assert len(profile.nodes) == 50
    assert profile.n_candidates == 200
    assert (np.diff(profile.nodes) > 0).all()
    assert np.isin(profile.nodes, wanted).all()
    np.testing.assert_array_equal(profile.nodes, again.nodes)
    np.testing.assert_array_equal(profile.temperature, calibrator.temperature_[profile.nodes])


def test_without_a_graph_there_is_no_homophily_and_no_curve_against_it(task):
    profile = temperature_profile(fitted("hts", task), task[0])
    assert np.isnan(profile.homophily).all()
    assert profile.by_homophily == ()
    assert len(profile.by_entropy) == 1
